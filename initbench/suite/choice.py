"""Which of the values that were searched are chosen: a cell's own best ones, and the rate that treatments share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Searched(NamedTuple):
    """What a search trial came to on the validation split.

    Attributes:
        value: its primary metric, turned so that lower is better; +∞ where it diverged.
        is_trained: whether it is better than chance; true where that is not known.
    """

    value: float
    is_trained: bool = True


def own_choice(found: Sequence[Searched]) -> int:
    """Return the index of the best try; of equals, and where all diverged, the first.

    Args:
        found: of each try, in ascending order of the values that were tried.
    """
    return min(range(len(found)), key=lambda index: (found[index].value, index))


def shared_choice(found: Sequence[Mapping[float, Searched]]) -> float | None:
    """Return the learning rate that the treatments of a workload share, None where there is none that all tried.

    Each treatment ranks its own rates: by value where they train, behind these all that do not train, tied, and behind
    these all that diverged, tied. Ties share their mean rank. The ranks are averaged over the treatments, and the rate
    with the lowest mean is chosen; of equals the smallest. A treatment so has one voice, whatever its metric's range.

    Args:
        found: of each treatment, the best of its tries at each rate.
    """
    common = sorted(set.intersection(*(set(own) for own in found))) if found else []
    if not common:
        return None
    means = [0.0] * len(common)
    for own in found:
        for index, rank in enumerate(_ranks([_order(own[rate]) for rate in common])):
            means[index] += rank
    return min(zip(means, common, strict=True))[1]


def best_at_rates(rates: Sequence[float], found: Sequence[Searched]) -> dict[float, Searched]:
    """Return the best of the tries at each rate, of those that differ in another tuned value; see `shared_choice`."""
    best: dict[float, Searched] = {}
    for rate, own in zip(rates, found, strict=True):
        if rate not in best or own.value < best[rate].value:
            best[rate] = own
    return best


def _order(found: Searched) -> tuple[int, float]:
    if found.value == float("inf"):
        return 2, 0.0
    return (0, found.value) if found.is_trained else (1, 0.0)


def _ranks(keys: Sequence[tuple[int, float]]) -> list[float]:
    """Return twice the mean rank of each, from 0: whole numbers, whose sums are exact."""
    return [float(sum(other < key for other in keys) + sum(other <= key for other in keys)) for key in keys]
