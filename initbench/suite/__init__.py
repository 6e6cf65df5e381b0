"""Suites: from a YAML file to its trials."""
