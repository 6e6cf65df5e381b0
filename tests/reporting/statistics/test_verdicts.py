import math
import re

import numpy as np
import pytest
from ledgers import ERROR
from reports import TERMS
from worlds import Setting, frame, null_worlds, related_worlds, simpson_worlds, table

from initbench.reporting.statistics.agreement import mean_seed_agreement, seed_agreement
from initbench.reporting.statistics.cells import cells
from initbench.reporting.statistics.comparison_verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
    workload_verdict,
)
from initbench.reporting.statistics.divergence import divergence_rate, predict_divergence
from initbench.reporting.statistics.gain import gain
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.paired import compare_paired, paired_estimate
from initbench.reporting.statistics.permutation import permutation_test
from initbench.reporting.statistics.pooled import crossed
from initbench.reporting.statistics.power import correlation_treatments, detectable_correlation, seeds_needed
from initbench.reporting.statistics.prediction_verdicts import (
    agreement_verdict,
    divergence_verdict,
    gain_verdict,
    prediction_verdict,
    regret_verdict,
)
from initbench.reporting.statistics.ranks import compare_ranks
from initbench.reporting.statistics.selection import selection
from initbench.reporting.statistics.variance import split_variance
from initbench.reporting.statistics.wording import NOT_ENOUGH, points


def every_sentence(outcome, probe):
    """Return all verdicts on one world, (workloads, initializers, seeds) each."""
    trials = frame(outcome, **{"probe.p": probe})
    y, x = table(np.median(outcome, axis=2)), table(np.median(probe, axis=2))
    diverged = table(np.isinf(outcome).sum(axis=2).astype(float))
    return [
        difference_verdict("i0", "i1", compare_paired(trials, "i0", "i1"), ERROR),
        rank_verdict(compare_ranks(y), TERMS),
        divergence_rate_verdict("i0", divergence_rate(cells(trials), "i0"), TERMS),
        variance_verdict(split_variance(trials), TERMS),
        prediction_verdict("GQ", permutation_test(x, y), crossed(x, y), TERMS),
        regret_verdict("GQ", selection(x, y), ERROR, TERMS),
        gain_verdict("GQ", gain(x, y, {}, permutations=99), TERMS),
        divergence_verdict("GQ", predict_divergence(x, diverged), TERMS),
        agreement_verdict("GQ", mean_seed_agreement(seed_agreement(trials, "probe.p")), TERMS),
        difference_verdict("i0", "i1", compare_paired(trials, "i0", "i1", 10), ERROR),
        workload_verdict("i0", "i1", paired_estimate(outcome[0, 0], outcome[0, -1], 3), ERROR, 3),
        regret_verdict("GQ", selection(x, y, lower_is_better=None), ERROR, TERMS),
    ]


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("initializers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("workloads", [1, 2, 3, 6])
@pytest.mark.parametrize("diverged", [0.0, 0.3, 1.0])
def test_every_verdict_is_one_readable_sentence(workloads, initializers, seeds, diverged):
    setting = Setting(workloads, initializers, seeds, diverged=diverged)
    worlds = null_worlds(setting, 1, seed=workloads)
    for sentence in every_sentence(worlds.outcome[0], worlds.probe[0]):
        assert sentence.endswith(".")
        assert sentence.count(". ") == 0
        assert not re.search(r"\bnan\b|\binf\b", sentence), sentence
        # No bare p-value, no ρ without n and interval (or that there is none).
        if " p = " in sentence or "ρ = " in sentence:
            assert "n = " in sentence
            assert "interval" in sentence or "χ²" in sentence or "mean rank" in sentence, sentence


def test_ties_everywhere_are_no_evidence():
    for sentence in every_sentence(np.ones((6, 6, 3)), np.ones((6, 6, 3))):
        claims = ("costs 0.00 points", "diverged on 0 of 6 workloads", NOT_ENOUGH)
        assert any(claim in sentence for claim in claims), sentence


def test_the_verdict_on_simpsons_world_has_the_sign_within_workloads():
    worlds = simpson_worlds(Setting(workloads=6, initializers=8, seeds=3), 1, seed=0)
    y, x = (values[0] for values in worlds.cells())
    assert np.corrcoef(x.ravel(), y.ravel())[0, 1] < -0.5  # all cells together
    sentence = prediction_verdict("GQ", permutation_test(table(x), table(y)), crossed(table(x), table(y)), TERMS)
    assert sentence.startswith("The higher GQ, the higher the test error: mean ρ = +0.")


def test_a_related_and_an_unrelated_probe():
    related = related_worlds(Setting(workloads=6, initializers=8, seeds=3), 1, seed=1, strength=3.0)
    assert every_sentence(related.outcome[0], related.probe[0])[4].startswith("The higher GQ, the higher")
    falling = every_sentence(related.outcome[0], -related.probe[0])
    assert falling[4].startswith("The higher GQ, the lower")
    null = null_worlds(Setting(workloads=6, initializers=8, seeds=3), 1, seed=1)
    assert every_sentence(null.outcome[0], null.probe[0])[4].startswith(NOT_ENOUGH)


def test_differences_in_points_with_their_sign():
    outcome = np.zeros((4, 2, 3)) + np.array([[[0.1], [0.12]]])
    outcome[:, 0] -= np.array([0.001, 0.002, 0.003, 0.002])[:, None]
    sentence = difference_verdict("i0", "i1", compare_paired(frame(outcome), "i0", "i1"), ERROR)
    assert (
        sentence == "i0 has 2.20 points less test error than i1 (95 % interval 2.07 to 2.33 points, n = 4 workloads)."
    )
    other = difference_verdict("i1", "i0", compare_paired(frame(outcome), "i1", "i0"), ERROR)
    assert other.startswith("i1 has 2.20 points more test error than i0")


def test_simultaneous_intervals_say_so():
    outcome = np.zeros((4, 2, 3)) + np.array([[[0.1], [0.12]]])
    outcome[:, 0] -= np.array([0.001, 0.002, 0.003, 0.002])[:, None]
    comparison = compare_paired(frame(outcome), "i0", "i1", 6)
    low, high = -100 * comparison.difference.high, -100 * comparison.difference.low
    assert difference_verdict("i0", "i1", comparison, ERROR) == (
        "i0 has 2.20 points less test error than i1 "
        f"(95 % interval, simultaneous over 6 comparisons, {low:.2f} to {high:.2f} points, n = 4 workloads)."
    )
    assert high - low > 26 / 100  # wider than the plain one, of 2.07 to 2.33


def test_two_initializers_on_one_workload():
    first, second = np.array([0.010, 0.012, 0.015, 0.011, 0.014]), np.array([0.024, 0.025, 0.027, 0.026, 0.025])
    assert re.fullmatch(
        r"kaiming has 1\.30 points less test error than xavier \(95 % interval, simultaneous over 6 comparisons, "
        r"\d\.\d\d to \d\.\d\d points, n = 5 seeds\)\.",
        workload_verdict("kaiming", "xavier", paired_estimate(first, second, 6), ERROR, 6),
    )
    assert "xavier has 1.30 points more test error" in workload_verdict(
        "xavier", "kaiming", paired_estimate(second, first), ERROR
    )
    near = second + np.array([0.004, -0.004, 0.002, -0.003, 0.002])
    deviation = float(np.std(near - second, ddof=1))
    for comparisons in (1, 6):
        sentence = workload_verdict("a", "b", paired_estimate(near, second, comparisons), ERROR, comparisons)
        assert sentence.startswith(f"{NOT_ENOUGH} that a and b differ: 0.02 points of test error (95 % interval")
        needed = seeds_needed(float(np.mean(near - second)), deviation, comparisons)
        assert sentence.endswith(f"n = 5 seeds); a difference of this size takes about {needed} seeds.")


def test_one_workload_without_an_interval():
    none = Estimate(math.nan, math.nan, math.nan, 0)
    assert (
        workload_verdict("a", "b", none, ERROR)
        == f"{NOT_ENOUGH} about a and b: there is no seed where both have a result."
    )
    assert workload_verdict("a", "b", none._replace(n=3), ERROR) == (
        f"{NOT_ENOUGH} that a and b differ: a trial of one of them diverged, so that there is no mean difference "
        "(n = 3 seeds); their medians are all there is to compare."
    )
    assert workload_verdict("a", "b", paired_estimate([0.1, 0.2], [0.3, 0.3]), ERROR) == (
        f"{NOT_ENOUGH} that a and b differ: n = 2 seeds; an interval takes 3."
    )
    equal = workload_verdict("a", "b", paired_estimate([0.1] * 3, [0.1] * 3), ERROR)
    assert equal.endswith("0.00 points of test error, n = 3 seeds; it is the same each time, which gives no interval.")


def test_a_ledger_of_one_workload_is_judged_by_its_seeds():
    values = 0.1 + 0.001 * np.random.default_rng(1).standard_normal((1, 2, 5))
    values[0, 1] += 0.05
    comparison = compare_paired(frame(values), "i0", "i1")
    over_seeds = workload_verdict("i0", "i1", paired_estimate(values[0, 0], values[0, 1]), ERROR)
    assert difference_verdict("i0", "i1", comparison, ERROR) == over_seeds.replace("5 seeds", "5 seeds of one workload")


def test_divergence_is_counted_by_workload():
    outcome = np.full((5, 2, 3), 0.1)
    outcome[0, 0] = outcome[1, 0, 1] = math.inf
    sentence = divergence_rate_verdict("i0", divergence_rate(cells(frame(outcome)), "i0"), TERMS)
    # Wilson's interval of 2 of 5, whatever the number of seeds.
    assert sentence.replace("\N{NO-BREAK SPACE}", " ") == (
        "i0 diverged on 2 of 5 workloads at one seed or more "
        "(40.00 %, 95 % interval over workloads 11.76 % to 76.93 %), in 4 of 15 trials."
    )
    assert divergence_rate(cells(frame(outcome)), "absent").workloads.n == 0


def test_where_a_trial_diverged_the_probability_of_improvement_decides():
    outcome = np.full((8, 2, 3), 0.1) + np.arange(2)[:, None] / 10
    outcome[0, :, 0] = outcome[1, 1, 1] = math.inf
    sentence = difference_verdict("i0", "i1", compare_paired(frame(outcome), "i0", "i1"), ERROR)
    assert re.fullmatch(
        r"Of i0 and i1, a run of i0 has the lower error with probability 0\.\d\d "
        r"\(95 % interval 0\.\d\d to 1\.00, n = 8 workloads\); "
        r"one or both diverged at 2 of 24 seeds, so that there is no mean difference\.",
        sentence,
    )
    few = difference_verdict("i0", "i1", compare_paired(frame(outcome[:3]), "i0", "i1"), ERROR)
    assert few.startswith(f"{NOT_ENOUGH} that i0 and i1 differ: a run of i0 has the lower error with probability")
    assert few.endswith("; more workloads would tell.")


def test_gaps_leave_fewer_initializers_to_exchange():
    x = np.tile(np.arange(7.0), (3, 1))
    x[:2, 6] = math.nan  # one runs on the last workload alone
    sentence = prediction_verdict("GQ", permutation_test(table(x), table(x)), crossed(table(x), table(x)), TERMS)
    assert "n = 6 initializers that can be exchanged, on 3 workloads, permutation p" in sentence
    x[2, :6] = math.nan  # and now on one of its own, which tells nothing: it is none of those that were looked at
    own = prediction_verdict("GQ", permutation_test(table(x), table(x)), crossed(table(x), table(x)), TERMS)
    assert "n = 6 initializers on 2 workloads, permutation p" in own
    whole = table(x[:2, :6])
    assert "n = 6 initializers on 2 workloads" in prediction_verdict(
        "GQ", permutation_test(whole, whole), crossed(whole, whole), TERMS
    )


def test_a_learned_direction_is_named():
    related = related_worlds(Setting(workloads=6, initializers=8, seeds=3), 1, seed=1, strength=-3.0)
    assert every_sentence(related.outcome[0], related.probe[0])[-1].startswith(
        "Picking by GQ, its direction learned on other architectures, costs"
    )


def test_what_would_be_enough_is_said():
    three = prediction_verdict("GQ", *predicted(3), TERMS)
    assert "6 permutations of the labels: nothing can be rejected at 5 %" in three
    assert "takes 5 initializers" in three
    rng = np.random.default_rng(0)
    outcome = 0.1 + 0.01 * rng.standard_normal((4, 2, 3))
    sentence = difference_verdict("i0", "i1", compare_paired(frame(outcome), "i0", "i1"), ERROR)
    assert re.match(
        rf"{NOT_ENOUGH} that i0 and i1 differ: .*; a difference of this size takes about \d+ workloads.", sentence
    )


def predicted(initializers):
    order = np.tile(np.arange(float(initializers)), (4, 1))
    return permutation_test(table(order), table(order)), crossed(table(order), table(order))


def test_the_initializers_that_a_correlation_takes_are_those_that_detect_it():
    for rho in (-0.8, 0.5, 0.2):
        needed = correlation_treatments(rho)
        assert detectable_correlation(needed) <= abs(rho) < detectable_correlation(needed - 1)
    assert correlation_treatments(0.0) is None
    assert correlation_treatments(1.0) == 5


def test_a_corrected_pvalue_decides():
    test, rho = predicted(5)
    assert prediction_verdict("GQ", test, rho, TERMS).startswith("The higher GQ")
    corrected = prediction_verdict("GQ", test, rho, TERMS, pvalue=0.2)
    assert corrected.startswith(NOT_ENOUGH)
    assert "p = 0.2 after correction" in corrected
    assert not math.isnan(test.pvalue)


def test_a_difference_of_less_than_half_a_hundredth_has_no_sign():
    for written in (points, ERROR.difference):
        texts = [written(difference) for difference in (-0.00001, 0.00001, -0.013)]
        assert texts == ["0.00 points", "0.00 points", "-1.30 points"]
