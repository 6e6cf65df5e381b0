"""All verdicts in all branches: short, whole, and open exactly where nothing is told."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from ledgers import BITS, ERROR, R_SQUARED
from worlds import Setting, frame, null_worlds, related_worlds, table

from initbench.reporting.terms import Terms
from initbench.reporting.words import comparison, cost, prediction, workload
from initbench.reporting.words.sentence import MOST_WORDS, words_in
from initbench.statistics.agreement import mean_seed_agreement, seed_agreement
from initbench.statistics.association import associations
from initbench.statistics.cells import cells
from initbench.statistics.cost import spent
from initbench.statistics.divergence import divergence_rate, predict_divergence
from initbench.statistics.gain import gain
from initbench.statistics.paired import compare_paired, paired_estimate
from initbench.statistics.permutation import permutation_test
from initbench.statistics.pooled import crossed
from initbench.statistics.profiles import fastest
from initbench.statistics.ranks import compare_ranks
from initbench.statistics.selection import selection
from initbench.statistics.variance import split_variance
from initbench.statistics.verdicts import workload_order

LONG = "metainit (from delta orthogonal with gain 2.0, mode fan in, steps 500, lr 0.1, momentum 0.9"
METRICS = [ERROR, R_SQUARED, BITS]
TERMS = [Terms(ERROR), Terms(None), Terms(R_SQUARED, "treatment", "initializer"), Terms(BITS)]


def long_name(label):
    return f"{LONG}, {label})"


def shares(outcome, metric):
    """Return made-up outcomes within a metric's range, a diverged one as it is."""
    if metric.unit != "%":
        return outcome
    return np.where(np.isinf(outcome), outcome, 1 / (1 + np.exp(-np.where(np.isinf(outcome), 0, outcome))))


def every_sentence(outcome, probe, metric, terms, display=str):
    """Return all verdicts on one world, (workloads, initializers, seeds) each, by what they are on."""
    trials = frame(outcome, **{"probe.p": probe})
    trials = trials.assign(oriented_chance=np.nan, chance_standard_error=np.nan, oriented_best=np.nan)
    judged = cells(trials)
    y, x = table(np.median(outcome, axis=2)), table(np.median(probe, axis=2))
    diverged = table(np.isinf(outcome).sum(axis=2).astype(float))
    first, last, gq = display("i0"), display("i9"), display("GQ")
    agreement = mean_seed_agreement(seed_agreement(trials, "probe.p"))
    names = list(dict.fromkeys(judged["treatment"]))
    another = names[-1] if len(names) > 1 else "absent"
    rates = {name: divergence_rate(judged, name, len(names)) for name in names}
    costs = judged.assign(initialization_steps=100.0 * (judged["treatment"] == "i1"), training_steps=168.0)
    one = workload_order(judged[judged["workload"] == "w0"], trials[trials["workload"] == "w0"], names[:2])
    found = {
        "pair": comparison.pair_words(
            first, last, paired_estimate(outcome[0, 0], outcome[0, -1], 3), metric, on=display("w0"), comparisons=3
        ),
        "over": comparison.pair_over_workloads_words(first, last, compare_paired(trials, "i0", another, 3), metric),
        "ranks": comparison.ranks_words(compare_ranks(y), terms, display, place="network"),
        "variance": comparison.variance_words(split_variance(trials), terms),
        "predicts": prediction.predicts_words(gq, permutation_test(x, y), crossed(x, y), terms),
        "regret": prediction.regret_words(gq, selection(x, y), metric, terms),
        "learned": prediction.regret_words(gq, selection(x, y, lower_is_better=None), metric, terms),
        "gain": prediction.gain_words(gq, gain(x, y, {"a long name of it": x**2}, permutations=99), terms),
        "foretells": prediction.foretells_words(gq, predict_divergence(x, diverged), terms),
        "agreement": prediction.agreement_words(gq, agreement, outcome.shape[1], terms),
        "spent": cost.spent_words(spent(costs), terms, display),
        "fastest": cost.fastest_words(fastest(y - np.nanmin(outcome)), terms, display),
    }
    rows = associations(x, y).to_dict("records")
    found |= {f"association {i}": prediction.association_words(row, terms, left_out=i) for i, row in enumerate(rows)}
    several = comparison.divergence_words(rates, len(trials), display)
    several += workload.workload_words(one, metric, terms, display, subject="w0")
    return found | {f"several {i}": sentence for i, sentence in enumerate(several)}


def check(sentences):
    for key, sentence in sentences.items():
        text = sentence.text
        assert words_in(text) <= MOST_WORDS, text
        assert text.endswith(".")
        assert "  " not in text
        assert " ." not in text
        assert not re.search(r"\bnan\b|\binf\b|[{}]", text), text
        assert all(name in text for name in sentence.bold), text
        assert not re.search(r"\b(equal|same|no difference)\b", text) or sentence.is_open, (key, text)
        if sentence.is_open and not text.startswith("ρ = "):
            assert not re.search(r"\d \(.* to ", text), text  # what is not told is not quoted


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("initializers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("workloads", [1, 2, 3, 6])
@pytest.mark.parametrize("diverged", [0.0, 0.3, 1.0])
def test_every_verdict_is_short_and_whole(workloads, initializers, seeds, diverged):
    setting = Setting(workloads, initializers, seeds, diverged=diverged)
    worlds = null_worlds(setting, 1, seed=workloads)
    for i, terms in enumerate(TERMS):
        metric = METRICS[i % 3]
        outcome = shares(worlds.outcome[0], metric)
        check(every_sentence(outcome, worlds.probe[0], metric, terms, long_name if i % 2 else str))


@pytest.mark.parametrize("display", [str, long_name])
@pytest.mark.parametrize("metric", METRICS)
def test_what_is_told_is_short_with_names_of_any_length(metric, display):
    worlds = related_worlds(Setting(workloads=12, initializers=8, seeds=4), 1, seed=1, strength=3.0)
    outcome = worlds.outcome[0] + np.arange(8)[:, None]
    told = every_sentence(
        shares(outcome, metric), worlds.probe[0] + np.arange(8)[:, None], metric, Terms(metric), display
    )
    check(told)
    open_ones = {key for key, sentence in told.items() if sentence.is_open}
    assert not open_ones & {"pair", "over", "ranks", "variance", "predicts", "regret", "agreement"}


def test_ties_everywhere_are_no_finding():
    told = every_sentence(np.ones((6, 6, 3)), np.ones((6, 6, 3)), ERROR, Terms(ERROR))
    check(told)
    findings = {sentence.text for sentence in told.values() if not sentence.is_open}
    assert findings == {
        "Picking by GQ takes the best initializer on each of 6 workloads.",
        "i1: 100 steps, 60\N{NO-BREAK SPACE}% of the training. The others: nothing.",
        "No trial diverged, of 108.",
        "GQ is saturated for i0 and i1: the gradient has vanished, GQ says nothing of curvature.",
        *(s.text for k, s in told.items() if k == "fastest"),
    }


@pytest.mark.parametrize("initializers", [3, 4])
def test_below_five_initializers_no_correlation_is_quoted(initializers):
    """A perfect order of three or four over many workloads is one of few: nothing of it is told, and no number said."""
    order = np.tile(np.arange(float(initializers))[:, None], (6, 1, 3)) + 0.01 * np.arange(3)
    told = every_sentence(order, order, ERROR, Terms(ERROR))
    of_probe = [told[key] for key in told if key in {"predicts", "agreement"} or key.startswith("association")]
    assert len(of_probe) == 8
    for sentence in of_probe:
        assert sentence.is_open
        assert sentence.text.startswith(f"Cannot be told from {initializers} initializers; it takes 5")
        assert "ρ" not in sentence.text
    assert math.isclose(permutation_test(table(order[:, :, 0]), table(order[:, :, 0])).statistic, 1)


def test_an_empty_frame_of_costs():
    nothing = spent(pd.DataFrame(columns=["treatment", "initialization_steps", "training_steps"]))
    assert cost.spent_words(nothing, Terms(ERROR)).is_open
