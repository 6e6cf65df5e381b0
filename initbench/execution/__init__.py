"""Trials run, and what comes of them recorded."""
