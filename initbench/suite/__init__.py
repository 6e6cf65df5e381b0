"""Suites: from a YAML file to the trials that it asks for. Components are imported when a file is loaded."""
