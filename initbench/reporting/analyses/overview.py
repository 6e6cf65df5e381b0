"""What happened: who trains everywhere, who fails where, who is best where that can be told, what is not known."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.happened import Cost, Happened, Unknown
from initbench.reporting.analyses.heat_cells import heat_map, order_of
from initbench.reporting.analyses.lead import Lead, find_lead
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.heat_map import heat_map as heat_map_chart
from initbench.reporting.columns import Column
from initbench.reporting.questions.claims import claims
from initbench.reporting.questions.comparison import rank
from initbench.reporting.questions.cost import initialization_costs
from initbench.reporting.questions.protocols import main_change
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.overview import overview_sentences
from initbench.statistics.intervals import MINIMUM_SEEDS
from initbench.statistics.paired import compare_paired
from initbench.statistics.ranks import RankComparison, workloads_for_one_rank

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.analyses.heat_map import HeatMap
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_MUCH = 0.1
"""Of the training: what initialization costs is said from here on."""


class Overview(Happened, Analysis):
    """What happened, with its sentences, its table and its figure."""

    name: ClassVar[str] = "overview"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "What happened?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """At most five sentences."""
        return overview_sentences(self)

    @property
    def tables(self) -> list[Table]:
        """The cells of the map."""
        heads = {"treatment": self.results.terms.treatment.capitalize(), "workload": "Workload", "state": "State"}
        columns = [
            Column(head, "text", column) for column, head in (heads | {"text": "Outcome", "note": "Seeds"}).items()
        ]
        return [Table("overview", "What each cell came to", self.map.frame, columns)]

    @property
    def figures(self) -> list[Figure]:
        """The map, drawn; a page has it as a table."""
        title = self.map.metric or "outcome of each workload"
        alt = " ".join(map(str, self.sentences))
        return [Figure("overview", f"What happened: {title}", alt, heat_map_chart(self.map.frame))]


def overview(results: Results | str | Path) -> Overview:
    """Return what happened.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    judged = results.judged
    order = order_of(results)
    workloads = sorted(set(results.trials["workload"]))
    trained: dict[str, set[str]] = defaultdict(set)
    failing: dict[str, dict[str, tuple[str, ...]]] = {"untrained": {}, "diverged": {}}
    for workload, own in judged.groupby("workload", sort=False):
        states = dict(zip(own["treatment"], own["state"], strict=True))
        for name in order:
            if states.get(name) == "trained":
                trained[name].add(str(workload))
        for state, found in failing.items():
            if names := tuple(name for name in order if states.get(name) == state):
                found[str(workload)] = names
    counts = {name: len(trained[name]) for name in order}
    ran = results.cells["treatment"].value_counts()
    top = max(counts.values(), default=0)
    cells, ranks = heat_map(results), rank(results).ranks
    lead = find_lead(results, ranks, order)
    return Overview(
        results,
        cells,
        tuple(name for name in order if workloads and counts[name] == len(workloads)),
        (tuple(name for name in order if counts[name] == top), top),
        {name: counts[name] for name in order if 0 < counts[name] < len(workloads) and counts[name] == ran[name]},
        failing["untrained"],
        failing["diverged"],
        lead,
        _cost(results),
        _unknown(results, cells, ranks, lead),
        main_change(results),
        None if (claimed := claims(results)) is None else claimed.sentences[0],
    )


def _cost(results: Results) -> Cost | None:
    costs = initialization_costs(results).dropna(subset=["initialization_steps", "training_steps"])
    much = costs[costs["initialization_steps"] > _MUCH * costs["training_steps"]]
    if not len(much):
        return None
    most = max(much.to_dict("records"), key=lambda row: float(row["initialization_steps"]))
    others = tuple(name for name in dict.fromkeys(much["treatment"]) if name != most["treatment"])
    return Cost(most["treatment"], float(most["initialization_steps"]), float(most["training_steps"]), others)


def _unknown(results: Results, cells: HeatMap, ranks: RankComparison, lead: Lead | None) -> Unknown | None:
    judged = results.judged
    workloads, treatments = judged["workload"].nunique(), judged["treatment"].nunique()
    if treatments < 2 or not judged.duplicated("workload").any():
        return Unknown("nothing", treatments) if len(judged) else None
    if ranks.is_told or (lead is not None and not lead.workload):
        return None  # the order over workloads is known, or that there is one
    if int(judged["seeds"].max()) < MINIMUM_SEEDS:
        return Unknown("seeds", int(judged["seeds"].max()), MINIMUM_SEEDS)
    if workloads >= 2 and len(ranks.mean_ranks) > 2:
        enough = workloads_for_one_rank(len(ranks.mean_ranks))
        return (
            Unknown("order", ranks.workloads, enough)
            if ranks.workloads < enough
            else Unknown("sizes", ranks.workloads, ranks.needed)
        )
    if workloads >= 2 and len(ranks.mean_ranks) == 2:
        if results.terms.metric is None:
            return Unknown("metrics", ranks.workloads)
        one, other = map(str, ranks.mean_ranks.index)
        paired = compare_paired(results.trials, one, other)
        return Unknown("sizes", paired.workloads, paired.needed) if not paired.is_told else None
    shared = sum(cell.is_best for row in cells.rows for cell in row.cells)
    return Unknown("differences", workloads) if workloads == 1 and shared > 1 else None
