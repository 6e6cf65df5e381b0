import math

import numpy as np
import pytest
from scipy import stats

from initbench.statistics.intervals import (
    mean_estimate,
    share_estimate,
    t_multiplier,
    values_deviation,
    wilson_estimate,
)


def test_mean_and_interval_are_scipys():
    values = [0.3, 0.1, 0.4, 0.15, 0.9]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    estimate = mean_estimate(values)
    assert estimate == pytest.approx((np.mean(values), expected.low, expected.high, 5), rel=1e-12)


def test_t_interval_equals_a_value_worked_out_by_hand():
    # 1, 2, 4: s² = (16 + 1 + 25) / 9 / 2 = 7/3; Student's t at 0.975 and 2 degrees of freedom is 4.30265 (tables).
    assert mean_estimate([1.0, 2.0, 4.0]).half_width == pytest.approx(4.30265 * math.sqrt(7 / 9), rel=1e-6)
    # 5 values: t is 2.77645 at 4 degrees of freedom; s² = 10 / 4.
    assert mean_estimate([1.0, 2.0, 3.0, 4.0, 5.0]).half_width == pytest.approx(2.77645 * math.sqrt(2.5 / 5), rel=1e-5)


@pytest.mark.parametrize("comparisons", [1, 6, 45])
def test_simultaneous_intervals_have_the_level_of_bonferroni(comparisons):
    values = [0.3, 0.1, 0.4, 0.15, 0.9]
    expected = stats.ttest_1samp(values, 0).confidence_interval(1 - 0.05 / comparisons)
    estimate = mean_estimate(values, comparisons)
    assert estimate == pytest.approx((np.mean(values), expected.low, expected.high, 5), rel=1e-12)
    assert values_deviation(estimate, comparisons) == pytest.approx(np.std(values, ddof=1))


def test_comparisons_are_at_least_one():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        mean_estimate([1.0, 2.0, 3.0], 0)
    assert math.isnan(values_deviation(mean_estimate([1.0])))


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


def test_the_interval_of_shares_by_hand():
    # One value more, half 0 and half 1: the mean 2.5 / 4, of the squares 1.75 / 4.
    estimate = share_estimate([0.5, 0.5, 1.0])
    half = t_multiplier(3) * math.sqrt(2 / 4 - (2.5 / 4) ** 2)
    assert estimate == pytest.approx((2 / 3, max(0, 2.5 / 4 - half), min(1, 2.5 / 4 + half), 3))


@pytest.mark.parametrize("comparisons", [1, 10])
@pytest.mark.parametrize("n", [3, 5, 10, 100])
def test_shares_that_are_all_one_have_an_interval_around_them(n, comparisons):
    certain = share_estimate([1.0] * n, comparisons)
    assert certain.value == certain.high == 1
    assert (certain.low > 0) == (n > 3 or comparisons == 1)
    assert certain.low < 1
    mirrored = share_estimate([0.0] * n, comparisons)
    assert mirrored[:3] == pytest.approx((0, 0, 1 - certain.low))
    # By the sign test 4 workloads say nothing at 5 %, and with 5 it is 6 %.
    assert (certain.low > 0.5) == (n >= 5 if comparisons == 1 else n >= 10)


def test_shares_without_an_interval():
    assert share_estimate([0.2, 0.4])[:1] == pytest.approx((0.3,))
    assert not share_estimate([0.2, 0.4]).has_interval
    assert math.isnan(share_estimate([]).value)


def test_equal_values_have_a_mean_and_no_interval():
    """Three equal values do not make sure of the mean; 0.1 + 0.2 is 0.3 but for rounding."""
    estimate = mean_estimate([0.3, 0.1 + 0.2, 0.3])
    assert estimate.value == pytest.approx(0.3)
    assert not estimate.has_interval
    assert mean_estimate([0.3, 0.3, 0.3001]).has_interval
