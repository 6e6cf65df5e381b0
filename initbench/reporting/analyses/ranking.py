"""Treatments ranked over the workloads on which all of them ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from initbench.statistics.cells import Complete, complete, table
from initbench.statistics.ranks import RankComparison, compare_ranks

if TYPE_CHECKING:
    from initbench.reporting.results import Results


class Ranking(NamedTuple):
    """Treatments ranked over workloads.

    Attributes:
        whole: the cells' `ranked` values without gaps.
        ranks: of these.
    """

    whole: Complete
    ranks: RankComparison


def rank(results: Results) -> Ranking:
    """Return the treatments ranked over the workloads; cells that did not train share the worst rank but divergence."""
    return results.once(_rank)


def _rank(results: Results) -> Ranking:
    whole = complete(table(results.cells, "ranked"))
    return Ranking(whole, compare_ranks(whole.table))
