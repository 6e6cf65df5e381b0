import math

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats
from worlds import frame

from initbench.statistics.paired import compare_paired, paired_estimate, probability_of_improvement

inf = math.inf


def outcomes(first, second):
    """Return trials of i0 and i1; each argument is workloads × seeds."""
    return frame(np.stack([np.array(first, float), np.array(second, float)], axis=1))


def test_differences_within_a_workload_are_scipys_paired_t_test():
    first, second = [[0.1, 0.3, 0.2, 0.5]], [[0.2, 0.35, 0.4, 0.45]]
    expected = stats.ttest_rel(first[0], second[0]).confidence_interval(0.95)
    result = compare_paired(outcomes(first, second), "i0", "i1")
    [row] = result.by_workload.to_dict("records")
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((-0.075, expected.low, expected.high))
    assert not result.difference.has_interval  # one workload


def test_the_paired_estimate_is_scipys_and_pingouins():
    generator = np.random.default_rng(2)
    first, second = generator.uniform(size=(2, 6))
    for comparisons in (1, 6):
        level = 1 - 0.05 / comparisons
        expected = stats.ttest_rel(first, second).confidence_interval(level)
        estimate = paired_estimate(first, second, comparisons)
        assert estimate == pytest.approx((np.mean(first - second), expected.low, expected.high, 6))
        oracle = pingouin.ttest(first, second, paired=True, confidence=level).iloc[0]
        rounded = next(value for name, value in oracle.items() if str(name).startswith("CI"))
        assert (estimate.low, estimate.high) == pytest.approx(tuple(rounded), abs=0.005)


@pytest.mark.parametrize("bad", [inf, math.nan])
def test_a_diverged_seed_leaves_no_mean(bad):
    estimate = paired_estimate([0.1, bad, 0.3, 0.2], [0.2, bad, 0.3, 0.1])
    assert math.isnan(estimate.value)
    assert (estimate.n, estimate.has_interval) == (4, False)
    with pytest.raises(ValueError, match="the same seeds, got 2 and 3"):
        paired_estimate([0.1, 0.2], [0.1, 0.2, 0.3])


def test_simultaneous_comparisons_widen_every_interval():
    generator = np.random.default_rng(3)
    trials = outcomes(generator.uniform(size=(4, 5)), generator.uniform(size=(4, 5)))
    one, many = compare_paired(trials, "i0", "i1"), compare_paired(trials, "i0", "i1", 10)
    assert (one.comparisons, many.comparisons) == (1, 10)
    ratio = stats.t.isf(0.0025, 3) / stats.t.isf(0.025, 3)
    assert many.difference.high - many.difference.low == pytest.approx(
        ratio * (one.difference.high - one.difference.low)
    )
    assert (many.by_workload["low"] < one.by_workload["low"]).all()
    assert many.probability_of_improvement.low < one.probability_of_improvement.low


def test_over_workloads_the_workload_is_the_unit_not_the_seed():
    first = np.array([[0.1, 0.2, 0.3], [0.5, 0.6, 0.7], [0.2, 0.2, 0.5]])
    second = first + np.array([[0.01], [0.02], [0.06]])
    result = compare_paired(outcomes(first, second), "i0", "i1")
    expected = stats.ttest_1samp([-0.01, -0.02, -0.06], 0).confidence_interval(0.95)
    assert result.difference == pytest.approx((-0.03, expected.low, expected.high, 3))
    # Ten times the seeds of one workload do not make it count ten times.
    more = [np.tile(values, 10) for values in (first[0], second[0])]
    again = outcomes([more[0]], [more[1]])
    rest = outcomes(first[1:], second[1:]).assign(workload=lambda t: "other " + t["workload"])
    assert compare_paired(pd.concat([again, rest]), "i0", "i1").difference.value == pytest.approx(-0.03)


def test_only_seeds_of_both_are_paired():
    trials = outcomes([[0.1, 0.2, 0.3]], [[0.2, 0.4, 0.9]])
    left = trials[~((trials["treatment"] == "i1") & (trials["seed"] == 2))]
    [row] = compare_paired(left, "i0", "i1").by_workload.to_dict("records")
    assert (row["seeds"], row["difference"]) == (2, pytest.approx(-0.15))
    assert math.isnan(row["low"])


def test_divergence_leaves_a_median_and_a_probability_but_no_mean():
    [row] = compare_paired(outcomes([[0.1, 0.2, inf]], [[inf, 0.3, inf]]), "i0", "i1").by_workload.to_dict("records")
    assert math.isnan(row["difference"])
    assert (row["median"], row["diverged"]) == (pytest.approx(-0.1), 2)  # of -∞, -0.1 and the tie 0
    # Of 9 pairs: 0.1 wins against all 3, 0.2 against 3, +∞ ties with 2.
    assert row["probability_of_improvement"] == pytest.approx((3 + 3 + 1) / 9)


def test_probability_of_improvement_is_the_mann_whitney_statistic():
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5, 8).astype(float), generator.integers(0, 5, 6).astype(float)
    x[0] = y[0] = inf
    expected = stats.mannwhitneyu(-x, -y).statistic / 48
    assert probability_of_improvement(x, y) == pytest.approx(expected)
    assert probability_of_improvement(y, x) == pytest.approx(1 - expected)


def test_initializers_that_never_meet_have_no_comparison():
    trials = outcomes([[0.1, 0.2]], [[0.1, 0.2]])
    result = compare_paired(trials, "i0", "absent")
    assert len(result.by_workload) == 0
    assert math.isnan(result.difference.value)
