"""What the analyses answer of probes, on ledgers whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from ledgers import DELTA_1, DELTA_2, ERROR, KAIMING, PLAIN, R_SQUARED, make_measured, make_record, make_spec
from reports import results_of, table_of
from worlds import table

from initbench.reporting.comparison_sentences import needed_text
from initbench.reporting.questions.prediction import Untested, adds, costs, predict, predicts, reversed_on
from initbench.reporting.questions.probe_results import measure
from initbench.reporting.terms import Terms
from initbench.statistics.gain import Gain
from initbench.statistics.intervals import Estimate
from initbench.statistics.permutation import permutation_test
from initbench.statistics.pooled import crossed
from initbench.statistics.probes import ALL_VALUES, UNSATURATED, ProbeResult
from initbench.statistics.selection import selection

TERMS = Terms(ERROR)
SEEDS = range(3)
DEPTHS = (10, 16, 22, 28, 34)
SIX = (KAIMING, DELTA_1, DELTA_2, {"name": "xavier"}, {"name": "orthogonal"}, {"name": "zero"})


def world(quotient, initializers=SIX, saturated=()):
    """Return a record for each depth, initializer and seed, the i-th worse by 2 points than the one before it.

    Args:
        quotient: takes the indices of depth and initializer, and the seed.
        initializers: from the best to the worst.
        saturated: the places of those whose quotient is.
    """
    return [
        make_record(
            make_spec(initializer, PLAIN | {"depth": depth}, seed),
            0.1 + 0.02 * i + 0.01 * a + 0.001 * float(np.random.default_rng((a, i, seed)).standard_normal()),
            quotient=quotient(a, i, seed),
            saturated=i in saturated,
        )
        for a, depth in enumerate(DEPTHS)
        for i, initializer in enumerate(initializers)
        for seed in SEEDS
    ]


def rising(a, i, seed):
    return 1.0 + i + 0.01 * a + 0.001 * seed


def test_a_probe_that_orders_as_the_outcome_predicts_it_and_one_that_is_constant_does_not():
    found = predict(results_of(world(rising)))
    assert [(r.column, r.form) for r in found.facts.probes] == [
        ("probe.gradient_quotient", ALL_VALUES),
        ("probe.gradient_norm", ALL_VALUES),
    ]
    quotient, norm = found.facts.probes
    assert quotient.test.statistic == pytest.approx(1)
    # All 720 permutations; the order and its mirror image are the most extreme.
    assert quotient.test.pvalue == pytest.approx(2 / 720)
    assert math.isnan(norm.test.statistic)
    # Holm counts the probes with a p-value: the norm, which is constant, has none to correct for.
    holm = table_of(found, "probes").frame["pvalue_holm"]
    assert holm[0] == quotient.test.pvalue
    assert math.isnan(holm[1])
    # A perfect order of 6 has Fisher's interval of the largest ρ below 1, z = arctanh(1 - 6 / 210) ± 1.96 √(1.06 / 3).
    z, half = math.atanh(1 - 6 / 210), 1.96 * math.sqrt(1.06 / 3)
    ends = math.tanh(z - half), math.tanh(z + half)
    assert quotient.rho[1:] == (pytest.approx(ends[0], abs=1e-4), pytest.approx(ends[1], abs=1e-4), 6)
    assert quotient.test.workloads == 5
    first = found.sentences[0]
    assert first.text == (
        f"The higher the gradient quotient, the higher the test error: ρ = +1.00 ({ends[0]:+.2f} to {ends[1]:+.2f})."
    )
    assert next(own for own in found.sentences if own.subject == "gradient_norm").is_open
    assert quotient.chosen[1].regret.value == 0
    assert found.question == "Does the gradient quotient predict the test error?"


def test_an_order_that_is_the_same_at_all_seeds_of_all_networks_has_a_value_and_no_interval():
    texts = [own.text for own in predict(results_of(world(rising))).sentences]
    assert (
        "From seed to seed, the orders of the initializers by the gradient quotient correlate with ρ = +1.00 on each "
        "of 5 networks; an interval needs values that differ."
    ) in texts
    assert not any("orders the initializers alike at another seed is unknown" in text for text in texts)


def test_pvalues_are_corrected_by_holm_for_the_probes_that_are_tested():
    """The norm orders them the other way round, but for two neighbours."""
    swapped = (5, 4, 3, 2, 0, 1)
    records = [
        replace(record, probes=[record.probes[0], record.probes[1] | {"value": 1.0 + swapped[at // 3 % 6]}])
        for at, record in enumerate(world(rising))
    ]
    found = predict(results_of(records))
    quotient, norm = found.facts.probes
    assert norm.test.statistic == pytest.approx(-(1 - 6 * 2 / 210))
    raw = (quotient.test.pvalue, norm.test.pvalue)
    assert raw[0] < raw[1]
    frame = table_of(found, "probes").frame.set_index("probe")
    assert frame["pvalue"]["gradient_quotient"] == raw[0]
    assert list(frame["pvalue_holm"]) == pytest.approx([2 * raw[0], max(2 * raw[0], raw[1])])


def test_a_probe_that_is_told_alone_is_not_told_beside_another():
    """Two pairs of neighbours are exchanged: 24 of 720 permutations are as extreme, which Holm doubles for two."""
    swapped = (1, 0, 3, 2, 4, 5)
    both = [
        replace(record, probes=[probe | {"value": 1.0 + swapped[at // 3 % 6]} for probe in record.probes])
        for at, record in enumerate(world(rising))
    ]
    alone = predict(results_of([replace(record, probes=record.probes[:1]) for record in both]))
    assert alone.sentences[0].text.startswith("The higher the gradient quotient, the higher the test error: ρ = +0.89")
    found = predict(results_of(both))
    pvalues = [result.test.pvalue for result in found.facts.probes]
    assert 0.025 < pvalues[0] < 0.05
    assert pvalues[0] == pvalues[1]
    first = [next(own for own in found.sentences if own.subject == r.probe) for r in found.facts.probes]
    assert [own.is_open for own in first] == [True, True]


def test_what_would_tell_is_corrected_for_the_probes_that_are_tested():
    """Both probes are noise; a third is constant, cannot be tested, and is not counted."""
    rng = np.random.default_rng(3)
    order = {(a, i): rng.permutation(60)[:2] for a in range(len(DEPTHS)) for i in range(len(SIX))}
    records = []
    for at, record in enumerate(world(rising)):
        first, second = order[at // (3 * len(SIX)), at // 3 % len(SIX)]
        values = {"gradient_quotient": 1.0 + first, "gradient_norm": 1.0 + second, "constant": 1.0}
        probes = [record.probes[0] | {"name": name, "value": float(value)} for name, value in values.items()]
        records.append(replace(record, probes=probes))
    found = predict(results_of(records))
    tested = [result for result in found.facts.probes if result.probe != "constant"]
    assert len(tested) == 2
    for result in tested:
        assert result.test.needed(2) not in {result.test.needed(1), result.test.needed(3)}
        first = next(own for own in found.sentences if own.subject == result.probe)
        assert first.is_open
        needed = needed_text(result.test.needed(2))
        assert (
            f"6 initializers {'cannot confirm it, and' if result.probe == 'gradient_quotient' else 'do not'} "
            in first.text
        )
        assert first.text.endswith(f"{needed}.")


def test_nothing_is_said_of_fewer_than_five_initializers():
    """A perfect order of four is one of 24, and its mirror image another: no p-value below 5 %, and no ρ is quoted."""
    found = predict(results_of(world(rising, SIX[:4])))
    assert not found.facts.probes[0].test.is_testable
    first = found.sentences[0]
    assert first.is_open
    assert first.text == (
        "Whether the gradient quotient predicts the test error, whether it adds anything to depth, and whether it "
        "orders the initializers alike at another seed are unknown: that takes at least 5 initializers; the report has "
        "4."
    )
    frame = table_of(found, "probes").frame
    assert frame[["rho", "rho_low", "rho_high", "pvalue"]].isna().all(axis=None)
    by_workload = table_of(found, "correlation").frame
    assert by_workload[["rho", "rho_low", "rho_high"]].isna().all(axis=None)


def test_what_no_probe_can_be_tested_for_is_one_sentence():
    two = [record for record in world(rising, SIX[:4]) if record.spec["architecture"]["arguments"]["depth"] <= 16]
    [found] = predict(results_of(two)).sentences
    assert (found.is_open, found.subject) == (True, "")
    assert found.text == (
        "Whether the gradient quotient and the gradient norm predict the test error cannot be tested: that takes at "
        "least 5 initializers and 3 networks; the report has 4 and 2."
    )


def test_trials_without_an_outcome_predict_nothing():
    records = [make_measured(make_spec(KAIMING, seed=seed)) for seed in SEEDS]
    assert [str(own) for own in predict(results_of(records)).sentences] == ["No trial has an outcome to predict."]


@pytest.mark.parametrize(
    ("quotient", "words"),
    [
        (
            lambda a, i, seed: 7 - rising(a, i, seed),
            "ρ = −1.00 (−1.00 to −0.74), the reverse of what its authors expect.",
        ),
        (
            lambda a, i, seed: rising(a, (3, 5, 1, 4, 2, 0)[i], seed),
            "(ρ = −0.60), the reverse of what its authors expect; 6 initializers cannot confirm it, and about ",
        ),
    ],
)
def test_a_quotient_that_is_higher_for_better_outcomes_is_said_to_be_the_reverse_of_what_is_expected(quotient, words):
    first = predict(results_of(world(quotient))).sentences[0]
    assert words in first.text
    assert first.is_open == first.text.startswith("Higher values of the gradient quotient went with lower test error")


def test_which_sign_is_the_reverse_depends_on_the_metric():
    rng = np.random.default_rng(1)
    probe = np.arange(8.0) + rng.standard_normal((6, 8))
    test, rho = permutation_test(table(probe), table(-probe)), crossed(table(probe), table(-probe))
    said = {}
    for terms in (TERMS, Terms(R_SQUARED), Terms(None)):
        for lower in (True, False, None):
            found = predicts(result_of(test=test, rho=rho, lower_is_better=lower), test.pvalue, 1, terms)
            said[terms, lower] = "reverse" in found.text
    assert [terms_and_lower for terms_and_lower, is_reverse in said.items() if is_reverse] == [
        (TERMS, True),
        (Terms(R_SQUARED), False),
        (Terms(None), True),
    ]


def test_correlations_that_are_shown_without_a_test_are_said_to_be_the_reverse_too():
    by_workload = pd.DataFrame({"rho": [-0.5, -0.2, 0.1, math.nan]})
    untestable = permutation_test(table(np.zeros((1, 4))), table(np.zeros((1, 4))))
    known = {"by_workload": by_workload, "test": untestable}
    [found] = reversed_on(result_of(lower_is_better=True, **known), TERMS, "network")
    assert found.text == (
        "Higher values of GQ went with lower test error on 2 of 3 networks, the reverse of what its authors expect; "
        "this was not tested."
    )
    assert not list(reversed_on(result_of(lower_is_better=False, **known), TERMS, "network"))
    assert not list(reversed_on(result_of(**known), TERMS, "network"))


def test_saturated_values_are_shown_both_ways():
    """The best initializer's quotient is saturated: without it the others are in order, with it they are not."""
    results = results_of(world(lambda _a, i, _seed: 9.0 if i == 0 else 1.0 + i, saturated=(0,)))
    probes = [r for r in measure(results) if r.column == "probe.gradient_quotient"]
    assert [r.form for r in probes] == [UNSATURATED, ALL_VALUES]
    without, every = probes
    assert without.test.statistic == pytest.approx(1)
    # Ranks 6, 1 … 5 of the probe against 1 … 6: ρ = 1 - 6 (25 + 5) / 210.
    assert every.test.statistic == pytest.approx(1 - 6 * 30 / 210)
    frame = table_of(predict(results), "correlation").frame.query("probe == 'gradient_quotient'")
    assert list(frame["saturated"]) == [1] * 10
    assert set(frame[frame["form"] == UNSATURATED]["n"]) == {5}


def test_the_batches_and_the_time_of_a_probe():
    records = [
        replace(
            record,
            probes=[probe | {"conditions": {"per_batch": [1.0, 2.0, 3.0]}} for probe in record.probes],
            timing=record.timing | {"gradient_quotient_probe_seconds": 0.1 * (index % 3)},
        )
        for index, record in enumerate(world(lambda *_: 0.5, SIX[:5]))
    ]
    probes = measure(results_of(records))
    assert probes[0].spread.value == pytest.approx(0.5)  # s = 1, mean 2
    assert probes[0].seconds == pytest.approx(0.1)
    assert math.isnan(probes[1].seconds)


def result_of(**known):
    """Return what a probe GQ tells, of which only some is known."""
    nothing = dict.fromkeys(ProbeResult._fields)
    return ProbeResult(**nothing | {"column": "probe.GQ", "form": UNSATURATED} | known)


@pytest.mark.parametrize(
    ("terms", "sign", "words"),
    [
        (TERMS, 1, "higher the test error"),
        (TERMS, -1, "lower the test error"),
        (Terms(R_SQUARED), 1, "higher the test R²"),
        (Terms(None), 1, "worse the outcome"),  # of several metrics: oriented, lower is better
        (Terms(None), -1, "better the outcome"),
    ],
)
def test_which_way_a_probe_predicts(terms, sign, words):
    rng = np.random.default_rng(1)
    probe = np.arange(8.0) + rng.standard_normal((6, 8))
    outcome = table(sign * (np.arange(8.0) + rng.standard_normal((6, 8))))
    test, rho = permutation_test(table(probe), outcome), crossed(table(probe), outcome)
    found = predicts(result_of(test=test, rho=rho), test.pvalue, 1, terms)
    ends = f"{test.statistic:+.2f} ({rho.low:+.2f} to {rho.high:+.2f})".replace("-", "\N{MINUS SIGN}")
    assert found.text == f"The higher GQ, the {words}: ρ = {ends}."
    unsure = predicts(result_of(test=test, rho=rho), 0.2, 9, terms)
    assert unsure.is_open
    assert f"about {test.needed(9)} would" in unsure.text


def test_initializers_that_cannot_be_exchanged_are_not_counted_as_too_few():
    """Six initializers, in two threes that never meet: 36 permutations, by which nothing can be rejected."""
    values = np.array([[0.0, 1, 2, math.nan, math.nan, math.nan], [math.nan, math.nan, math.nan, 0, 1, 2]])
    test, rho = permutation_test(table(values), table(values)), crossed(table(values), table(values))
    found = predicts(result_of(test=test, rho=rho), test.pvalue, 1, TERMS)
    assert found == Untested("whether {probe} predicts the {outcome}", ("initializer",))


def test_what_picking_by_a_probe_costs():
    order = np.tile(np.arange(5.0), (4, 1)) / 10
    probe = order.copy()
    probe[:, 0] = [0.15, 0.25, 0.35, -1]  # it takes the second, the second, the second and the best

    def cost(chosen):
        return costs(result_of(chosen={1: chosen}), ERROR, TERMS, "workload")

    found = cost(selection(table(probe), table(order)))
    assert found.text.startswith("Choosing by GQ costs 7.5 points (")
    diverged = order.copy()
    diverged[0, 1] = math.inf
    assert "diverged on 1 of 4 workloads" in cost(selection(table(probe), table(diverged))).text
    assert cost(selection(table(probe[:2]), table(order[:2]))).needs == ("workload",)


def test_what_a_probe_adds_is_in_points_of_rank():
    known = Gain(0.20, Estimate(0.05, 0.02, 0.08, 5), 0.001, ["depth", "the initial loss"])
    found = adds(result_of(gain=known), 0.001, TERMS, "workload")
    assert found.text == (
        "Knowing GQ as well as depth and the initial loss brings the predicted rank 5.0 (2.0 to 8.0) points "
        "closer to the true one."
    )
    assert adds(result_of(gain=known), 0.06, TERMS, "workload").is_open
    assert adds(result_of(gain=known._replace(gain=Estimate(0.05, -0.01, 0.11, 5))), 0.001, TERMS, "workload").is_open
    assert adds(result_of(gain=known._replace(gain=Estimate(-0.05, -0.08, -0.02, 5))), 0.001, TERMS, "workload").is_open
