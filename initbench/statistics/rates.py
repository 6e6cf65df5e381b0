"""Learning rates that were tried: how wide the range of good ones is, and how far up training is stable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate, all_equal, mean_estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

GOOD_SHARE = 0.1
"""Of what the best rate gains over chance: what a good rate may lose."""


class GoodRange(NamedTuple):
    """The rates that are nearly as good as the best.

    Attributes:
        best: the rate with the best outcome, of equals the smallest.
        low: the smallest good rate.
        high: the largest.
        is_open_below: whether the smallest that was tried is good, so that the range may go on.
        is_open_above: likewise the largest.
    """

    best: float
    low: float
    high: float
    is_open_below: bool
    is_open_above: bool

    @property
    def factor(self) -> float:
        """By which the largest is larger than the smallest; 1 where the best alone is good."""
        return self.high / self.low

    @property
    def is_open(self) -> bool:
        """Whether the range may be wider than what was tried."""
        return self.is_open_below or self.is_open_above


def good_range(rates: ArrayLike, outcomes: ArrayLike, chance: float, share: float = GOOD_SHARE) -> GoodRange | None:
    """Return the good rates: those next to the best that lose at most a share of what it gains over chance.

    With lower as better, e* the best outcome and c chance, a rate is good where its outcome is at most
    e* + share · (c - e*). The range goes from the best rate to both sides as far as all rates that were tried are good:
    it is known to no more than the spacing of these.

    Args:
        rates: shape (n,), positive, in any order.
        outcomes: shape (n,), of each rate, lower is better, +∞ where it diverged.
        chance: in the same direction; NaN where it is not known.
        share: of the gain.

    Returns:
        None where chance is not known, or the best is no better than chance.
    """
    x, e = np.asarray(rates, dtype=float), np.asarray(outcomes, dtype=float)
    order = np.argsort(x, kind="stable")
    x, e = x[order], e[order]
    if not len(x) or math.isnan(chance) or not e.min() < chance:
        return None
    best = int(np.argmin(e))
    is_good = e <= e[best] + share * (chance - e[best])
    low = high = best
    while low > 0 and is_good[low - 1]:
        low -= 1
    while high < len(x) - 1 and is_good[high + 1]:
        high += 1
    return GoodRange(float(x[best]), float(x[low]), float(x[high]), low == 0, high == len(x) - 1)


class StableRate(NamedTuple):
    """How far up one seed's training is stable.

    Attributes:
        best: its best rate.
        stable: the largest rate up to which, from the best on, every rate that was tried trained.
        is_open: whether that is the largest that was tried: the largest stable rate may be larger.
        low: the least ratio that the spacing of the rates leaves: of the largest stable rate to the next rate above the
            best one.
        high: the largest: of the next rate above the largest stable one to the next below the best one; +∞ where either
            was not tried.
    """

    best: float
    stable: float
    is_open: bool
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """The largest stable rate over the best one."""
        return self.stable / self.best


def stable_rate(rates: ArrayLike, outcomes: ArrayLike, trained: ArrayLike) -> StableRate | None:
    """Return the largest stable rate of one seed and its best one.

    Soham De and Sam Smith (Batch normalization biases residual blocks towards the identity function, 2020, section 4)
    ask whether a method is limited by stability or by the noise of the gradient: where the best rate is the largest at
    which training is stable, it is stability.

    Args:
        rates: shape (n,), each once, positive.
        outcomes: shape (n,), lower is better, +∞ where it diverged.
        trained: shape (n,), whether it came to better than chance, or just did not diverge where chance is not known.

    Returns:
        None where nothing trained.
    """
    x, e, ok = np.asarray(rates, dtype=float), np.asarray(outcomes, dtype=float), np.asarray(trained, dtype=bool)
    order = np.argsort(x, kind="stable")
    x, e, ok = x[order], e[order], ok[order]
    if not ok.any():
        return None
    best = int(np.argmin(np.where(ok, e, np.inf)))
    high = best
    while high < len(x) - 1 and ok[high + 1]:
        high += 1
    is_open = high == len(x) - 1
    above = float(x[min(best + 1, high)])
    most = math.inf if is_open or best == 0 else float(x[high + 1] / x[best - 1])
    return StableRate(float(x[best]), float(x[high]), is_open, float(x[high]) / above, most)


def ratio_over_seeds(seeds: Sequence[StableRate], comparisons: int = 1) -> Estimate:
    """Return the geometric mean of the ratios of a cell's seeds.

    Its interval is Student's, of their logarithms. Seeds that try the same few rates often agree, and have no spread
    from which there could be one; then it is the range that the spacing of the rates leaves, from `low` to `high`.

    Args:
        seeds: at least one.
        comparisons: as for `intervals.mean_estimate`.
    """
    return ratio_over_cells([geometric_estimate([one.ratio]) for one in seeds], seeds, comparisons)


def ratio_over_cells(each: Sequence[Estimate], seeds: Sequence[StableRate], comparisons: int = 1) -> Estimate:
    """Return the geometric mean of the ratios of several cells, as `ratio_over_seeds` does of seeds.

    Args:
        each: the ratio of each cell.
        seeds: of all of them.
        comparisons: as for `intervals.mean_estimate`.
    """
    found = geometric_estimate([one.value for one in each], comparisons)
    if found.n < MINIMUM_SEEDS or not all_equal([math.log(one.value) for one in each]):
        return found
    ends = [math.exp(float(np.mean(np.log([one[at] for one in seeds])))) for at in (3, 4)]
    return found._replace(low=ends[0], high=ends[1])


def geometric_estimate(ratios: ArrayLike, comparisons: int = 1) -> Estimate:
    """Return the geometric mean of positive ratios, with the interval of the mean of their logarithms.

    Args:
        ratios: shape (n,); no interval below 3, nor where all are equal (`intervals.mean_estimate`).
        comparisons: as for `intervals.mean_estimate`.
    """
    found = mean_estimate(np.log(np.asarray(ratios, dtype=float)), comparisons)
    return Estimate(math.exp(found.value), math.exp(found.low), math.exp(found.high), found.n)
