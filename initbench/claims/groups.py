"""What is judged at the seeds that all sides of a criterion have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class AtSeeds:
    """What a criterion is judged by where what it says ``each`` of is the same.

    Attributes:
        label: the values of those properties; empty where the criterion has none.
        seeds: at which every side has a value.
        lacking: whether a side has no value at a seed at which another one has one, or none at all.
        diverged: for each side the steps at which its trials diverged, of those seeds at which that is why it has no
            finite value; None for a step that is unknown.
        problem: why nothing can be judged here; empty where it can.
    """

    label: str
    seeds: tuple[int, ...]
    lacking: bool
    diverged: tuple[tuple[int | None, ...], ...] = ()
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Group(AtSeeds):
    """A number for each side and seed.

    Attributes:
        sides: the values, one array for each side, shape (seeds,); ±∞ for the outcome of a diverged trial.
        at_chance: likewise, 1 where the outcome is no better than chance, 0 where it is, NaN where that is not known.
    """

    sides: tuple[NDArray[np.float64], ...]
    at_chance: tuple[NDArray[np.float64], ...]


def at_all_seeds(sides: Sequence[Collection[int]], known: Sequence[Collection[int]]) -> tuple[tuple[int, ...], bool]:
    """Return the seeds at which every side has a value, and whether any lacks one.

    Args:
        sides: the seeds at which each side has a trial.
        known: those at which it has a value.
    """
    seeds = tuple(sorted(set.intersection(*(set(own) for own in known))))
    return seeds, not seeds or any(set(side) != set(seeds) for side in sides)
