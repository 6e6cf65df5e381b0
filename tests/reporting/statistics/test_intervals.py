import math

import numpy as np
import pytest
from scipy import stats

from initbench.reporting.statistics.intervals import mean_estimate, wilson_estimate


def test_mean_and_interval_are_scipys():
    values = [0.3, 0.1, 0.4, 0.15, 0.9]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    estimate = mean_estimate(values)
    assert estimate == pytest.approx((np.mean(values), expected.low, expected.high, 5), rel=1e-12)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0]])
def test_no_interval_below_three_values(values):
    estimate = mean_estimate(values)
    assert not estimate.has_interval
    assert estimate.n == len(values)
    assert math.isnan(estimate.value) == (not values)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_an_infinite_value_leaves_no_mean(bad):
    assert math.isnan(mean_estimate([1.0, 2.0, 3.0, bad]).value)


@pytest.mark.parametrize("n", [1, 3, 10, 50])
def test_wilson_is_the_closed_form(n):
    z = stats.norm.ppf(0.975)
    for count in range(n + 1):
        p = count / n
        centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        estimate = wilson_estimate(count, n)
        assert estimate == pytest.approx((p, centre - half, centre + half, n), abs=1e-12)
        expected = stats.binomtest(count, n).proportion_ci(0.95, method="wilson")
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_without_trials_and_with_impossible_counts():
    assert math.isnan(wilson_estimate(0, 0).value)
    with pytest.raises(ValueError, match="from 0 to 3, got 4"):
        wilson_estimate(4, 3)


def test_clipping_moves_the_ends_and_not_the_value():
    assert mean_estimate([0.0, 0.0, 0.3]).clipped(0, 1).low == 0
    assert math.isnan(mean_estimate([0.5]).clipped(0, 1).low)
