"""How do the numbers compare with the published ones?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from initbench.errors import InitbenchError
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.claims import evidence_of
from initbench.reporting.columns import Column
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.published import differs_words, nearest_words, value_text
from initbench.statistics.intervals import mean_estimate, values_deviation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from initbench.claims.claim import Published, PublishedValue
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_COLUMNS = [
    *("source", "where", "what", "published", "published_spread", "published_n"),
    *(
        "measured",
        "measured_low",
        "measured_high",
        "seeds",
        "difference",
        "in_spreads",
        "published_text",
        "measured_text",
    ),
]


@dataclass(frozen=True)
class PublishedNumbers(Analysis):
    """The numbers of papers beside those of the suites.

    Attributes:
        results: that it is of.
        published: of each suite.
    """

    results: Results
    published: Sequence[Published]
    name: ClassVar[str] = "published"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "How do the numbers compare with the published ones?"

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One for each published number: errors and accuracies as fractions."""
        return [self._row(paper, value) for paper in self.published for value in paper.numbers]

    def _row(self, paper: Published, value: PublishedValue) -> dict[str, Any]:
        evidence = evidence_of(self.results)
        lacks = ""
        try:
            groups = evidence.groups([value.of], value.measure)
        except InitbenchError as error:
            groups, lacks = [], str(error)
        measured = mean_estimate(groups[0].sides[0]) if groups else mean_estimate([])
        difference = measured.value - value.value if not paper.differs else math.nan
        metric = evidence.metric(value.measure)
        return {
            "source": paper.source,
            "where": value.where,
            "what": value.what,
            "published": value.value,
            "published_spread": math.nan if value.spread is None else value.spread,
            "published_n": math.nan if value.n is None else value.n,
            "measured": measured.value,
            "measured_low": measured.low,
            "measured_high": measured.high,
            "seeds": measured.n,
            "difference": difference,
            "in_spreads": difference / _combined(value, values_deviation(measured), measured.n),
            "published_text": value_text(value.value, value.spread, metric),
            "lacks": lacks,
            "measured_text": value_text(measured.value, measured.half_width if measured.has_interval else None, metric),
        }

    @cached_property
    def sentences(self) -> list[Sentence]:
        """What is compared and what differs."""
        known = [row for row in self.rows if not math.isnan(row["measured"])]
        return [
            nearest_words(len(known), len(self.rows)),
            *(differs_words(p.source, p.differs) for p in self.published),
        ]

    @property
    def remarks(self) -> list[str]:
        """Why a published number has none beside it, where that is not for want of trials."""
        return [f"{row['what']}: {row['lacks']}." for row in self.rows if row["lacks"]]

    @cached_property
    def tables(self) -> list[Table]:
        """Every published number with the measured one."""
        columns = [
            Column("Where", "text", "where"),
            Column("What", "text", "what"),
            Column("Published", "text", "published_text"),
            Column("Measured", "text", "measured_text"),
            Column("Seeds", "count", "seeds"),
            Column("Difference in units\nof the combined spread", "coefficient", "in_spreads"),
        ]
        note = (
            "Measured: the mean over seeds with the half-width of its 95 % interval. Where conditions are the paper’s "
            "the difference of the two means is divided by √(s₁² / n₁ + s₂² / n₂), with s the standard deviations over "
            "runs and n their number, those that the paper prints for its own."
        )
        frame = pd.DataFrame(self.rows, columns=_COLUMNS)
        return [Table("published", "Published beside measured", frame, columns, note, names=self.results.names)]


def _combined(value: PublishedValue, deviation: float, seeds: int) -> float:
    """Return the standard error of the difference of two means; NaN where the paper does not say its own."""
    if value.spread is None or value.spread_is is None or not seeds:
        return math.nan
    if value.spread_is == "standard_error":
        own = value.spread
    elif value.n is None:
        return math.nan
    else:
        own = value.spread / math.sqrt(value.n)
    return math.hypot(own, deviation / math.sqrt(seeds)) or math.nan


def published(results: Results | str | Path) -> PublishedNumbers | None:
    """Return the published numbers of the suites beside the measured ones; None where they have none.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    papers = [stated.published for stated in results.source.stated if stated.published is not None]
    return PublishedNumbers(results, papers) if papers else None
