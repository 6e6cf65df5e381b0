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

    It is held if it is in all groups, or in as many as it asks for; it did not hold if so many did not that this is out
    of reach; it is not run if it has no trial. `lacks` says why it cannot be told, if that is no matter of numbers.
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
    """What a claim comes to (`judge.of_claim`).

    `refutations` are its ``refuted_by``: one that is held refutes the claim. `lacks` says why it is undecided whatever
    the numbers are.
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
