"""What happened, as facts: what the overview and its sentences are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from initbench.reporting.analyses.heat_map import HeatMap
    from initbench.reporting.analyses.lead import Lead
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence


@dataclass(frozen=True)
class Cost:
    """What the initialization of a treatment costs at the most, where that is much.

    Attributes:
        treatment: label of the one that costs most.
        steps: training steps of the same cost, the most over the workloads.
        training_steps: of the training there.
        others: labels of the others that cost much.
    """

    treatment: str
    steps: float
    training_steps: float
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """What the results do not tell.

    Attributes:
        what: ``order`` of the treatments over workloads, of which there are too few to tell a difference of one rank;
            ``sizes``: that order, for which differences of the size seen are too small; ``metrics``: that order of two
            treatments, which have no ranks, over workloads of several metrics; ``differences`` on the one workload that
            there is; ``seeds``, where there are too few for any interval; ``nothing`` to compare.
        have: how many workloads, seeds or (`nothing`) treatments there are.
        needed: how many would tell; None where that is not known, or 10,000 would not do.
    """

    what: str
    have: int
    needed: int | None = None


@dataclass(frozen=True)
class Happened:
    """Who trains where, who leads, what it costs, and what is not known.

    Attributes:
        results: that it is of.
        map: the heat map.
        everywhere: labels of the treatments that train on every workload.
        most: labels of those that train on most workloads, where none trains on all; and on how many.
        wherever_run: label → number of workloads, of those that train on all that they ran on, where these are not all.
        untrained: workload → labels of the treatments whose median is not better than chance there.
        diverged: workload → labels of the treatments whose median diverged there.
        lead: who is better than whom; None where that cannot be told.
        cost: of initialization, None where it is little.
        unknown: what cannot be told, None where there is nothing of the kind.
        change: what own values change, of a tuned suite; None where there is nothing to compare them with.
        claimed: how many claims held, of a suite that states some.
    """

    results: Results
    map: HeatMap
    everywhere: tuple[str, ...]
    most: tuple[tuple[str, ...], int]
    wherever_run: dict[str, int]
    untrained: dict[str, tuple[str, ...]]
    diverged: dict[str, tuple[str, ...]]
    lead: Lead | None
    cost: Cost | None
    unknown: Unknown | None
    change: Sentence | None = None
    claimed: Sentence | None = None

    @property
    def knows_chance(self) -> bool:
        """Whether the chance level of every cell is known, so that it can be said who trains."""
        judged = self.results.judged
        return bool(len(judged)) and bool(judged["chance"].notna().all())
