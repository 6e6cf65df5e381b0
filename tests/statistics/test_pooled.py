import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from worlds import table

from initbench.statistics.association import associations
from initbench.statistics.permutation import permutation_test
from initbench.statistics.pooled import crossed, pool


def test_equal_weights_make_hartung_knapp_students_interval_of_z():
    rho = np.array([0.2, 0.5, 0.6, -0.1])
    z = np.arctanh(rho)
    interval = stats.ttest_1samp(z, 0).confidence_interval(0.95)
    pooled = pool(rho, [8] * 4)
    expected = (math.tanh(z.mean()), math.tanh(interval.low), math.tanh(interval.high), 4)
    assert pooled.rho == pytest.approx(expected)
    q = np.sum((z - z.mean()) ** 2) * 5 / 1.06
    assert pooled.i_squared == pytest.approx(max(0, 1 - 3 / q))


def test_unequal_workloads_and_heterogeneity_by_hand():
    rho, n = np.array([0.9, 0.1, -0.7]), np.array([12, 8, 20])
    z, v = np.arctanh(rho), 1.06 / (n - 3)
    pooled = pool(rho, n)

    def generalized_q(tau_squared):
        w = 1 / (v + tau_squared)
        return np.sum(w * (z - np.sum(w * z) / np.sum(w)) ** 2)

    # Paule and Mandel's τ² makes the generalized Q equal to its expectation.
    tau_squared = brentq(lambda t: generalized_q(t) - 2, 0, 100)
    assert pooled.tau_squared == pytest.approx(tau_squared, rel=1e-3)
    assert pooled.i_squared == pytest.approx(1 - 2 / generalized_q(0))
    w = 1 / (v + tau_squared)
    mean = np.sum(w * z) / np.sum(w)
    half = stats.t.ppf(0.975, 2) * math.sqrt(np.sum(w * (z - mean) ** 2) / (2 * np.sum(w)))
    expected = [math.tanh(mean), math.tanh(mean - half), math.tanh(mean + half)]
    assert list(pooled.rho[:3]) == pytest.approx(expected, abs=1e-3)
    assert pooled.i_squared > 0.5


def test_equal_correlations_have_no_heterogeneity():
    pooled = pool([0.5] * 5, [10] * 5)
    assert (pooled.i_squared, pooled.tau_squared) == pytest.approx((0, 0), abs=1e-9)
    assert pooled.rho.value == pytest.approx(0.5)


def test_missing_ones_are_left_out_and_few_have_no_interval():
    assert math.isnan(pool([math.nan], [3]).rho.value)
    one = pool([0.4, math.nan], [8, 3])
    assert (one.rho.value, one.rho.n, one.rho.has_interval) == (pytest.approx(0.4), 1, False)
    assert not pool([0.4, 0.5], [8, 8]).rho.has_interval
    assert pool([1.0, 1.0, 0.9], [8, 8, 8]).rho.value < 1


def test_the_crossed_interval_is_around_the_permutation_tests_statistic():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 8))
    y = x + generator.standard_normal((4, 8))
    estimate = crossed(table(x), table(y))
    assert estimate.value == pytest.approx(permutation_test(table(x), table(y)).statistic)
    assert -1 < estimate.low < estimate.value < estimate.high < 1
    assert estimate.n == 8


def test_workloads_that_repeat_one_another_narrow_only_the_interval_over_workloads():
    """The same initializers again are no new evidence about initializers."""
    generator = np.random.default_rng(1)
    x = generator.standard_normal((3, 8))
    y = x + generator.standard_normal((3, 8))
    few = crossed(table(x), table(y))
    many = crossed(table(np.tile(x, (4, 1))), table(np.tile(y, (4, 1))))
    assert (many.low, many.high) == pytest.approx((few.low, few.high))
    rows = [associations(table(np.tile(x, (m, 1))), table(np.tile(y, (m, 1)))) for m in (1, 4)]
    narrow = [pool(r["rho"], r["n"]).rho for r in rows]
    assert narrow[1].high - narrow[1].low < 0.5 * (narrow[0].high - narrow[0].low)
