"""The variances of paired differences: by hand, by statsmodels, and at the edges of what is known."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats
from statsmodels.formula.api import ols
from worlds import frame

import initbench.statistics.seed_variance as module
from initbench.statistics.intervals import mean_estimate
from initbench.statistics.seed_variance import (
    SeedVariance,
    difference_estimate,
    pair_moments,
    pvalue,
    scores,
    seed_variances,
    variances,
)

nan, inf = math.nan, math.inf


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def on_workload(x, workload=0, unit=1.0):
    """Return the variances of one workload of a suite (workloads, treatments, seeds)."""
    return SeedVariance(*(field[workload] for field in variances(x, unit)))


def trials_of(x, chance=None, best=0.0, metrics=None):
    """Return scores (workloads, treatments, seeds) as trials; chance and best value by workload."""
    chance = np.broadcast_to(nan if chance is None else chance, len(x))
    trials = frame(x)
    row = trials["workload"].str[1:].astype(int)
    return trials.assign(
        oriented_chance=chance[row],
        oriented_best=np.broadcast_to(best, len(x))[row],
        metric="test_error" if metrics is None else np.array(metrics)[row],
    )


# The workload's variance.


@pytest.mark.parametrize(("treatments", "seeds"), [(2, 3), (5, 3), (3, 7)])
def test_the_workloads_variance_is_twice_the_mean_square_error_of_randomized_blocks(treatments, seeds):
    x = normal(1, treatments, seeds) * np.arange(1, treatments + 1)[:, None] + normal(seeds)
    of = on_workload(x)
    treatment, seed = np.indices(x[0].shape)
    table = pd.DataFrame({"treatment": treatment.ravel(), "seed": seed.ravel(), "score": x.ravel()})
    fit = ols("score ~ C(treatment) + C(seed)", table).fit()
    assert of.block == pytest.approx(2 * fit.mse_resid, rel=1e-10)
    assert of.freedom == fit.df_resid == (treatments - 1) * (seeds - 1)
    pairs = [np.var(a - b, ddof=1) for a, b in itertools.combinations(x[0], 2)]
    assert of.block == pytest.approx(np.mean(pairs), rel=1e-10)


def test_many_suites_at_once_are_each_by_itself():
    x = normal(6, 3, 4, 3)
    x[2, 1, 0] = nan
    unit = np.array([1.0, 2.0, 5.0])
    together = variances(x, unit)
    for i, suite in enumerate(x):
        for all_suites, one in zip(together, variances(suite, unit), strict=True):
            assert all_suites[i] == pytest.approx(one, rel=1e-12, nan_ok=True)


def test_an_absent_treatment_changes_nothing():
    x = normal(2, 5, 3)
    x[0, 4] = nan
    assert on_workload(x).block == pytest.approx(on_workload(x[:, :4]).block)
    assert on_workload(x).freedom == 3 * 2
    assert on_workload(x, 1).freedom == 4 * 2
    mean, variance, seeds = pair_moments(x[0])
    with_absent = [4 in pair for pair in itertools.combinations(range(5), 2)]
    assert (seeds == np.where(with_absent, 0, 3)).all()
    assert (pvalue(mean, variance, seeds, on_workload(x))[with_absent] == 1).all()


def test_a_missing_seed_is_left_out_of_its_pairs():
    x = normal(1, 3, 5)
    x[0, 2, 1] = nan
    of = on_workload(x)
    kept = [0, 2, 3, 4]
    expected = [np.var(x[0, 0] - x[0, 1], ddof=1), *(np.var((x[0, i] - x[0, 2])[kept], ddof=1) for i in (0, 1))]
    assert of.block == pytest.approx(np.mean(expected))
    assert of.freedom == 2 * 3  # of the pairs with the fewest seeds
    _, variance, seeds = pair_moments(x[0])
    assert variance == pytest.approx(expected)
    assert list(seeds) == [5, 4, 4]


def test_treatments_without_a_seed_in_common_have_no_variance():
    x = np.array([[[1.0, 2.0, nan, nan], [nan, nan, 1.0, 2.0]]])
    of = on_workload(x)
    assert math.isnan(of.block)
    assert of.freedom == 0
    mean, variance, seeds = pair_moments(x[0])
    assert pvalue(mean, variance, seeds, of) == [1]


# The prior.


def smyth(variance, d, careful=1.0):
    """Return d₀ by hand: the root of ψ′(d₀/2) = careful · var(log s²) - ψ′(d/2)."""
    excess = careful * np.var(np.log(variance), ddof=1) - special.polygamma(1, d / 2)
    return optimize.brentq(lambda d0: special.polygamma(1, d0 / 2) - excess, 1e-3, 1e4)


def drawn_variances(d, d0, number):
    """Return variances with d degrees of freedom around a scaled inverse χ² with d₀."""
    generator = np.random.default_rng(4)
    return 7 * d0 / generator.chisquare(d0, number) * generator.chisquare(d, number) / d


def prior_freedom(variance, d, treatments):
    shape = (1, len(variance))
    degrees, known = np.full(shape, d), np.full(shape, True)
    return float(module._prior_freedom(variance[None], degrees, known, np.array([treatments])))


@pytest.mark.parametrize(("d", "d0"), [(2, 2), (2, 5), (4, 5), (4, 12)])
def test_the_priors_freedom_is_recovered(d, d0):
    """The standard error of d₀ from 40,000 variances is at most 4 %; the careful bound takes off a little."""
    variance = drawn_variances(d, d0, 40_000)
    assert smyth(variance, d) == pytest.approx(d0, rel=0.12)
    assert prior_freedom(variance, d, treatments=40_000) == pytest.approx(d0, rel=0.12)


def test_without_the_careful_bound_it_is_smyths_estimator(monkeypatch):
    variance = drawn_variances(2, 3, 28)  # of 8 treatments, so 6 independent values
    careful = prior_freedom(variance, 2, treatments=8)
    assert careful == pytest.approx(smyth(variance, 2, 6 / stats.chi2.ppf(0.25, 6)), rel=1e-8)
    monkeypatch.setattr(module, "_CAREFUL", stats.chi2.cdf(6, 6))  # the quantile of which is 6
    assert prior_freedom(variance, 2, treatments=8) == pytest.approx(smyth(variance, 2), rel=1e-8)
    assert careful < smyth(variance, 2)


def test_variances_are_compared_within_workloads():
    """A factor between workloads says nothing about the pairs of one."""
    x = normal(3, 4, 3)
    scaled = x * np.array([1.0, 100.0, 1e-4])[:, None, None]
    assert variances(scaled).prior_freedom == pytest.approx(variances(x).prior_freedom, rel=1e-6)


@pytest.mark.parametrize(("treatments", "seeds"), [(3, 3), (5, 3), (5, 5)])
def test_the_prior_has_no_more_than_the_other_pairs_degrees_of_freedom(treatments, seeds):
    """Many workloads with equal variances would have a larger d₀."""
    assert on_workload(normal(200, treatments, seeds)).prior_freedom == (treatments - 2) * (seeds - 1)


def test_two_treatments_have_no_prior():
    assert (variances(normal(5, 2, 3)).prior_freedom == 0).all()


@pytest.mark.parametrize("x", [1e-3, 0.3, 1.0, 7.0, 500.0])
def test_the_inverse_of_the_trigamma_function(x):
    assert module._inverse_trigamma(special.polygamma(1, np.array([x]))) == pytest.approx(x, rel=1e-8)


def test_the_inverse_of_what_is_not_positive_is_infinite():
    assert list(module._inverse_trigamma(np.array([0.0, -1.0]))) == [inf, inf]


# The suite's variance.


def test_few_degrees_of_freedom_take_the_suites_variance():
    """It is the mean of the workloads' in a common unit, or as a share of the scores' variance, whichever is less."""
    unit = np.array([1.0, 10.0, 2.0])
    x = normal(3, 2, 3) * unit[:, None, None]
    of = variances(x, unit)
    total = x.reshape(3, -1).var(axis=1)
    by_unit, by_total = (np.mean(of.block / scale) * scale for scale in (unit**2, total))
    assert of.suite == pytest.approx(np.minimum(by_unit, by_total))
    assert list(of.suite_freedom) == [6, 6, 6]
    assert variances(x, [nan, nan, nan]).suite == pytest.approx(by_total)


@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 5, 3), (3, 5, 5)])
def test_one_workload_and_many_treatments_have_none(shape):
    assert np.isnan(variances(normal(*shape)).suite).all()


# The decision.


def cases():
    """Yield suites of every kind: few and many seeds, treatments and workloads, gaps, outliers, equal scores."""
    for seed, (workloads, treatments, seeds) in enumerate(itertools.product((1, 3), (2, 3, 5), (3, 5, 6, 7, 8))):
        x = normal(workloads, treatments, seeds, seed=seed)
        x[:, 0] += 4
        if seed % 3 == 1:
            x[0, -1, 0] += 100
        if seed % 3 == 2:
            x[-1, -1] = x[-1, 0] + 1
        if seed % 4 == 3 and seeds > 3:
            x[0, 0, 1] = nan
        yield x


def pairs_of(x):
    """Yield the common seeds' differences of each pair with its workload's variances."""
    for w in range(len(x)):
        of = on_workload(x, w)
        for a, b in itertools.combinations(x[w], 2):
            difference = a - b
            yield difference[~np.isnan(difference)], of


@pytest.mark.parametrize("comparisons", [1, 10])
def test_the_interval_excludes_0_exactly_if_the_pvalue_is_small(comparisons):
    sides = []
    for x in cases():
        for difference, of in pairs_of(x):
            mean, variance = difference.mean(), pair_moments(np.stack([difference, np.zeros_like(difference)]))[1][0]
            p = pvalue(mean, variance, len(difference), of)
            sides.append(difference_estimate(difference, of, comparisons).side() != 0)
            assert sides[-1] == (p < 0.05 / comparisons)
    assert 20 < sum(sides) < len(sides) - 20


@pytest.mark.parametrize("comparisons", [1, 10])
def test_no_interval_is_narrower_than_by_any_of_the_variances(comparisons):
    for x in cases():
        for difference, of in pairs_of(x):
            n, d = len(difference), len(difference) - 1
            own = np.var(difference, ddof=1)
            own = own if own > 1e-20 else 0.0
            required = [(of.block, of.freedom)] if n <= 7 else []
            if n <= 5:
                shrunk = (of.prior_freedom * of.block + d * own) / (of.prior_freedom + d)
                required += [(shrunk, of.prior_freedom + d), (of.suite, of.suite_freedom)]
            else:
                required.append((own, d))
            halves = [stats.t.isf(0.025 / comparisons, f) * math.sqrt(v / n) for v, f in required if v > 0]
            estimate = difference_estimate(difference, of, comparisons)
            if halves:
                assert estimate.half_width == pytest.approx(max(halves), rel=1e-9)
            else:
                assert not estimate.has_interval


@pytest.mark.parametrize("seeds", [8, 10])
def test_from_eight_seeds_on_it_is_students_paired_t(seeds):
    x = normal(2, 4, seeds)
    for difference, of in pairs_of(x):
        assert difference_estimate(difference, of, 3) == pytest.approx(mean_estimate(difference, 3), rel=1e-9)
    expected = [stats.ttest_rel(a, b).pvalue for a, b in itertools.combinations(x[0], 2)]
    assert pvalue(*pair_moments(x[0]), on_workload(x)) == pytest.approx(expected)


@pytest.mark.parametrize("seeds", [6, 7])
def test_with_six_and_seven_seeds_students_paired_t_and_the_workloads_variance_decide(seeds):
    x = normal(2, 4, seeds)
    mean, variance, n = pair_moments(x[0])
    of = on_workload(x)
    own = 2 * stats.t.sf(np.abs(mean) / np.sqrt(variance / n), seeds - 1)
    block = 2 * stats.t.sf(np.abs(mean) / np.sqrt(of.block / n), 3 * (seeds - 1))
    assert pvalue(mean, variance, n, of) == pytest.approx(np.maximum(own, block))


def test_two_treatments_of_one_workload_are_judged_by_students_paired_t():
    x = normal(1, 2, 3)
    expected = stats.ttest_rel(*x[0])
    assert pvalue(*pair_moments(x[0]), on_workload(x)) == pytest.approx([expected.pvalue])
    interval = expected.confidence_interval()
    assert difference_estimate(x[0, 0] - x[0, 1], on_workload(x))[1:3] == pytest.approx((interval.low, interval.high))


def test_two_treatments_need_the_suites_variance_too():
    """Two that agree by luck on one workload are not more certain than the suite's seeds allow."""
    x = normal(4, 2, 3)
    x[0] = [[5, 5, 5.001], [1, 1, 1]]
    [p] = pvalue(*pair_moments(x[0]), on_workload(x))
    assert p > 1e-4 > stats.ttest_rel(*x[0]).pvalue


def test_without_the_workloads_variances_it_is_students_interval():
    values = [0.3, 0.1, 0.4]
    assert difference_estimate(values, None, 6) == mean_estimate(values, 6)
    assert pvalue(np.mean(values), np.var(values, ddof=1), 3) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.5], [0.1, nan, 0.2], [0.1, inf, 0.2]])
def test_too_few_seeds_or_one_that_diverged_leave_no_interval(values):
    of = on_workload(normal(1, 3, 3))
    assert difference_estimate(values, of) == pytest.approx(mean_estimate(values), nan_ok=True)
    assert not difference_estimate(values, of).has_interval


# Differences that are all equal.


def test_equal_differences_say_nothing_about_the_prior():
    """1.1 - 1 and .6 - .5 differ by rounding alone."""
    x = normal(3, 4, 3) * np.geomspace(1, 30, 4)[:, None]
    x[0, 0], x[0, 1] = [1.1, 0.6, 0.3], [1.0, 0.5, 0.2]
    _, variance, _ = pair_moments(x[0])
    assert variance[0] == 0
    z = np.log([*variance[1:], *pair_moments(x[1])[1], *pair_moments(x[2])[1]])
    groups = np.repeat([0, 1, 2], [5, 6, 6])
    residual = z - np.array([z[groups == g].mean() for g in range(3)])[groups]
    excess = (residual**2).sum() / (17 - 3) * 6 / stats.chi2.ppf(0.25, 6) - special.polygamma(1, 1.0)
    expected = float(2 * module._inverse_trigamma(np.array(excess)))
    assert expected < 2 * 2  # below the limit of (k - 2) d
    assert on_workload(x).prior_freedom == pytest.approx(expected)


def test_equal_differences_are_judged_by_their_workload():
    x = normal(1, 4, 3)
    x[0, 1] = x[0, 0] + 1000
    estimate = difference_estimate(x[0, 1] - x[0, 0], on_workload(x))
    assert estimate.side() == 1
    assert estimate.half_width > 0


def test_a_workload_without_variance_tells_nothing():
    x = np.zeros((2, 3, 3))
    x[:, 1] = 1
    of = on_workload(x)
    assert of.block == 0
    assert (pvalue(*pair_moments(x[0]), of) == 1).all()
    assert not difference_estimate(x[0, 1] - x[0, 0], of).has_interval


def test_no_difference_is_never_significant():
    x = normal(1, 3, 3)
    x[0, 1] = x[0, 0]
    assert pvalue(*pair_moments(x[0]), on_workload(x))[0] == 1


# Trials.


def test_a_diverged_trial_and_one_worse_than_chance_score_as_chance():
    x = np.array([[[0.1, inf, 0.95], [0.2, 0.3, 0.4]]])
    table = scores(trials_of(x, chance=0.9))
    assert table.to_numpy().T.tolist() == [[0.1, 0.9, 0.9], [0.2, 0.3, 0.4]]
    assert list(table.index.names) == ["workload", "seed"]


def test_without_a_known_chance_a_diverged_trial_has_no_score():
    x = np.array([[[0.1, inf, 0.95], [0.2, 0.3, 0.4]]])
    np.testing.assert_array_equal(scores(trials_of(x)).to_numpy().T, [[0.1, nan, 0.95], [0.2, 0.3, 0.4]])


def test_trials_have_the_variances_of_their_scores():
    x = normal(3, 4, 3)
    x[1, 2, 1] = inf
    x[2, 3, 0] = nan  # no result
    chance, best = np.array([3.0, 4.0, 5.0]), np.array([-4.0, -5.0, -6.0])
    found = seed_variances(trials_of(x, chance, best))
    capped = np.where(np.isnan(x), nan, np.minimum(x, chance[:, None, None]))
    assert list(found) == ["w0", "w1", "w2"]
    for w, of in enumerate(found.values()):
        assert of == pytest.approx(on_workload(capped, w, chance - best), nan_ok=True)


def test_workloads_with_different_seeds_and_treatments():
    few, many = normal(1, 2, 3), normal(1, 5, 5, seed=1)
    trials = pd.concat([trials_of(few), trials_of(many).assign(workload="other")])
    found = seed_variances(trials)
    assert found["w0"].block == pytest.approx(on_workload(few).block)
    assert found["w0"].freedom == 2
    assert found["other"].block == pytest.approx(on_workload(many).block)
    assert found["other"].freedom == 16
    assert not math.isnan(found["w0"].suite)
    assert math.isnan(found["other"].suite)


@pytest.mark.parametrize(
    ("metrics", "chance", "unit"),
    [
        (["error", "error"], [0.9, 0.5], [0.9, 0.5]),
        (["error", "bits"], [0.9, 8.0], [0.9, 8.0]),
        (["error", "error"], [0.9, nan], [1, 1]),  # of one metric the values themselves are comparable
        (["error", "bits"], [0.9, nan], [0.9, nan]),
    ],
)
def test_outcomes_of_several_metrics_are_compared_from_chance_to_best(metrics, chance, unit):
    x = 0.2 + 0.01 * normal(2, 2, 3)
    found = seed_variances(trials_of(x, chance, metrics=metrics))
    expected = variances(x, unit)
    assert [of.suite for of in found.values()] == pytest.approx(list(expected.suite))
    assert not np.isnan(expected.suite).any()


def test_no_trial_has_a_result():
    trials = trials_of(normal(1, 2, 3)).assign(oriented=nan)
    assert seed_variances(trials) == {}
