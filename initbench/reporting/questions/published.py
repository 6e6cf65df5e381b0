"""How do the numbers compare with the published ones?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from initbench.claims.claim import Published, PublishedValue
from initbench.comparing.formatting import counted, quotient
from initbench.errors import InitbenchError
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.questions.claims import evidence_of
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import say
from initbench.reporting.sizes import mean_words
from initbench.reporting.tables import table_of
from initbench.statistics.intervals import mean_estimate, values_deviation

_COLUMNS = [
    *("source", "where", "what", "published", "published_spread", "published_n", "measured", "measured_low"),
    *("measured_high", "seeds", "difference", "in_spreads", "published_text", "measured_text"),
]


def published(results: Results | str | Path) -> Answer | None:
    """Return the published numbers of the suites beside the measured ones; None if they have none.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    papers = [stated.published for stated in results.source.stated if stated.published is not None]
    if not papers:
        return None
    rows = [_row(paper, value, results) for paper in papers for value in paper.numbers]
    known = sum(row["seeds"] > 0 for row in rows)
    verb = "has" if 1 in {known, len(rows)} else "have"
    sentences = [say(f"{known} of {counted(len(rows), 'published number')} {verb} a measured counterpart.")]
    for paper in papers:
        text = "The conditions are not the paper’s: {differs}" if paper.differs else "The conditions are the paper’s."
        sentences.append(say(text, differs=paper.differs, subject=paper.source))
    note = (
        "Measured: the mean over seeds with the half-width of its 95 % interval. If conditions are the paper’s, the "
        "difference of the two means is divided by √(s₁² / n₁ + s₂² / n₂), with s the standard deviation over runs "
        "and n their number, as the paper prints them for its own."
    )
    show = "where what published_text measured_text seeds in_spreads"
    table = table_of(
        results, "published", "Published beside measured", pd.DataFrame(rows, columns=_COLUMNS), show, note
    )
    remarks = [f"{row['what']}: {row['lacks']}." for row in rows if row["lacks"]]
    question = "How do the numbers compare with the published ones?"
    return Answer("published", question, sentences, [table], remarks=remarks, facts=rows)


def _row(paper: Published, value: PublishedValue, results: Results) -> dict[str, Any]:
    """Return a published number with the measured one; errors and accuracies as fractions."""
    evidence, lacks = evidence_of(results), ""
    try:
        groups = evidence.groups([value.of], value.measure)
    except InitbenchError as error:
        groups, lacks = [], str(error)
    measured = mean_estimate(groups[0].sides[0] if groups else [])
    if groups and (diverged := len(groups[0].diverged[0])):
        lacks = f"{diverged} of {counted(measured.n, 'trial')} diverged, so there is no mean"
    elif measured.n and not math.isfinite(measured.value):
        lacks = "a measurement overflowed, so there is no mean"
    difference = math.nan if paper.differs else measured.value - value.value
    metric = evidence.metric(value.measure)
    return {
        "source": paper.source,
        "where": value.where,
        "what": value.what,
        "published": value.value,
        "published_spread": math.nan if value.spread is None else value.spread,
        "published_n": math.nan if value.n is None else value.n,
        **measured.columns("measured"),
        "seeds": measured.n,
        "difference": difference,
        "in_spreads": difference / _combined(value, values_deviation(measured), measured.n),
        "published_text": _text(value.value, value.spread, metric),
        "measured_text": _text(measured.value, measured.half_width if measured.has_interval else None, None)
        if metric is None
        else mean_words(measured.value, measured.half_width, metric),
        "lacks": lacks,
    }


def _combined(value: PublishedValue, deviation: float, seeds: int) -> float:
    """Return the standard error of the difference of two means; NaN if the paper does not give its own."""
    if value.spread is None or value.spread_is is None or not seeds:
        return math.nan
    if value.spread_is == "standard_error":
        standard_error = value.spread
    elif value.n is None:
        return math.nan
    else:
        standard_error = value.spread / math.sqrt(value.n)
    return math.hypot(standard_error, deviation / math.sqrt(seeds)) or math.nan


def _text(value: float, spread: float | None, metric: Metric | None) -> str:
    """Return a number with its spread: ``90.00 ± 0.10 %``, ``0.54``."""
    if metric is not None:
        return metric.text(value, math.nan if spread is None else spread)
    return quotient(value) + ("" if spread is None or math.isnan(value) else f" ± {quotient(spread)}")
