"""What a criterion or a claim comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.reporting.statistics.intervals import Estimate
    from initbench.suite.claims import Claim
    from initbench.suite.criteria import Criterion

Status = Literal["held", "did not hold", "undecided", "not run", "cannot be tested here"]


@dataclass(frozen=True)
class GroupVerdict:
    """What a criterion comes to in one group.

    Attributes:
        label: of the group; empty where there is one alone.
        status: of the criterion there.
        estimate: what is judged, a value or a paired difference, with its 95 % interval over seeds.
        is_difference: whether it is a difference.
        agreeing: at how many seeds the criterion is met; None where it is judged by the mean.
        is_ratio: whether it is a ratio of two values.
    """

    label: str
    status: Status
    estimate: Estimate
    is_difference: bool
    agreeing: int | None = None
    is_ratio: bool = False


@dataclass(frozen=True)
class CriterionVerdict:
    """What a criterion comes to.

    Attributes:
        criterion: that was judged.
        status: held where it did in all groups, not where it did not in one, not run where one has no trial.
        groups: in the order of the trials.
        chance: how likely it comes out as held if it is false, at the most.
        lacks: why it cannot be told, where that is no matter of numbers: too few seeds, say; else empty.
    """

    criterion: Criterion
    status: Status
    groups: tuple[GroupVerdict, ...]
    chance: float
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
        status: held where all criteria did, not where one did not.
        criteria: in the order of the claim.
    """

    claim: Claim
    status: Status
    criteria: tuple[CriterionVerdict, ...]

    @property
    def chance(self) -> float:
        """How likely the claim comes out as held if none of what its criteria say is true, at the most.

        All of them have to hold, so it is no more than the least likely of them.
        """
        return min(criterion.chance for criterion in self.criteria)


def together(statuses: Sequence[Status]) -> Status:
    """Return what several criteria or groups come to that must all hold."""
    for status in ("did not hold", "not run", "undecided"):
        if status in statuses:
            return status
    return "held" if statuses else "not run"
