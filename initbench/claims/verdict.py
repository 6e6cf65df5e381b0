"""The verdicts on criteria and claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from initbench.claims.claim import Claim
    from initbench.claims.criteria import Criterion
    from initbench.metric import Metric
    from initbench.statistics.intervals import Estimate

Status = Literal["held", "did not hold", "undecided", "not run", "cannot be tested here"]
Form = Literal["value", "difference", "factor", "share", "number"]
"""The kind of an estimate: a value of the measure, a difference or ratio of two, a share of layers, a number."""


@dataclass(frozen=True)
class GroupVerdict:
    """The verdict on a criterion in one group.

    Attributes:
        status: of the criterion there.
        estimate: the judged value with its 95 % interval. If a trial diverged, or a measurement overflowed, it is the
            median, without an interval; and NaN if the criterion judges a mean (`Lead`, `Equality`, `Difference`).
        form: the kind of the estimate.
        agreeing: the number of seeds at which the criterion is met; None if it is judged by the mean.
        against: the value that the estimate must exceed, if that is measured too.
        ends: the smallest and the largest value of all layers and seeds.
        diverged: as in `evidence.Group`.
        sample: the unit of the estimate's n.
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
    """The verdict on a criterion.

    It is held if it is in all groups, or in as many as it asks for; it did not hold if this number is out of reach; it
    is not run if it has no trial. `lacks` says why it is undecided for a reason other than its numbers. `metric` is
    what the trials are judged by; None for a probe, or if groups have different metrics.
    """

    criterion: Criterion
    status: Status
    groups: tuple[GroupVerdict, ...] = ()
    lacks: str = ""
    metric: Metric | None = None

    @property
    def n(self) -> int:
        return min((group.estimate.n for group in self.groups), default=0)


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on a claim (`judge.of_claim`).

    `refutations` are its ``refuted_by``: if one is held, it refutes the claim. `lacks` says why the claim is undecided
    whatever the numbers are.
    """

    claim: Claim
    status: Status
    criteria: tuple[CriterionVerdict, ...]
    refutations: tuple[CriterionVerdict, ...] = ()
    lacks: str = ""

    @property
    def judged(self) -> tuple[CriterionVerdict, ...]:
        """All criteria, the refutations last."""
        return self.criteria + self.refutations
