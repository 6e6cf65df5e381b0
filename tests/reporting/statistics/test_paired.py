import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from worlds import frame

from initbench.reporting.statistics.paired import compare_paired, probability_of_improvement

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


def test_over_workloads_the_workload_is_the_unit_not_the_seed():
    first = np.array([[0.1, 0.2, 0.3], [0.5, 0.6, 0.7], [0.2, 0.2, 0.5]])
    second = first + np.array([[0.01], [0.02], [0.06]])
    result = compare_paired(outcomes(first, second), "i0", "i1")
    expected = stats.ttest_1samp([-0.01, -0.02, -0.06], 0).confidence_interval(0.95)
    assert result.difference == pytest.approx((-0.03, expected.low, expected.high, 3))
    # Ten times the seeds of one workload do not make it count ten times.
    more = [np.tile(values, 10) for values in (first[0], second[0])]
    again = outcomes([more[0]], [more[1]])
    rest = outcomes(first[1:], second[1:]).assign(group=lambda t: "other " + t["group"])
    assert compare_paired(pd.concat([again, rest]), "i0", "i1").difference.value == pytest.approx(-0.03)


def test_only_seeds_of_both_are_paired():
    trials = outcomes([[0.1, 0.2, 0.3]], [[0.2, 0.4, 0.9]])
    left = trials[~((trials["initializer"] == "i1") & (trials["seed"] == 2))]
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
