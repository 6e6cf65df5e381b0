"""The old name of `questions.probe_results`."""

from initbench.reporting.questions.probe_results import probe_columns

__all__ = ["probe_columns"]
