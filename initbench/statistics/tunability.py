"""What so many tries come to: the value of the best of a random subset of the points that were tried, exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def best_of_subset(points: int, tries: int) -> NDArray[np.float64]:
    """Return with what probability each point is the best of a random subset: C(n - r, k - 1) / C(n, k) for rank r.

    Of the C(n, k) subsets those have the point of rank r as their best that take the other k - 1 from the n - r behind
    it. Points tried in a random order, without repetition, are such subsets.

    Args:
        points: n.
        tries: k, from 1 to n.

    Returns:
        Shape (n,), the best point first; they add up to 1.

    Raises:
        ValueError: there are fewer points than tries, or no try.
    """
    if not 1 <= tries <= points:
        raise ValueError(f"tries must be from 1 to {points}, got {tries}")
    of = [math.comb(points - rank, tries - 1) for rank in range(1, points + 1)]
    return np.array(of, dtype=float) / math.comb(points, tries)


def expected_best(chosen_by: ArrayLike, shown_by: ArrayLike) -> NDArray[np.float64]:
    """Return the expected value after 1, 2, ... tries, averaged over all orders in which the points may be tried.

    One seed chooses, the best of what it has tried so far, and another shows what that is worth: the value of the best
    of several noisy ones is better than any of them is (the winner's curse), and the other seed's has none of it.

    Args:
        chosen_by: shape (n,), what one seed came to at each point, lower is better, +∞ where it diverged; of equals the
            first is chosen, so that points stand in ascending order of what is tried.
        shown_by: shape (n,), what another came to at the same points.

    Returns:
        Shape (n,): entry k - 1 is the value after k tries; after n it is the other seed's value at the chosen point.

    Raises:
        ValueError: they have not the same number of points.
    """
    chosen, shown = np.asarray(chosen_by, dtype=float), np.asarray(shown_by, dtype=float)
    if chosen.shape != shown.shape:
        raise ValueError(f"both must have the same points, got {len(chosen)} and {len(shown)}")
    ranked = shown[np.argsort(chosen, kind="stable")]
    return np.array([best_of_subset(len(ranked), k) @ ranked for k in range(1, len(ranked) + 1)])


def tunability(values: ArrayLike) -> NDArray[np.float64]:
    """Return what each seed's search comes to after 1, 2, ... tries, as the other seeds show it.

    Args:
        values: shape (seeds, n), at the same n points, as for `expected_best`; at least two seeds. What is shown must
            be finite: an outcome that diverged, or is worse than chance, is to be put at chance before.

    Returns:
        Shape (seeds, n): of each seed that chooses, the mean over the others.

    Raises:
        ValueError: there are fewer than two seeds.
    """
    every = np.asarray(values, dtype=float)
    if len(every) < 2:
        raise ValueError(f"it takes two seeds, one that chooses and one that shows; got {len(every)}")
    return np.array(
        [
            np.mean([expected_best(own, other) for j, other in enumerate(every) if j != i], axis=0)
            for i, own in enumerate(every)
        ]
    )
