"""Single sentences: their numbers, who is named first, and which are open."""

import math

import numpy as np
import pytest
from ledgers import BITS, ERROR, R_SQUARED
from worlds import frame, table

from initbench.comparing.chance import JUDGED, is_trained
from initbench.reporting.columns import Column
from initbench.reporting.comparison_sentences import pair_on_workload, pair_over_workloads
from initbench.reporting.questions.comparison import ranks_sentence
from initbench.reporting.questions.cost import spent_sentence
from initbench.reporting.questions.workloads import order_sentences
from initbench.reporting.sentence import say
from initbench.reporting.sizes import difference_words, mean_words, outcome_words, value_words
from initbench.reporting.tables import cell_text
from initbench.reporting.terms import Terms
from initbench.statistics.cells import cells
from initbench.statistics.cost import spent
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import compare_paired, paired_estimate
from initbench.statistics.power import number_needed
from initbench.statistics.ranks import compare_ranks
from initbench.statistics.seed_variance import suite_variances
from initbench.statistics.verdicts import workload_order, workload_verdicts

inf, nan = math.inf, math.nan
TERMS = Terms(ERROR)
APART = Estimate(-0.8722, -0.9024, -0.8420, 3)


def plain(text):
    return str(text).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("estimate", "metric", "text"),
    [
        (Estimate(0.8722, 0.8420, 0.9024, 3), ERROR, "87.2 points (84.2 to 90.2)"),
        (Estimate(0.0400, 0.0375, 0.0425, 3), ERROR, "4.00 points (3.75 to 4.25)"),
        (Estimate(0.30, 0.01, 0.59, 3), ERROR, "30 points (1 to 59)"),
        # Half-widths of 29 points take no decimals, but an end that is told from 0 does not read as 0.
        (Estimate(0.294, 0.004, 0.584, 3), ERROR, "29.4 points (0.4 to 58.4)"),
        (Estimate(0.90, 0.70, 1.10, 3), ERROR, "90 points (70 to 100)"),
        (Estimate(0.1234, 0.1134, 0.1334, 3), R_SQUARED, "0.123 in test R² (0.113 to 0.133)"),
        (Estimate(1.5, 1.1, 1.9, 3), BITS, "1.50 bits (1.10 to 1.90)"),
        (Estimate(0.05, nan, nan, 2), BITS, "0.050 bits"),
    ],
)
def test_a_number_has_the_digits_that_its_interval_is_worth(estimate, metric, text):
    assert difference_words(estimate, metric) == text


def test_values_have_their_unit_once():
    assert plain(value_words([0.025, 0.0361], ERROR)) == "2.5 to 3.6 %"
    assert plain(outcome_words([0.025, 0.0251], ERROR)) == "2.5 % test error"
    assert outcome_words([2.1, 1.9], BITS) == "1.900 to 2.100 test bits per byte"


@pytest.mark.parametrize("metric", [ERROR, R_SQUARED, BITS])
def test_the_better_one_is_named_first(metric):
    """Oriented outcomes are lower where they are better, whatever the metric's direction."""
    assert pair_on_workload("a", "b", APART, metric).text.startswith("a beats b by ")
    other = pair_on_workload("a", "b", Estimate(0.8722, 0.8420, 0.9024, 3), metric)
    assert other.text.startswith("b beats a by ")
    assert other.bold == ("b",)


def test_the_largest_difference_of_the_quickstart():
    assert str(pair_on_workload("MetaInit", "gain 1", APART, ERROR)) == (
        "MetaInit beats gain 1 by 87.2 points (84.2 to 90.2)."
    )


def test_what_would_tell_two_apart():
    near = Estimate(0.002, -0.003, 0.007, 5)
    needed = number_needed(near, 6)
    found = pair_on_workload("kaiming", "xavier", near, ERROR, needed)
    assert found.text == f"No difference was found between kaiming and xavier; about {needed} seeds would be needed."
    assert found.is_open
    for few in (paired_estimate([0.1, 0.2], [0.3, 0.3]), Estimate(nan, nan, nan, 0), Estimate(nan, nan, nan, 3)):
        assert pair_on_workload("a", "b", few, ERROR).is_open
    equal = pair_on_workload("a", "b", paired_estimate([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]), ERROR)
    assert equal.text == "No difference was found between a and b; their difference is the same at every seed."
    hopeless = pair_on_workload("a", "b", Estimate(1e-6, -0.1, 0.1, 5), ERROR)
    assert hopeless.text == "No difference was found between a and b; even 10,000 seeds might not be enough."
    assert "3 seeds" in pair_on_workload("a", "b", paired_estimate([0.1, 0.2], [0.3, 0.3]), ERROR).text


def test_a_difference_that_is_the_same_everywhere_has_its_size_and_no_interval():
    same = paired_estimate([0.3, 0.4, 0.5], [0.1, 0.2, 0.3])
    assert not same.has_interval
    found = pair_on_workload("a", "b", same, ERROR)
    assert found.text == "b is better than a by 20.00 points at each of 3 seeds; an interval needs values that differ."
    assert found.is_open
    outcome = np.full((4, 2, 3), 0.1) + np.arange(2)[:, None] / 4
    found = pair_over_workloads("b", "a", compare_paired(frame(outcome), "i1", "i0"), ERROR, "network")
    assert (
        found.text == "a is better than b by 25.00 points on each of 4 networks; an interval needs values that differ."
    )
    assert found.is_open
    equal = pair_over_workloads("b", "a", compare_paired(frame(outcome[:, :1].repeat(2, 1)), "i1", "i0"), ERROR)
    assert equal.text.startswith("No difference was found between b and a over 4 workloads; ")


def test_where_trials_diverged_it_is_the_probability_of_the_better_one():
    outcome = np.full((8, 2, 3), 0.1) + np.arange(2)[:, None] / 10
    outcome[0, :, 0] = outcome[1, 1, 1] = inf
    comparison = compare_paired(frame(outcome), "i1", "i0")
    found = pair_over_workloads("b", "a", comparison, ERROR, "network")
    chance = 1 - comparison.probability_of_improvement.value
    assert chance > 0.5
    assert found.text.startswith(f"A run of a beats one of b over 8 networks with probability {chance:.2f} (")
    assert pair_over_workloads("b", "a", compare_paired(frame(outcome[:3]), "i1", "i0"), ERROR).is_open


def test_an_order_over_too_few_networks():
    found = ranks_sentence(compare_ranks(table(np.random.default_rng(0).random((2, 4)))), "initializer", "network")
    assert (
        found.text == "No order is found over both networks; about 22 would be needed to find a difference of one rank."
    )
    assert found.is_open
    order = compare_ranks(table(np.tile(np.arange(4.0), (30, 1))))
    told = ranks_sentence(order, "initializer", display={"i0": "a", "i1": "b"}.get)
    low, high = order.pairs[["low", "high"]].iloc[0]
    assert told.text.startswith(f"a ranks first over 30 workloads, ahead of b by 1.00 ranks ({low:.2f} to {high:.2f})")
    assert not told.is_open


def test_what_initialization_costs():
    rows = cells(frame(np.full((2, 4, 1), 0.1))).assign(training_steps=168.0, initialization_steps=0.0)
    rows.loc[rows["treatment"] == "i3", "initialization_steps"] = 450.0
    assert str(spent_sentence(spent(rows), "initializer", {"i3": "MetaInit"}.get)) == (
        "MetaInit costs 450 steps, 2.7 times the training; the others cost nothing."
    )


def on_one_network(medians, *, chance=0.9, diverged=(), seeds_diverged=3, saturated=()):
    """Return the sentences on one workload of three seeds, of treatments i0, i1, …"""
    noise = 0.001 * np.array([[-1, 0, 1], [1, 0, -1], [0, 2, -1], [0, 0, 1], [1, -1, 0]])
    outcome = (np.array(medians)[:, None] + noise[: len(medians)])[None]
    for i in diverged:
        outcome[0, i, :seeds_diverged] = inf
    trials = frame(outcome).assign(oriented_chance=chance, chance_standard_error=0.001, oriented_best=0.0)
    judged = cells(trials.assign(is_trained=is_trained(*(trials[column] for column in JUDGED))))
    verdicts = workload_verdicts(judged, trials, suite_variances(trials, judged))
    return list(order_sentences(workload_order(judged, verdicts, saturated), ERROR, "initializer", needed=lambda _: 12))


@pytest.mark.parametrize(
    ("mean", "half_width", "metric", "text"),
    [
        (0.0254, 0.0031, ERROR, "2.54 ± 0.31 %"),
        (0.0254, nan, ERROR, "2.54 %"),
        (0.0254, 0.0931, ERROR, "2.54 % (0.00 to 11.85)"),
        (0.98, 0.05, ERROR, "98.00 % (93.00 to 100.00)"),
        (0.9, 0.2, R_SQUARED, "0.900 (0.700 to 1.000)"),
        (0.1, 0.2, BITS, "0.100 ± 0.200 bits"),  # no best value is known
    ],
)
def test_an_interval_stays_within_what_is_possible(mean, half_width, metric, text):
    assert plain(mean_words(mean, half_width, metric)) == text


def test_intervals_of_differences_in_a_table_stay_within_what_is_possible():
    row = {"regret": 0.4, "regret_low": -0.2, "regret_high": 1.3}
    written = cell_text(Column("Regret", "difference", "regret", "regret_low", "regret_high"), row, ERROR)
    assert written == "+40.00 (−20.00 to +100.00)"
    assert cell_text(Column("Gain", "points", "regret", "regret_low", "regret_high"), row, BITS) == written
    assert cell_text(Column("Less", "difference", "regret", "regret_low", "regret_high"), row, BITS).endswith("+1.300)")


def test_one_network_with_everything_that_can_happen():
    best, open_pair, untrained, diverged, saturated = on_one_network(
        [0.02, 0.0205, 0.3, 0.9, 0.9], diverged=[4], saturated=["i3"]
    )
    assert best.text.startswith("i0 beats i2 by 28")
    assert open_pair.is_open
    assert open_pair.text.startswith("No difference was found between i0 and i1; about ")
    assert plain(untrained) == "i3 does not train: 90.0 % test error, no better than guessing."
    assert diverged.text == "i4 diverges at all 3 seeds."
    assert saturated.text.startswith("GQ is saturated for i3: the gradient has vanished")


def test_one_network_where_one_or_nobody_trains():
    assert plain(on_one_network([0.02, 0.9])[0]) == "Only i0 trains: 2.0 % test error."
    assert on_one_network([0.9, 0.9])[0].text.startswith("No initializer trains here: 90.0")
    assert on_one_network([0.9, 0.9], diverged=[0, 1])[0].text == "Every initializer diverges."
    sometimes = on_one_network([0.9, 0.9], diverged=[0, 1], seeds_diverged=1)
    assert sometimes[0].text.startswith("No initializer trains here")
    # Where chance is not known nobody is said to train.
    assert (
        plain(on_one_network([0.9, 0.9], chance=nan, diverged=[1])[0]) == "Only i0 does not diverge: 90.0 % test error."
    )
    assert "nothing to compare it with" in on_one_network([0.02])[0].text


def test_braces_in_names_are_no_fields():
    found = say("{first!b} beats {second}.", first="kaiming {second}", second="b {0}")
    assert found.text == "kaiming {second} beats b {0}."
    assert found.bold == ("kaiming {second}",)
