"""Published numbers in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted, quotient
from initbench.reporting.sentence import Sentence
from initbench.reporting.words.sentence import bolded

if TYPE_CHECKING:
    from initbench.metric import Metric


def nearest_words(known: int, all_of_them: int) -> Sentence:
    """Return how many published numbers have a measured one beside them.

    Args:
        known: those that have.
        all_of_them: how many there are.
    """
    verb = "has" if all_of_them == 1 else "have"
    return bolded(f"{known} of {counted(all_of_them, 'published number')} {verb} a measured one beside it.")


def differs_words(source: str, differs: str) -> Sentence:
    """Return what is not as in the paper.

    Args:
        source: the paper.
        differs: as the suite says it; empty where conditions are the paper's.
    """
    text = f"The conditions are not the paper’s: {differs}" if differs else "The conditions are the paper’s."
    return bolded(text, subject=source)


def value_text(value: float, spread: float | None, metric: Metric | None) -> str:
    """Return a number with its spread: ``90.00 ± 0.10 %``, ``0.54``.

    Args:
        value: NaN where there is none.
        spread: None for none.
        metric: that it is of; None for one that is none.
    """
    if metric is not None:
        return metric.text(value, math.nan if spread is None else spread)
    return quotient(value) + ("" if spread is None or math.isnan(value) else f" ± {quotient(spread)}")
