"""What can be told: the facts behind the sentences, and what would tell where nothing can be."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from worlds import Setting, frame, null_worlds, related_worlds, simpson_worlds, table

from initbench.comparing.chance import JUDGED, is_trained
from initbench.statistics.cells import cells, trial_outcomes
from initbench.statistics.cost import spent
from initbench.statistics.decisions import is_rejected
from initbench.statistics.divergence import divergence_rates, predict_divergence
from initbench.statistics.gain import gain
from initbench.statistics.intervals import Estimate, mean_estimate
from initbench.statistics.paired import by_seed, compare_columns, compare_paired, paired_estimate
from initbench.statistics.permutation import permutation_test
from initbench.statistics.pooled import crossed
from initbench.statistics.power import (
    correlation_treatments,
    detectable_correlation,
    number_needed,
    seeds_needed,
)
from initbench.statistics.profiles import fastest
from initbench.statistics.ranks import compare_ranks, workloads_for_one_rank
from initbench.statistics.seed_variance import suite_variances
from initbench.statistics.selection import selection
from initbench.statistics.variance import split_variance
from initbench.statistics.verdicts import learning_differences, workload_order, workload_verdicts

inf, nan = math.inf, math.nan


def judged(probe, outcome):
    """Return the permutation test and the mean ρ of one world's cells."""
    return permutation_test(table(probe), table(outcome)), crossed(table(probe), table(outcome))


def ordered(initializers, workloads=4):
    """Return cells that a probe orders perfectly."""
    return np.tile(np.arange(float(initializers)), (workloads, 1))


@pytest.mark.parametrize(
    ("low", "high", "no_effect", "side"),
    [
        (0.1, 0.3, 0.0, 1),
        (-0.3, -0.1, 0.0, -1),
        (-0.1, 0.1, 0.0, 0),
        (0.0, 0.1, 0.0, 0),
        (0.6, 0.9, 0.5, 1),
        (nan, nan, 0.0, 0),
    ],
)
def test_an_interval_tells_a_side_only_where_it_does_not_hold_the_value_of_no_effect(low, high, no_effect, side):
    assert Estimate((low + high) / 2, low, high, 5).side(no_effect) == side


def test_a_test_and_its_interval_are_to_agree():
    apart, across, without = Estimate(0.5, 0.1, 0.9, 9), Estimate(0.5, -0.1, 0.9, 9), Estimate(0.5, nan, nan, 9)
    assert is_rejected(0.049, apart)
    assert not is_rejected(0.05, apart)
    assert not is_rejected(0.001, across)
    assert is_rejected(0.001, without)
    assert not is_rejected(nan, apart)


def test_the_number_needed_is_that_of_the_values_behind_the_interval():
    values = np.array([0.004, -0.004, 0.002, -0.003, 0.002])
    for comparisons in (1, 6):
        needed = number_needed(mean_estimate(values, comparisons), comparisons)
        assert needed == seeds_needed(float(values.mean()), float(np.std(values, ddof=1)), comparisons)
        assert needed > len(values)
    assert number_needed(mean_estimate([0.1, 0.1, 0.1])) is None
    assert number_needed(mean_estimate([0.1, -0.1, 0.2, -0.2])) is None  # no difference is of no size


def test_which_of_two_is_better_does_not_depend_on_who_is_asked_first():
    outcome = np.zeros((4, 2, 3)) + np.array([[[0.1], [0.12]]])
    outcome[:, 0] -= np.array([0.001, 0.002, 0.003, 0.002])[:, None]
    first, second = (compare_paired(frame(outcome), *names) for names in (("i0", "i1"), ("i1", "i0")))
    assert (first.side, second.side) == (-1, 1)
    assert first.is_told
    assert first.judged == first.difference
    assert not first.is_over_seeds


def test_a_ledger_of_one_workload_is_judged_by_its_seeds():
    values = 0.1 + 0.001 * np.random.default_rng(1).standard_normal((1, 2, 5))
    values[0, 1] += 0.05
    comparison = compare_paired(frame(values), "i0", "i1")
    assert comparison.is_over_seeds
    assert comparison.judged == paired_estimate(values[0, 0], values[0, 1])
    assert comparison.side == -1
    assert comparison.difference.side() == 0  # of one workload there is no interval


def test_where_a_trial_diverged_the_probability_of_improvement_decides():
    outcome = np.full((8, 2, 3), 0.1) + np.arange(2)[:, None] / 10
    outcome[0, :, 0] = outcome[1, 1, 1] = inf
    trials = frame(outcome)
    comparison = compare_paired(trials, "i0", "i1")
    assert not comparison.has_mean
    assert comparison.side == -1
    assert compare_paired(trials, "i1", "i0").side == 1
    assert not compare_paired(frame(outcome[:3]), "i0", "i1").is_told


def test_nothing_is_told_of_two_that_never_met():
    comparison = compare_paired(frame(np.ones((2, 1, 3))), "i0", "i1")
    assert (comparison.workloads, comparison.is_told) == (0, False)


def test_one_rank_is_told_by_as_many_workloads_as_make_the_critical_difference_one():
    for k in (3, 4, 10):
        n = workloads_for_one_rank(k)
        q = stats.studentized_range.ppf(0.95, k, np.inf)
        assert q * math.sqrt(k * (k + 1) / (12 * n)) <= 1 < q * math.sqrt(k * (k + 1) / (12 * (n - 1)))
    assert workloads_for_one_rank(4) == 22


def test_who_leads_and_who_is_behind():
    outcome = np.tile(np.arange(4.0), (30, 1))
    ranks = compare_ranks(table(outcome))
    assert ranks.is_told
    assert ranks.leaders == ["i0"]
    assert list(ranks.behind["second"]) == ["i1", "i2", "i3"]
    outcome[:, 1] = 0.0
    tied = compare_ranks(table(outcome))
    assert tied.leaders == ["i0", "i1"]
    assert list(tied.behind["second"]) == ["i2", "i3"]
    none = compare_ranks(table(np.ones((6, 4))))
    assert not none.is_told
    assert none.needed is None
    assert not compare_ranks(table(outcome[:1])).is_told


def test_divergence_is_counted_by_workload():
    outcome = np.full((5, 2, 3), 0.1)
    outcome[0, 0] = outcome[1, 0, 1] = inf
    trials = frame(outcome)
    rates = divergence_rates(cells(trials), trial_outcomes(trials)).set_index("treatment")
    assert dict(rates.loc["i0", ["workloads", "rate", "trials", "trials_diverged"]]) == {
        "workloads": 5,
        "rate": 0.4,
        "trials": 15,
        "trials_diverged": 4,
    }
    # Wilson's interval of 2 of 5 by workload, whatever the number of seeds, that holds for both treatments at once.
    wilson = stats.binomtest(2, 5).proportion_ci(1 - 0.05 / 2, "wilson")
    assert tuple(rates.loc["i0", ["rate_low", "rate_high"]]) == pytest.approx((wilson.low, wilson.high))
    assert tuple(rates.loc["i1", ["rate", "trials_diverged"]]) == (0, 0)


def test_the_largest_share_of_the_variance():
    outcome = np.zeros((4, 3, 3)) + 0.01 * np.random.default_rng(0).standard_normal((4, 3, 3))
    crossing = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1]])[:, :, None]
    assert split_variance(frame(outcome + crossing)).largest[0] == "interaction"
    assert split_variance(frame(outcome + np.arange(4)[:, None, None])).largest[0] == "workload"
    name, share = split_variance(frame(outcome + np.arange(3)[:, None])).largest
    assert name == "treatment"
    assert share > 0.9
    assert split_variance(frame(outcome[:1])).is_too_small
    equal = split_variance(frame(np.ones((3, 3, 3))))
    assert not equal.is_known
    assert not equal.is_too_small


@pytest.mark.parametrize("initializers", [3, 4, 5])
def test_below_five_initializers_nothing_is_told_of_a_probe(initializers):
    test, rho = judged(ordered(initializers), ordered(initializers))
    assert test.statistic == pytest.approx(1)
    assert test.is_testable == (initializers == 5)
    assert test.tells(rho) == (initializers == 5)


def test_a_corrected_pvalue_decides():
    test, rho = judged(ordered(5), ordered(5))
    assert not test.tells(rho, 0.2)
    assert test.tells(rho, 0.04)


def test_the_initializers_that_a_correlation_takes_are_those_that_detect_it():
    for rho in (-0.8, 0.5, 0.2):
        needed = correlation_treatments(rho)
        assert detectable_correlation(needed) <= abs(rho) < detectable_correlation(needed - 1)
    assert correlation_treatments(0.0) is None
    assert correlation_treatments(1.0) == 5


def test_a_related_and_an_unrelated_probe():
    setting = Setting(workloads=6, initializers=8, seeds=3)
    related = related_worlds(setting, 1, seed=1, strength=3.0)
    y, x = (values[0] for values in related.cells())
    for sign in (1, -1):
        test, rho = judged(sign * x, y)
        assert test.tells(rho)
        assert np.sign(test.statistic) == rho.side() == sign
    y, x = (values[0] for values in null_worlds(setting, 1, seed=1).cells())
    test, rho = judged(x, y)
    assert not test.tells(rho)
    assert test.needed() > 8


def test_simpsons_world_is_told_by_the_sign_within_workloads():
    y, x = (values[0] for values in simpson_worlds(Setting(workloads=6, initializers=8, seeds=3), 1, seed=0).cells())
    assert np.corrcoef(x.ravel(), y.ravel())[0, 1] < -0.5  # all cells together
    test, rho = judged(x, y)
    assert test.tells(rho)
    assert test.statistic > 0


def test_gaps_leave_fewer_initializers_to_exchange():
    x = np.tile(np.arange(7.0), (3, 1))
    x[:2, 6] = nan  # one runs on the last workload alone
    test, rho = judged(x, x)
    assert (test.treatments, test.workloads, rho.n) == (6, 3, 7)
    x[2, :6] = nan  # and now on one of its own, which tells nothing: it is none of those that were looked at
    test, rho = judged(x, x)
    assert (test.treatments, test.workloads, rho.n) == (6, 2, 6)


def test_what_a_probe_adds_takes_three_architectures():
    x = ordered(6, 2)
    few = gain(table(x), table(x), {}, permutations=99)
    assert few.has_too_few_architectures
    assert not few.is_known
    assert not few.adds()
    rng = np.random.default_rng(0)
    outcome = rng.standard_normal((5, 8))
    known = gain(table(outcome), table(outcome), {}, permutations=99)
    assert known.is_testable
    assert known.adds()
    assert not known.adds(0.2)
    assert not gain(table(rng.standard_normal((5, 8))), table(outcome), {}, permutations=99).adds()


def test_what_foretells_divergence():
    diverged = np.array([[0, 0, 0, 0, 1, 1, 1, 1]] * 3, dtype=float)
    assert predict_divergence(table(ordered(8, 3)), table(diverged)).foretells()
    assert not predict_divergence(table(ordered(8, 3)), table(diverged)).foretells(0.2)
    few = predict_divergence(table(ordered(4, 3)), table(diverged[:, 2:6]))
    assert not few.is_testable
    assert not few.foretells()


def test_on_how_many_workloads_a_choice_diverged():
    outcome = ordered(5)
    outcome[0, 0] = outcome[2, 0] = inf
    assert selection(table(ordered(5)), table(outcome)).diverged == 2
    assert selection(table(ordered(5)), table(ordered(5))).diverged == 0


def test_what_initializers_spent():
    rows = [("a", 0.0, 168.0), ("b", 450.0, 168.0), ("b", 500.0, 100.0), ("c", nan, 168.0), ("d", 9.0, nan)]
    found = spent(pd.DataFrame(rows, columns=["treatment", "initialization_steps", "training_steps"]))
    assert found.nothing == ["a"]
    assert found.unknown == ["c"]
    b, d = found.spending
    assert b == ("b", 450, 500, pytest.approx(450 / 168), 5)
    assert d[:3] == ("d", 9, 9)
    assert math.isnan(d.most_times)


def test_who_is_fastest_and_that_nobody_is():
    costs = table(np.array([[1.0, 2], [1, 3], [4, 2], [inf, inf]]))
    found = fastest(costs)
    assert (found.names, found.wins, found.share.value) == (["i0"], 2, 0.5)
    assert fastest(costs.iloc[1:]).names == ["i0", "i1"]
    assert fastest(costs.iloc[3:]).names == []


def test_the_standing_of_one_workload():
    """One winner, one tied with it, one behind, one at chance and one that diverged at two of three seeds."""
    noise = 0.001 * np.array([[-1, 0, 1], [1, 0, -1], [0, 2, -1], [0, 0, 1], [1, -1, 0]])
    outcome = (np.array([0.02, 0.0205, 0.3, 0.9, 0.05])[:, None] + noise)[None]
    outcome[0, 4, 1:] = inf
    trials = frame(outcome)
    trials = trials.assign(oriented_chance=0.9, chance_standard_error=0.01, oriented_best=0.0)
    judged = cells(trials.assign(is_trained=is_trained(*(trials[column] for column in JUDGED))))
    variances = suite_variances(trials, judged)
    found = workload_order(judged, workload_verdicts(judged, trials, variances), saturated=["i3"])
    assert found.best == "i0"
    assert found.leading == ["i0", "i1"]
    assert found.behind == ["i2"]
    assert list(found.untrained.index) == ["i3"]
    assert found.diverged == {"i4": (2, 3)}
    assert found.saturated == ["i3"]
    assert found.partly == {"i4": (1, 3)}
    assert (found.compared, found.seeds) == (5, 15)
    verdicts = found.verdicts
    assert (verdicts["i3"].side, verdicts["i3"].is_of_training) == (-1, True)
    assert math.isnan(verdicts["i4"].difference.low)  # two camps have no interval
    for name in ("i1", "i2"):
        given = paired_estimate(
            outcome[0, 0], outcome[0, int(name[1])], verdicts[name].comparisons, variances.outcome["w0"]
        )
        assert found.differences[name] == pytest.approx(given, rel=1e-12)


def test_seeds_that_do_not_agree_on_learning_have_no_interval_against_a_reference():
    """The reference and a treatment learn at 3 seeds, another at none, and one at 2 of 3."""
    noise = 0.001 * np.array([[-1, 0, 1], [1, 0, -1], [0, 0, 1], [1, -1, 0]])
    outcome = (np.array([0.02, 0.03, 0.9, 0.05])[:, None] + noise)[None]
    outcome[0, 3, 2] = 0.9
    learned = np.ones(outcome.shape)
    learned[0, 2], learned[0, 3, 2] = 0, 0
    trials = frame(outcome).assign(oriented_chance=0.9, oriented_best=0.0, is_trained=learned.ravel())
    variances = suite_variances(trials, cells(trials))
    wide = by_seed(trials, ["i0", "i1", "i2", "i3"])
    found = {name: compare_columns(wide, name, "i0", 3, variances.on(name, "i0")).judged for name in wide}
    assert [found[name].has_interval for name in ("i1", "i2", "i3")] == [True, True, False]
    assert found["i3"].value == pytest.approx(outcome[0, 3].mean() - outcome[0, 0].mean())


def test_a_treatment_that_trains_at_some_seeds_does_not_hide_the_difference_of_others():
    """Seeds that end at 5, 40 and 85 %, all better than guessing, beside two tight treatments 3 points apart."""
    outcome = np.array([[[0.020, 0.021, 0.022], [0.050, 0.052, 0.051], [0.05, 0.4, 0.85]]])
    trials = frame(outcome).assign(oriented_chance=0.9, oriented_best=0.0, is_trained=1.0)
    judged = cells(trials)
    variances = suite_variances(trials, judged)
    verdicts = {(v.first, v.second): v for v in workload_verdicts(judged, trials, variances)}
    assert verdicts["i0", "i1"].side == -1
    assert verdicts["i0", "i2"].side == 0
    assert variances.of("w0", "i0", "i1").block < 1e-5
    assert variances.of("w0", "i0", "i2").block > 0.01


@pytest.mark.parametrize(("workloads", "differs"), [(1, False), (2, True), (4, True)])
def test_who_learns_at_more_seeds_of_all_workloads(workloads, differs):
    """Two treatments at 3 seeds, one of which diverges at all: 2 · 2⁻³ is not below 5 %, and 2 · 2⁻⁶ is."""
    outcome = np.full((workloads, 2, 3), 0.1)
    outcome[:, 1] = inf
    assert stats.binomtest(3 * workloads, 3 * workloads).pvalue == 2 * 0.5 ** (3 * workloads)
    assert learning_differences(frame(outcome)) == ({frozenset({"i0", "i1"})} if differs else set())
    assert learning_differences(frame(outcome[:, :1])) == set()


def test_seeds_at_which_both_learn_or_neither_say_nothing_of_who_learns():
    outcome = np.full((8, 3, 3), 0.1)
    outcome[:, 1, 0], outcome[:4, 2] = inf, inf  # 8 seeds of 24 against none: 2 · 2⁻⁸ is below 5 % / 3
    # Not i1 and i2: 4 seeds against 8.
    assert learning_differences(frame(outcome)) == {frozenset({"i0", "i1"}), frozenset({"i0", "i2"})}


def test_a_seed_that_is_no_better_than_chance_does_not_learn():
    outcome = np.full((2, 2, 3), 0.1)
    trials = frame(outcome)
    trials["is_trained"] = (trials["treatment"] == "i0").astype(float)
    assert learning_differences(trials) == {frozenset({"i0", "i1"})}


def test_a_trial_on_two_workloads_says_once_who_learns():
    """Fixup's trial is the same on a network with and without its scheme: 3 seeds, as on one workload, are no proof."""
    outcome = np.full((2, 2, 3), 0.1)
    outcome[:, 1] = inf
    trials = frame(outcome)
    assert learning_differences(trials)
    of_both = trials["treatment"] == "i1"
    trials.loc[of_both, "trial_id"] = trials.loc[of_both, "seed"].map(str)
    assert learning_differences(trials) == set()
