"""How easily each treatment's good rate is found, and how far up its training is stable."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from ledgers import R_SQUARED, Metric, make_scored, make_spec
from reports import sentences_of
from tuned import RATES, cells_of, curved, flat, noise, tasks, tuned_records, tuned_results

from initbench.comparing.keys import Key
from initbench.comparing.labels import Labels
from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.protocols import protocols
from initbench.reporting.questions.stable_rates import stable_rates
from initbench.reporting.questions.tunability import tunability
from initbench.reporting.results import Results
from initbench.reporting.source import Source

# --- how easily a rate is found


def test_tries_ranges_and_edges_of_a_planted_cell():
    def outcome(at):
        place = RATES.index(at.rate)
        if at.treatment == "narrow":  # one good rate, the largest two diverge
            return None if place > 4 else [0.5, 0.5, 0.5, 0.5, 0.1][place] + 0.001 * at.seed
        return 0.2 + 0.001 * at.seed - 0.0001 * place  # every rate is good, the best is the largest

    found = tunability(tuned_results(tuned_records(outcome, ["net"], ["narrow", "wide"])))
    ranges = cells_of(found, "good_rates")
    assert (ranges["net", "narrow"]["low"], ranges["net", "narrow"]["high"]) == (0.1, 0.1)
    assert ranges["net", "wide"]["factor"] == pytest.approx(1000)
    assert (ranges["net", "narrow"]["edge"], ranges["net", "wide"]["edge"]) == ("", "largest")
    texts = sentences_of(found)
    assert (
        "The range of good rates is widest for wide: at least 1000-fold; it is narrowest for narrow: a single rate."
        in texts
    )
    assert "The best rate of wide is the largest that was tried; a better one may lie beyond." in texts
    curve = found.facts.curves[found.facts.curves["treatment"] == "narrow"].set_index("tries")
    # One try in random order is the mean of all, diverged ones at chance; with all 7 it is the best rate.
    assert curve.loc[1, "value_median"] == pytest.approx((4 * 0.5 + 0.1 + 2 * 0.9) / 7 + 0.001 * 5 / 7, abs=1e-9)
    assert curve.loc[7, "value_median"] == pytest.approx(0.101)
    # Two tries miss the one good rate with probability 5/7, and are both diverged ones in 1 of 21 pairs.
    second = 6 / 21 * 0.101 + 14 / 21 * 0.501 + 1 / 21 * 0.9
    assert curve.loc[2, "value_median"] == pytest.approx(second, abs=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        # Places of the good rates, of seven.
        (range(7), [2, 3], "widest for a: at least 1000-fold; it is narrowest for b: 3.2-fold."),
        (range(7), range(4, 7), "widest for a: at least 1000-fold; for b it is at least 10-fold."),
        (range(1, 5), [6], "widest for a: 32-fold; for b it is a single rate or more."),
        ([2, 3], [3, 4], "equally wide for a and b: 3.2-fold."),
        (range(7), range(7), "equally wide for a and b: at least 1000-fold."),
    ],
)
def test_a_range_that_reaches_an_edge_is_only_known_to_be_at_least_so_wide(first, second, words):
    def outcome(at):
        is_good = RATES.index(at.rate) in {"a": first, "b": second}[at.treatment]
        return (0.1 if is_good else 0.5) + 0.001 * at.seed

    text = sentences_of(tunability(tuned_results(tuned_records(outcome, ["net"], ["a", "b"]))))[0]
    is_unsure = len(second) > 2 or 6 in second  # b is open, and may be wider than a
    start = "Among the rates tried, the" if is_unsure else "The"
    assert text == f"{start} range of good rates is {words}"


def test_one_cell_has_a_range_that_is_no_widest_one():
    def outcome(at):
        return (0.1 if at.rate in RATES[2:4] else 0.5) + 0.001 * at.seed

    texts = sentences_of(tunability(tuned_results(tuned_records(outcome, ["net"], ["a"]))))
    assert "The range of good rates of a is 3.2-fold." in texts
    assert "The best rate is neither the smallest nor the largest that was tried." in texts
    two = sentences_of(tunability(tuned_results(tuned_records(outcome, ["net"], ["a", "b"]))))
    assert "In none of 2 cells is the best rate the smallest or the largest that was tried." in two


def test_tries_cost_their_training_and_their_initialization():
    results = tuned_results(tuned_records(flat, ["net"], ["plain", "tuner"]))
    first = tunability(results).facts.curves.query("tries == 1").set_index("treatment")["compute"]
    # 100 forward passes, each with one call of autograd, are 100 gradients.
    assert (first["plain"], first["tuner"]) == (168.0, 268.0)
    last = tunability(results).facts.curves.query("tries == 7").set_index("treatment")["compute"]
    assert last["tuner"] == 7 * 268.0


def test_seeds_that_tried_other_points_have_no_curve_and_are_said_to():
    def points(seed):
        return tuple(rate * (1 + 0.1 * seed) for rate in RATES)

    records = tuned_records(flat, ["net"], ["a", "b"], points=points)
    found = tunability(tuned_results(records))
    assert len(found.facts.curves) == 0
    assert found.figures == []
    assert len(found.facts.rates) == 2 * 3 * 7
    assert any("tried its own rates" in text for text in found.remarks)


def test_values_of_a_metric_of_which_higher_is_better_are_in_its_own_direction():
    entries = tasks(replace(R_SQUARED, name="r_squared", label="R²", split=""), 0.0, 0.01)

    def outcome(at):
        return {"a": 0.9, "b": 0.7}[at.treatment] - 0.1 * abs(math.log10(at.rate / 0.1)) + noise(at)

    results = tuned_results(tuned_records(outcome, ["net"], ["a", "b"], entries=entries, task="regression"))
    found = tunability(results)
    curve = found.facts.curves[found.facts.curves["treatment"] == "a"].set_index("tries")["value_median"]
    assert list(curve) == sorted(curve)
    assert curve[7] == pytest.approx(0.9, abs=0.02)
    own = cells_of(protocols(results), "protocols")
    assert own["net", "a"]["own_outcome"] == pytest.approx(0.9, abs=0.02)
    assert own["net", "a"]["own_rank"] == 1
    assert "is_open" not in own["net", "a"]
    assert cells_of(found, "good_rates")["net", "a"]["best"] == 0.1


# --- how far up training is stable


def test_the_largest_stable_rate_against_the_best_one():
    limits = {"limited": 0.1, "free": math.inf, "between": 0.316}

    def outcome(at):
        best = 0.1 if at.treatment == "limited" else 0.01 if at.seed else 0.0316
        value = curved(best, 0.1, 0.05, limits[at.treatment])(at.rate)
        return None if value is None else value + noise(at)

    found = stable_rates(tuned_results(tuned_records(outcome, ["net"], list(limits))))
    rows = cells_of(found, "stable_rates")
    assert rows["net", "limited"]["ratio"] == pytest.approx(1.0)
    assert (rows["net", "limited"]["ratio_low"], rows["net", "limited"]["ratio_high"]) == pytest.approx((1.0, 10.0))
    ratio = (0.316 / 0.0316 * (0.316 / 0.01) ** 2) ** (1 / 3)
    assert rows["net", "between"]["ratio"] == pytest.approx(ratio)
    logs = np.log([0.316 / 0.0316, 0.316 / 0.01, 0.316 / 0.01])
    half = 4.302652729911275 * logs.std(ddof=1) / math.sqrt(3)
    assert rows["net", "between"]["ratio_high"] == pytest.approx(ratio * math.exp(half))
    assert (rows["net", "free"]["open_seeds"], rows["net", "between"]["open_seeds"]) == (3, 0)
    texts = sentences_of(found)
    assert "limited: the best rate is the largest stable one over 3 seeds." in texts
    assert any(text.startswith("free: the largest stable rate is at least 68 times ") for text in texts)


@pytest.mark.parametrize("initializers", [["kaiming"], ["kaiming", "xavier"]])
def test_the_rates_by_batch_size_are_drawn_where_a_workload_has_no_more_than_that(initializers):
    def outcome(at):
        return curved(0.1, 0.1, 0.05, 0.316)(at.rate)

    records = [
        record
        for size in (32, 64)
        for record in tuned_records(outcome, ["a", "b"], initializers, recipe={"batch_size": size})
    ]
    results = Results(replace(tuned_results(records).source, compare=("architecture",)))
    workloads = {"batch_size=32", "batch_size=64"}
    if len(initializers) > 1:
        workloads = {f"{size} · {name}" for size in workloads for name in initializers}
    assert set(results.trials["workload"]) == workloads
    figures = stable_rates(results).figures
    assert {figure.subject for figure in figures} == (set(initializers) if len(initializers) > 1 else {"all trials"})


@pytest.mark.parametrize(
    ("workload", "family"),
    [
        ({"recipe.batch_size": 64, "metric": "test error"}, "test error"),
        ({"architecture": "wrn", "recipe.batch_size": 64, "metric": "test error"}, "wrn · test error"),
        ({"architecture": "wrn", "recipe.batch_size": 8, "recipe.lr": 0.1}, "wrn · lr=0.1"),
        (
            {"recipe.batch_size": 8, "initializer": "metainit", "initializer.batch_size": 4, "initializer.steps": 2},
            "metainit[batch_size=4, steps=2]",
        ),
    ],
)
def test_a_family_is_a_workload_without_its_batch_size(workload, family):
    labels = Labels()
    assert labels.family(labels.workload(Key(workload)), "recipe.batch_size") == family


# --- more than the rate


def test_a_hyperparameter_that_is_tuned_beside_the_rate_is_shown_with_it():
    keys, net, records = ("recipe.lr", "initializer.tau"), {"name": "net"}, []
    entries = tasks(replace(Metric("error", "lower", best=0.0, unit="%", scale=100, primary=True)), 0.9, 0.01)
    for seed in range(3):
        for tau in (0.1, 0.5):
            for rate in (0.01, 0.1):
                value = 0.1 + (rate != 0.1) * 0.1 + (tau != 0.5) * 0.05 + 0.001 * seed
                own = make_spec(
                    {"name": "taut", "tau": tau}, net, seed, recipe={"lr": rate}, phase="search", tuned=keys
                )
                records.append(make_scored(own, entries["validation"], value))
        best = {"recipe": {"lr": 0.1}, "tuned": keys, "protocols": ("own",)}
        records.append(make_scored(make_spec({"name": "taut", "tau": 0.5}, net, seed, **best), entries["test"], 0.1))
        other = {"recipe": {"lr": 0.1}, "tuned": keys[:1], "protocols": ("recipe", "own")}
        records.append(
            make_scored(make_spec({"name": "plain"}, net, seed, **other), entries["test"], 0.2 + 0.01 * seed)
        )
    results = Results(Source(records))
    assert (results.tune.noun, results.tune.tries, results.tune.keys) == ("setting", 4, keys)
    assert sorted(set(results.trials["treatment"])) == ["plain", "taut"]
    found = tunability(results)
    chosen = {key[1]: row["chosen"] for key, row in cells_of(found, "good_rates").items()}
    assert chosen == {"taut": "lr 0.1, tau 0.5", "plain": "lr 0.1"}
    # At each rate the best of the other values counts.
    by_rate = found.facts.rates.set_index("rate")["value_median"]
    assert (by_rate[0.1], by_rate[0.01]) == pytest.approx((0.101, 0.201))
    assert "the settings that its own search of 4 chose" in " ".join(sentences_of(compare(results)))
