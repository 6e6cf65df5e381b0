"""How far below the largest stable learning rate is the best one?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, counted, natural
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.rate_figures import rate_figures
from initbench.reporting.columns import Column
from initbench.reporting.results import as_results
from initbench.reporting.searches import tries
from initbench.reporting.tables import Table
from initbench.reporting.words.rates import stable_words
from initbench.statistics.rates import ratio_over_cells, ratio_over_seeds
from initbench.statistics.rates import stable_rates as of_cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence
    from initbench.statistics.intervals import Estimate
    from initbench.statistics.rates import StableRate

_COLUMNS = ["workload", "treatment", "best", "stable", "ratio", "ratio_low", "ratio_high", "seeds", "open_seeds"]


@dataclass(frozen=True)
class StableRates(Analysis):
    """The largest stable rate of every cell against its best one.

    Attributes:
        results: that it is of.
        cells: of each workload and treatment, those of its seeds at which some rate trained.
    """

    results: Results
    cells: Mapping[tuple[str, str], Sequence[StableRate]]
    name: ClassVar[str] = "stable_rates"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "How far below the largest stable rate is the best one?"

    @cached_property
    def over(self) -> dict[str, tuple[Estimate, int, bool]]:
        """For each treatment the ratio of its largest stable rate to its best one, over all workloads.

        Geometric means: of the seeds of each workload, and of these over the workloads, which are the sample; over the
        seeds of one workload where there is one alone. Intervals are simultaneous over the treatments; where all values
        are equal they are what the spacing of the rates leaves.

        Returns:
            Treatment → the ratio, over how many workloads it is, and whether some seed's largest stable rate is the
            largest that it tried, so that the ratio is one at least.
        """
        names = sorted({treatment for _, treatment in self.cells}, key=natural)
        found = {}
        for name in names:
            each = [seeds for (_, treatment), seeds in self.cells.items() if treatment == name]
            every = [one for seeds in each for one in seeds]
            if len(each) > 1:
                ratio = ratio_over_cells([ratio_over_seeds(seeds) for seeds in each], every, len(names))
            else:
                ratio = ratio_over_seeds(each[0], len(names))
            found[name] = (ratio, len(each), any(one.is_open for one in every))
        return found

    @cached_property
    def sentences(self) -> list[Sentence]:
        """One for each treatment, the largest ratio first."""
        names, found = self.results.names, []
        several = len({workload for workload, _ in self.cells}) > 1
        for name, (ratio, workloads, is_open) in sorted(self.over.items(), key=lambda item: -item[1][0].value):
            over = f" over {names.workloads_of(workloads)}" if workloads > 1 else f" over {counted(ratio.n, 'seed')}"
            if several and workloads == 1:
                over += " of one"
            found.append(stable_words(names.treatment(name), ratio, over=over, at_least=is_open))
        return found

    @cached_property
    def tables(self) -> list[Table]:
        """The ratio of every cell."""
        rows: list[dict[str, Any]] = []
        for (workload, treatment), seeds in self.cells.items():
            ratio = ratio_over_seeds(seeds)
            rows.append(
                {
                    "workload": workload,
                    "treatment": treatment,
                    "best": math.exp(np.mean([math.log(one.best) for one in seeds])),
                    "stable": math.exp(np.mean([math.log(one.stable) for one in seeds])),
                    "ratio": ratio.value,
                    "ratio_low": ratio.low,
                    "ratio_high": ratio.high,
                    "seeds": len(seeds),
                    "open_seeds": sum(one.is_open for one in seeds),
                }
            )
        terms = self.results.terms
        columns = [
            Column(capitalized(self.results.names.noun), "workload", "workload"),
            Column(capitalized(terms.treatment), "treatment", "treatment"),
            Column("Best\nrate", "quotient", "best"),
            Column("Largest\nstable rate", "quotient", "stable"),
            Column("Ratio", "quotient", "ratio", "ratio_low", "ratio_high"),
            Column("Seeds", "count", "seeds"),
            Column("Seeds whose largest stable\nrate is the largest tried", "count", "open_seeds"),
        ]
        note = (
            "Of each seed’s search: the rate with the best validation outcome, and the largest rate up to which, from "
            "the best on, every rate that was tried trained (it did not diverge, and is better than chance). Geometric "
            "means over the seeds, with 95 % intervals from 3 seeds on; where these all agree, the range that the "
            "spacing of the rates leaves."
        )
        title = "The largest stable rate of each cell against its best one"
        frame = pd.DataFrame(rows, columns=_COLUMNS)
        return [Table("stable_rates", title, frame, columns, note, names=self.results.names)]

    @cached_property
    def figures(self) -> list[Figure]:
        """Both rates by batch size, for workloads that differ in nothing else."""
        return rate_figures(self.results, self.cells)

    @property
    def remarks(self) -> list[str]:
        """How finely this is known."""
        texts = ["Rates are known to no more than the spacing of those that were tried."]
        if any(one.is_open for seeds in self.cells.values() for one in seeds):
            texts.append("Where the largest rate that was tried is stable, the ratio is that much at least.")
        return texts


def stable_rates(results: Results | str | Path) -> StableRates | None:
    """Return how far below the largest stable rate the best one lies; None where no search over rates trained.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is None or not results.tune.has_rate:
        return None
    known = tries(results)
    known = known[known["workload"].isin(results.names.workloads) & known["treatment"].isin(results.names.treatments)]
    cells = of_cells(known)
    return StableRates(results, cells) if cells else None
