"""What does the outcome depend on: the treatment, the workload, their pairing, or the seed?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.comparison import by_metric
from initbench.reporting.columns import Column
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.comparison import variance_words
from initbench.statistics.variance import VarianceSplit, split_variance

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from initbench.metric import Metric
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence


@dataclass(frozen=True)
class Variance(Analysis):
    """Shares of the variance of the outcome.

    Attributes:
        results: that it is of.
        splits: of each metric.
    """

    results: Results
    splits: Sequence[tuple[Metric, VarianceSplit]]
    name: ClassVar[str] = "variance"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"What does the {self.results.terms.outcome} depend on?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The largest share, for each metric."""
        terms = self.results.terms
        several = len(self.splits) > 1
        return [
            replace(
                variance_words(split, replace(terms, metric=metric), place=self.results.names.noun),
                subject=metric.title if several else "",
            )
            for metric, split in self.splits
        ]

    @cached_property
    def tables(self) -> list[Table]:
        """All shares."""
        rows = [
            {
                "metric": metric.title,
                **{name: getattr(split, name) for name in ("treatment", "interaction", "workload", "seed")},
                **dict(zip(("workloads", "treatments", "seeds"), split.shape, strict=True)),
                "of": "ranks" if split.of_ranks else "values",
            }
            for metric, split in self.splits
            if split.is_known
        ]
        if not rows:
            return []
        treatment, noun = self.results.terms.treatment, self.results.names.noun
        columns = [
            Column("Outcome", "text", "metric"),
            Column("Of its", "text", "of"),
            Column(f"Between\n{treatment}s", "percent", "treatment"),
            Column(f"Which {treatment}\nmeets which {noun}", "percent", "interaction"),
            Column(f"Between\n{noun}s", "percent", "workload"),
            Column("Between\nseeds", "percent", "seed"),
            Column(f"{capitalized(noun)}s", "count", "workloads"),
            Column(f"{capitalized(treatment)}s", "count", "treatments"),
            Column("Seeds", "count", "seeds"),
        ]
        note = "Shares of the variance, estimated by moments, without intervals; of ranks where a trial diverged."
        return [Table("variance", "Shares of the variance", pd.DataFrame(rows), columns, note)]


def variance(results: Results | str | Path) -> Variance:
    """Return what the outcome depends on.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    return Variance(
        results, [(metric, split_variance(own)) for metric, own in by_metric(results.trials, results.metrics)]
    )
