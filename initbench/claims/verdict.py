"""What a criterion or a claim comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from initbench.claims.claim import Claim
    from initbench.claims.criteria import Criterion
    from initbench.statistics.intervals import Estimate

Status = Literal["held", "did not hold", "undecided", "not run", "cannot be tested here"]
Form = Literal["value", "difference", "factor", "share", "number"]
"""What an estimate is: a value of the measure, a difference of two, a ratio of two, a share of layers, a number."""


@dataclass(frozen=True)
class GroupVerdict:
    """What a criterion comes to in one group.

    Attributes:
        status: of the criterion there.
        estimate: what is judged, with its 95 % interval; if a trial diverged the median, without one.
        form: what the estimate is.
        agreeing: at how many seeds the criterion is met; None if it is judged by the mean.
        against: what the estimate must exceed, if that is measured too.
        ends: the smallest and the largest value of all layers and seeds.
        diverged: as of `evidence.Group`.
        sample: what the estimate's n counts.
        label: of the group; empty if there is only one.
    """

    status: Status
    estimate: Estimate
    form: Form = "value"
    agreeing: int | None = None
    against: Estimate | None = None
    ends: tuple[float, float] | None = None
    diverged: tuple[tuple[int | None, ...], ...] = ()
    sample: str = "seed"
    label: str = ""


@dataclass(frozen=True)
class CriterionVerdict:
    """What a criterion comes to.

    Attributes:
        criterion: that was judged.
        status: held if it did in all groups, or in as many as it asks for; not if so many did not hold that this is out
            of reach; not run if it has no trial.
        groups: in the order of the trials.
        lacks: why it cannot be told, if that is no matter of numbers: too few seeds, say; else empty.
    """

    criterion: Criterion
    status: Status
    groups: tuple[GroupVerdict, ...] = ()
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
        status: see `judge.of_claim`.
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
        """All criteria, those that would refute it after the others."""
        return self.criteria + self.refutations
