"""What a criterion or a claim comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.claims.claim import Claim
    from initbench.claims.criterion import Criterion
    from initbench.statistics.intervals import Estimate

Status = Literal["held", "did not hold", "undecided", "not run", "cannot be tested here"]
Form = Literal["value", "difference", "factor", "share", "number"]
"""What an estimate is: a value of the measure, a difference of two, a ratio of two, a share of layers, a number."""


@dataclass(frozen=True)
class GroupVerdict:
    """What a criterion comes to in one group.

    Attributes:
        label: of the group; empty where there is one alone.
        status: of the criterion there.
        estimate: what is judged, with its 95 % interval; where a trial diverged its median, without one.
        form: what the estimate is.
        agreeing: at how many seeds the criterion is met; None where it is judged by the mean.
        against: what the estimate must exceed, where that is measured too.
        ends: the smallest and the largest value of all layers and seeds.
        diverged: as of `groups.AtSeeds`.
        sample: what the estimate's n counts.
    """

    label: str
    status: Status
    estimate: Estimate
    form: Form = "value"
    agreeing: int | None = None
    against: Estimate | None = None
    ends: tuple[float, float] | None = None
    diverged: tuple[tuple[int | None, ...], ...] = ()
    sample: str = "seed"


@dataclass(frozen=True)
class CriterionVerdict:
    """What a criterion comes to.

    Attributes:
        criterion: that was judged.
        status: held where it did in all groups, or in as many as it asks for; not where so many did not hold that this
            is out of reach; not run where it has no trial.
        groups: in the order of the trials.
        lacks: why it cannot be told, where that is no matter of numbers: too few seeds, say; else empty.
    """

    criterion: Criterion
    status: Status
    groups: tuple[GroupVerdict, ...]
    lacks: str = ""

    @property
    def n(self) -> int:
        """Seeds of the group that has the fewest."""
        return min((group.estimate.n for group in self.groups), default=0)


@dataclass(frozen=True)
class ClaimVerdict:
    """What a claim comes to.

    Attributes:
        claim: that was judged.
        status: see `of_claim`.
        criteria: in the order of the claim.
        refutations: of its ``refuted_by``, likewise: one that is held refutes the claim.
        lacks: why it is undecided whatever the numbers are; else empty.
    """

    claim: Claim
    status: Status
    criteria: tuple[CriterionVerdict, ...]
    refutations: tuple[CriterionVerdict, ...] = ()
    lacks: str = ""

    @property
    def judged(self) -> tuple[CriterionVerdict, ...]:
        """All criteria, those that would refute it behind the others."""
        return self.criteria + self.refutations


def of_claim(
    claim: Claim, criteria: tuple[CriterionVerdict, ...], refutations: tuple[CriterionVerdict, ...]
) -> ClaimVerdict:
    """Return what a claim comes to.

    Without refutations it held where all criteria did, and did not hold where one did not. With them it did not hold
    where one of these is met, and a criterion that did not hold leaves it undecided. It is undecided too where all
    criteria are met and one of the refutations as well, or has not been judged.

    Args:
        claim: that is judged.
        criteria: what each came to.
        refutations: likewise.
    """
    if not refutations:
        return ClaimVerdict(claim, together([one.status for one in criteria]), criteria)
    weakened: list[Status] = ["undecided" if one.status == "did not hold" else one.status for one in criteria]
    status, lacks = together(weakened), ""
    refuted = any(one.status == "held" for one in refutations)
    if status == "held" and refuted:
        status, lacks = "undecided", "criteria and refuted_by contradict each other: both are met"
    elif refuted:
        status = "did not hold"
    elif status == "held" and any(one.status == "not run" or one.lacks for one in refutations):
        status, lacks = "undecided", "what would refute it has not been judged"
    return ClaimVerdict(claim, status, criteria, refutations, lacks)


def together(statuses: Sequence[Status]) -> Status:
    """Return what several criteria come to that must all hold."""
    for status in ("did not hold", "not run", "undecided"):
        if status in statuses:
            return status
    return "held" if statuses else "not run"


def of_groups(statuses: Sequence[Status], least: int | None) -> Status:
    """Return what a criterion comes to that must hold in several groups.

    Args:
        statuses: of the groups, each held, did not hold or undecided.
        least: in how many of them; None for all.
    """
    needed = len(statuses) if least is None else least
    if statuses.count("held") >= needed:
        return "held"
    return "did not hold" if len(statuses) - statuses.count("did not hold") < needed else "undecided"
