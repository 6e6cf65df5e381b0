"""The old name of `questions.line_figures`."""

from initbench.reporting.questions.line_figures import MOST_DRAWN, drawn, in_words

__all__ = ["MOST_DRAWN", "drawn", "in_words"]
