"""The questions of the report, one per file: verdicts for the top of the page, figures and tables for its sections."""
