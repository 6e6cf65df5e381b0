"""Suites: from a YAML file to the trials that it asks for. No torch until a plan is made."""
