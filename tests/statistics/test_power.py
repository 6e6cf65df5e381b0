import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower
from worlds import frame

from initbench.statistics.power import (
    correlation_treatments,
    detectable_correlation,
    detectable_difference,
    few_seeds_needed,
    friedman_workloads,
    pilot_spread,
    planning_spread,
    power,
    resolution,
    seeds_needed,
    seeds_to_find,
    stated_spread,
)
from initbench.statistics.seed_variance import SeedVariance, variances


@pytest.mark.parametrize("comparisons", [1, 6, 45])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_detectable_difference_is_found_with_a_chance_of_80_percent(seeds, comparisons):
    difference = detectable_difference(0.02, seeds, comparisons)
    assert power(difference, 0.02, seeds, comparisons) == pytest.approx(0.8, abs=1e-6)
    oracle = TTestPower().power(difference / 0.02, seeds, 0.05 / comparisons)
    if (seeds, comparisons) in {(5, 1), (5, 6), (10, 6)}:  # at the others scipy's noncentral t is NaN
        assert oracle == pytest.approx(0.8, abs=1e-6)


def test_power_is_the_noncentral_t_tail():
    t = stats.t.isf(0.025, 4)
    shift = 1.5 * math.sqrt(5)
    expected = stats.nct.sf(t, 4, shift) + stats.nct.cdf(-t, 4, shift)
    assert power(0.03, 0.02, 5) == pytest.approx(expected)
    assert power(-0.03, 0.02, 5) == pytest.approx(expected)


def test_power_grows_to_one_with_the_difference():
    for seeds in (3, 5, 10, 100, 10_000):
        found = [power(difference, 1.0, seeds) for difference in np.linspace(0.01, 20, 40)]
        assert np.all(np.diff(found) > -1e-9)
        assert found[-1] == pytest.approx(1, abs=1e-3)


def test_the_seeds_needed_are_the_least_that_do():
    for difference in (0.005, 0.01, 0.1):
        seeds = seeds_needed(difference, 0.02)
        assert power(difference, 0.02, seeds) >= 0.8
        assert seeds == 3 or power(difference, 0.02, seeds - 1) < 0.8
    assert seeds_needed(1e-9, 0.02) is None
    assert seeds_needed(0.01, math.nan) is None
    assert seeds_needed(0.01, 0.0) == 3
    assert seeds_needed(0.1, 0.02, more_than=4) == 5


def test_the_power_of_two_treatments_alone_and_from_eight_seeds_on_is_students():
    for treatments, workloads in ((2, 1), (2, 12), (10, 12)):
        assert power(0.03, 0.02, 8, 3, treatments, workloads) == power(0.03, 0.02, 8, 3)
    assert power(0.03, 0.02, 7, 3, 2, 12) == pytest.approx(power(0.03, 0.02, 7, 3), abs=0.02)
    assert power(0.03, 0.02, 5, 3, 4, 12) > power(0.03, 0.02, 5, 3) + 0.1


def test_five_seeds_can_find_what_six_do_not():
    """At 5 % / 45, the t of a pair's own variance from 6 seeds is far larger than that of a workload's from 5."""
    suite = (45, 10, 12)
    for more_than, least in ((2, 4), (4, 5), (5, None)):
        assert few_seeds_needed(2.5, 1.0, *suite, more_than) == least
    assert power(2.5, 1.0, 6, *suite) < 0.8 < power(2.5, 1.0, 5, *suite)
    assert power(2.5, 1.0, 7, *suite) < 0.8 < power(2.5, 1.0, 8, *suite)
    assert seeds_needed(2.5, 1.0, *suite) == 8
    assert few_seeds_needed(1.0, 1.0, *suite) is None


@pytest.mark.parametrize("comparisons", [1, 10])
@pytest.mark.parametrize("freedom", [2, 4, 8, 24])
def test_a_plan_from_an_estimated_spread_has_the_power_promised_on_average(freedom, comparisons):
    estimates = np.sqrt(stats.chi2.ppf((np.arange(200) + 0.5) / 200, freedom) / freedom)
    differences = [detectable_difference(planning_spread(s, freedom, comparisons), 5, comparisons) for s in estimates]
    mean = np.mean([power(difference, 1.0, 5, comparisons) for difference in differences])
    assert mean == pytest.approx(0.8, abs=0.02)
    assert planning_spread(1.0, 10_000, comparisons) == pytest.approx(1, abs=1e-3)
    assert planning_spread(1.0, 0, comparisons) == 1  # a stated one


def test_the_spread_of_a_workload_is_that_of_its_variances():
    x = np.random.default_rng(2).standard_normal((3, 4, 5))
    of = variances(x)
    workload = SeedVariance(*(array[1] for array in of))
    deviation = math.sqrt(np.mean([np.var(x[1, i] - x[1, j], ddof=1) for i in range(4) for j in range(i)]))
    spread = planning_spread(deviation, 12, 6)
    assert resolution(workload, 5, 4, 3, 6) == pytest.approx(detectable_difference(spread, 5, 6, 4, 3))
    assert seeds_to_find(0.5, workload, 4, 3, 6) == seeds_needed(0.5, spread, 6, 4, 3)
    none = SeedVariance(*(array[0] for array in variances(x[:, :1])))
    assert math.isnan(resolution(none, 5, 4, 3, 6))
    assert seeds_to_find(0.5, none, 4, 3, 6) is None


def test_the_pilots_spread_is_the_mean_variance_of_all_paired_differences():
    values = np.random.default_rng(0).standard_normal((1, 4, 5)) + np.arange(5)  # the seeds' own level does not count
    differences = [values[0, i] - values[0, j] for i in range(4) for j in range(i)]
    spread = pilot_spread(frame(values))
    assert spread.difference**2 == pytest.approx(np.mean([np.var(d, ddof=1) for d in differences]))
    assert (spread.degrees_of_freedom, spread.workloads) == (12, 1)


def test_diverged_initializers_are_left_out_of_the_pilot():
    values = np.random.default_rng(1).standard_normal((2, 4, 3))
    values[0, 3, 1] = math.inf
    assert pilot_spread(frame(values)).degrees_of_freedom == 2 * 2 + 3 * 2
    values[:] = math.inf
    none = pilot_spread(frame(values))
    assert math.isnan(none.difference)
    assert none.degrees_of_freedom == 0
    assert math.isnan(detectable_difference(none.difference, 5))


def test_treatments_that_fail_at_a_seed_are_left_out_of_the_pilot():
    values = np.random.default_rng(1).standard_normal((2, 4, 3))
    learned = np.ones(values.shape)
    values[0, 3, 1], learned[0, 3, 1] = 100, 0
    spread = pilot_spread(frame(values).assign(is_trained=learned.ravel()))
    assert spread.degrees_of_freedom == 2 * 2 + 3 * 2
    assert spread.difference < 3


def test_stated_spread_and_limits():
    assert stated_spread(0.01).difference == pytest.approx(0.01 * math.sqrt(2))
    with pytest.raises(ValueError, match="positive"):
        stated_spread(0.0)
    assert math.isnan(detectable_difference(0.02, 2))
    assert detectable_difference(0.0, 3) == 0
    assert math.isnan(detectable_correlation(4))


def test_the_detectable_correlation_is_cohens():
    # Pearson's would need n = 29 for ρ = 0.5 (Cohen 1988, table 3.4.1: 28 or 29); 1.06 in place of 1 adds two.
    assert detectable_correlation(30) > 0.5 > detectable_correlation(31)


def test_the_workloads_that_friedmans_test_needs_find_it_with_the_chance_promised():
    """Mean ranks of normal outcomes with fixed effects: what many workloads show, and how many find it."""
    generator = np.random.default_rng(5)

    def outcomes(workloads, worlds=1):
        return np.array([0.0, 0.2, 0.6]) + generator.standard_normal((worlds, workloads, 3))

    # What 10 workloads show in the mean: so much of the 20,000's, and the 2 degrees of freedom.
    effect = (stats.friedmanchisquare(*outcomes(20_000)[0].T).statistic - 2) / 20_000
    needed = friedman_workloads(2 + 10 * effect, 3, 10)
    fired = np.mean([stats.friedmanchisquare(*y.T).pvalue < 0.05 for y in outcomes(needed, 1000)])
    assert fired == pytest.approx(0.8, abs=0.05)  # 4 standard errors of a share of 1,000
    assert friedman_workloads(2.0, 3, 10) is None  # no more than chance
    assert friedman_workloads(2 + 10 * effect, 3, 10, epsilon=0.5) > needed
    assert friedman_workloads(100.0, 3, 10) == 11  # so many did not find it


def test_what_would_be_enough_is_more_than_what_was_not():
    assert correlation_treatments(0.9, more_than=10) == 11
    # A perfect order of 5 and its mirror image are 2 of 120 orders; corrected for 5 probes that is 8.3 %.
    assert correlation_treatments(1.0, comparisons=5, more_than=5) == 6
    assert correlation_treatments(1.0, comparisons=1, more_than=4) == 5
    assert correlation_treatments(0.02) is None
