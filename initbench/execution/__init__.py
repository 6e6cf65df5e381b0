"""Trials are run and recorded."""
