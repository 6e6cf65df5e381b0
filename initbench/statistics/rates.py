"""Results of searches: good learning rates, the limit of stable training, and the value of a number of tries.

First single seeds and cells, then frames of all cells.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.statistics.cells import spread
from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate, all_equal, mean_estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from initbench.metric import Metric

GOOD_SHARE = 0.1
"""A good rate may lose this share of the best rate's gain over chance."""
_CELL = ["workload", "treatment"]
_BY_RATE = [
    *_CELL,
    "rate",
    "metric",
    "value_median",
    "value_smallest",
    "value_largest",
    "seeds",
    "diverged",
    "untrained",
]
_BY_TRIES = [*_CELL, "tries", "metric", "value_median", "value_smallest", "value_largest", "seeds", "compute"]


class GoodRange(NamedTuple):
    """The rates that are nearly as good as the best.

    Attributes:
        best: the rate with the best outcome, the smallest of equals.
        low: the smallest good rate.
        high: the largest.
        is_open_below: whether the smallest rate tried is good, so that the range may continue.
        is_open_above: likewise for the largest.
    """

    best: float
    low: float
    high: float
    is_open_below: bool
    is_open_above: bool

    @property
    def factor(self) -> float:
        """The ratio of the largest to the smallest; 1 if only the best is good."""
        return self.high / self.low

    @property
    def is_open(self) -> bool:
        """Whether the range may extend beyond the rates tried."""
        return self.is_open_below or self.is_open_above


def good_range(rates: ArrayLike, outcomes: ArrayLike, chance: float) -> GoodRange | None:
    """Return the good rates: those around the best that lose at most `GOOD_SHARE` of its gain over chance.

    With lower as better, e* the best outcome and c chance, a rate is good if its outcome is at most
    e* + `GOOD_SHARE` · (c - e*). The range extends from the best rate to both sides as long as all rates tried are
    good: it is known only up to their spacing.

    Args:
        rates: shape (n,), positive, in any order.
        outcomes: shape (n,), outcome of each rate, lower is better, +∞ if it diverged.
        chance: in the same direction; NaN if unknown.

    Returns:
        None if chance is unknown, or the best is no better than chance.
    """
    x, e = np.asarray(rates, dtype=float), np.asarray(outcomes, dtype=float)
    order = np.argsort(x, kind="stable")
    x, e = x[order], e[order]
    if not len(x) or math.isnan(chance) or not e.min() < chance:
        return None
    best = int(np.argmin(e))
    is_good = e <= e[best] + GOOD_SHARE * (chance - e[best])
    low = high = best
    while low > 0 and is_good[low - 1]:
        low -= 1
    while high < len(x) - 1 and is_good[high + 1]:
        high += 1
    return GoodRange(float(x[best]), float(x[low]), float(x[high]), low == 0, high == len(x) - 1)


class StableRate(NamedTuple):
    """The limit of stable training for one seed.

    Attributes:
        best: its best rate.
        stable: the largest rate such that, from the best on, every rate tried up to it trained.
        is_open: whether it is the largest rate tried, so that the largest stable rate may be larger.
        low: the least ratio that the spacing of the rates allows: the largest stable rate over the next rate above the
            best one.
        high: the largest: the next rate above the largest stable one over the next rate below the best one; +∞ if
            either was not tried.
    """

    best: float
    stable: float
    is_open: bool
    low: float
    high: float

    @property
    def ratio(self) -> float:
        return self.stable / self.best


def stable_rate(rates: ArrayLike, outcomes: ArrayLike, trained: ArrayLike) -> StableRate | None:
    """Return the largest stable rate of one seed and its best one.

    Soham De and Sam Smith (Batch normalization biases residual blocks towards the identity function, 2020, section 4)
    ask whether a method is limited by stability or by the noise of the gradient: if the best rate is the largest at
    which training is stable, it is stability.

    Args:
        rates: shape (n,), each once, positive.
        outcomes: shape (n,), lower is better, +∞ if it diverged.
        trained: shape (n,), whether it became better than chance, or just did not diverge if chance is unknown.

    Returns:
        None if nothing trained.
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

    Its interval is Student's for their logarithms. Seeds that try the same few rates often agree and have no spread for
    an interval; then it is the range that the spacing of the rates allows, from `low` to `high`.
    """
    return ratio_over_cells([geometric_estimate([one.ratio]) for one in seeds], seeds, comparisons)


def ratio_over_cells(each: Sequence[Estimate], seeds: Sequence[StableRate], comparisons: int = 1) -> Estimate:
    """Return the geometric mean of the ratios of several cells, like `ratio_over_seeds` for seeds."""
    mean = geometric_estimate([one.value for one in each], comparisons)
    if mean.n < MINIMUM_SEEDS or not all_equal([math.log(one.value) for one in each]):
        return mean
    ends = [math.exp(float(np.mean(np.log([one[at] for one in seeds])))) for at in (3, 4)]
    return mean._replace(low=ends[0], high=ends[1])


def geometric_estimate(ratios: ArrayLike, comparisons: int = 1) -> Estimate:
    """Return the geometric mean of positive ratios, with the interval of the mean of their logarithms."""
    mean = mean_estimate(np.log(np.asarray(ratios, dtype=float)), comparisons)
    return Estimate(math.exp(mean.value), math.exp(mean.low), math.exp(mean.high), mean.n)


def best_of_subset(points: int, tries: int) -> NDArray[np.float64]:
    """Return the probability that each point is the best of a random subset: C(n - r, k - 1) / C(n, k) for rank r.

    Of the C(n, k) subsets, the best point has rank r if the other k - 1 are among the n - r points behind it. Points
    tried in random order, without repetition, form such subsets.

    Args:
        points: n.
        tries: k, from 1 to n.

    Returns:
        Shape (n,), the best point first; the sum is 1.
    """
    if not 1 <= tries <= points:
        raise ValueError(f"tries must be from 1 to {points}, got {tries}")
    of = [math.comb(points - rank, tries - 1) for rank in range(1, points + 1)]
    return np.array(of, dtype=float) / math.comb(points, tries)


def expected_best(chosen_by: ArrayLike, shown_by: ArrayLike) -> NDArray[np.float64]:
    """Return the expected value after 1, 2, ... tries, averaged over all orders in which the points may be tried.

    One seed chooses the best point it has tried so far, and another shows its value. The best of several noisy values
    is too optimistic (the winner's curse); the other seed's value is not.

    Args:
        chosen_by: shape (n,), one seed's outcomes at the points, lower is better, +∞ if diverged; the first of equals
            is chosen, so points are in ascending order of the tuned value.
        shown_by: shape (n,), another seed's outcomes at the same points.

    Returns:
        Shape (n,): entry k - 1 is the value after k tries; after n it is the other seed's value at the chosen point.
    """
    chosen, shown = np.asarray(chosen_by, dtype=float), np.asarray(shown_by, dtype=float)
    if chosen.shape != shown.shape:
        raise ValueError(f"both must have the same points, got {len(chosen)} and {len(shown)}")
    ranked = shown[np.argsort(chosen, kind="stable")]
    return np.array([best_of_subset(len(ranked), k) @ ranked for k in range(1, len(ranked) + 1)])


def tunability(values: ArrayLike) -> NDArray[np.float64]:
    """Return the result of each seed's search after 1, 2, ... tries, as the other seeds show it.

    Args:
        values: shape (seeds, n), at the same n points, as for `expected_best`; at least two seeds. They must be finite:
            set outcomes that diverged or are worse than chance to chance first.

    Returns:
        Shape (seeds, n): for each seed that chooses, the mean over the others.
    """
    every = np.asarray(values, dtype=float)
    if len(every) < 2:
        raise ValueError(f"it takes two seeds, one that chooses and one that shows; got {len(every)}")
    return np.array(
        [
            np.mean([expected_best(choosing, other) for j, other in enumerate(every) if j != i], axis=0)
            for i, choosing in enumerate(every)
        ]
    )


def best_at_rates(tries: pd.DataFrame) -> pd.DataFrame:
    """Return the best try of a seed at each learning rate; there are several if more than the rate is tuned."""
    ordered = tries.sort_values("outcome", kind="stable")
    return ordered.drop_duplicates([*_CELL, "seed", "rate"]).sort_index()


def by_rate(tries: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return the validation outcome of each cell at each learning rate tried, over the seeds.

    Returns:
        ``workload, treatment, rate, metric``; ``value_median, value_smallest, value_largest``: in the metric's own
            direction, not finite if diverged; ``seeds, diverged, untrained``: counts.
    """
    rows = []
    for (workload, treatment, rate), group in best_at_rates(tries).groupby([*_CELL, "rate"], sort=False):
        metric = metrics[str(workload)]
        summary = spread(group["outcome"].to_numpy(dtype=float)).in_direction(metric)
        rows.append(
            {
                "workload": workload,
                "treatment": treatment,
                "rate": rate,
                "metric": metric.name,
                **dict(zip(("value_median", "value_smallest", "value_largest"), summary, strict=True)),
                "seeds": len(group),
                "diverged": int(group["is_diverged"].sum()),
                "untrained": int((~group["is_trained"] & ~group["is_diverged"]).sum()),
            }
        )
    order = {key: i for i, key in enumerate(dict.fromkeys(zip(tries["workload"], tries["treatment"], strict=True)))}
    rows.sort(key=lambda row: (order[row["workload"], row["treatment"]], row["rate"]))
    return pd.DataFrame(rows, columns=_BY_RATE)


def by_tries(tries: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return the result of each cell after 1, 2, ... tries in random order (`tunability`).

    One seed's search chooses and the others show its value, averaged over all of them. An outcome that diverged, or is
    worse than chance, counts as chance, because a try can lose no more. Cells are left out if they have one seed, if
    their seeds tried different points, or if a trial diverged and chance is unknown.

    Returns:
        ``workload, treatment, tries, metric``; ``value_median``: the mean over the seeds that choose, in the metric's
            own direction; ``value_smallest, value_largest``: over these; ``seeds``; ``compute``: the mean cost of this
            many tries in training steps, including initialization, NaN if a record does not contain it.
    """
    rows: list[dict[str, Any]] = []
    for (workload, treatment), group in tries.groupby(_CELL, sort=False):
        metric, wide = metrics[str(workload)], _by_seed(group)
        if wide is None:
            continue
        shown = np.minimum(wide, group["chance"].iloc[0]) if not math.isnan(group["chance"].iloc[0]) else wide
        if not np.isfinite(shown).all():
            continue
        curves = tunability(shown)
        cost = float(group["steps"].mean(skipna=False))
        for k in range(curves.shape[1]):
            ends = sorted(metric.oriented(value) for value in (curves[:, k].min(), curves[:, k].max()))
            rows.append(
                {
                    "workload": workload,
                    "treatment": treatment,
                    "tries": k + 1,
                    "metric": metric.name,
                    "value_median": metric.oriented(float(curves[:, k].mean())),
                    **dict(zip(("value_smallest", "value_largest"), ends, strict=True)),
                    "seeds": len(curves),
                    "compute": (k + 1) * cost,
                }
            )
    return pd.DataFrame(rows, columns=_BY_TRIES)


def good_ranges(tries: pd.DataFrame) -> dict[tuple[str, str], Any]:
    """Return the range of good learning rates of each cell that trains (`good_range`)."""
    ranges = {}
    for (workload, treatment), group in best_at_rates(tries).groupby(_CELL, sort=False):
        medians = group.groupby("rate")["outcome"].median()
        if not (group.groupby("rate")["is_trained"].mean() >= 0.5)[medians == medians.min()].any():
            continue
        if (span := good_range(medians.index, medians, float(group["chance"].iloc[0]))) is not None:
            ranges[str(workload), str(treatment)] = span
    return ranges


def stable_rates(tries: pd.DataFrame) -> dict[tuple[str, str], list[StableRate]]:
    """Return the largest stable and the best learning rate of every seed of each cell in which some rate trained."""
    rates: dict[tuple[str, str], list[StableRate]] = {}
    for (workload, treatment, _), group in best_at_rates(tries).groupby([*_CELL, "seed"], sort=False):
        one = stable_rate(group["rate"], group["outcome"], group["is_trained"])
        if one is not None:
            rates.setdefault((str(workload), str(treatment)), []).append(one)
    return rates


def _by_seed(group: pd.DataFrame) -> np.ndarray | None:
    """Return the outcomes of a cell, seeds × points in their order; None if its seeds have different points."""
    each = [part for _, part in group.groupby("seed", sort=False)]
    points = list(each[0]["point"])
    if len(each) < 2 or any(list(part["point"]) != points for part in each):
        return None
    return np.array([part["outcome"].to_numpy(dtype=float) for part in each])
