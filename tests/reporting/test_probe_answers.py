"""What the analyses answer of probes, on ledgers whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, PLAIN, make_record, make_spec
from reports import results_of, table_of

from initbench.reporting.analyses.prediction import Prediction, corrected, predict
from initbench.reporting.analyses.probe_results import ALL_VALUES, UNSATURATED, measure

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
    assert [(r.column, r.form) for r in found.probes] == [
        ("probe.gradient_quotient", ALL_VALUES),
        ("probe.gradient_norm", ALL_VALUES),
    ]
    quotient, norm = found.probes
    assert quotient.test.statistic == pytest.approx(1)
    # All 720 permutations; the order and its mirror image are the most extreme.
    assert quotient.test.pvalue == pytest.approx(2 / 720)
    assert math.isnan(norm.test.statistic)
    # Holm counts the probes with a p-value: the norm, which is constant, has none to correct for.
    assert [(p, number) for _, p, number in corrected(found.probes, lambda r: r.test.pvalue)] == [(None, 1), (None, 1)]
    # A perfect order of 6 has Fisher's interval of the largest ρ below 1, z = arctanh(1 - 6 / 210) ± 1.96 √(1.06 / 3).
    z, half = math.atanh(1 - 6 / 210), 1.96 * math.sqrt(1.06 / 3)
    ends = math.tanh(z - half), math.tanh(z + half)
    assert quotient.rho[1:] == (pytest.approx(ends[0], abs=1e-4), pytest.approx(ends[1], abs=1e-4), 6)
    assert quotient.test.workloads == 5
    first = found.of(quotient)[0]
    assert first.text == (
        f"The higher the gradient quotient, the higher the test error: ρ = +1.00 ({ends[0]:+.2f} to {ends[1]:+.2f})."
    )
    assert found.of(norm)[0].is_open
    assert quotient.chosen[1].regret.value == 0
    assert found.question == "Does the gradient quotient predict the test error?"


def test_pvalues_are_corrected_by_holm_for_the_probes_that_are_tested():
    """The norm orders them the other way round, but for two neighbours."""
    swapped = (5, 4, 3, 2, 0, 1)
    records = [
        replace(record, probes=[record.probes[0], record.probes[1] | {"value": 1.0 + swapped[at // 3 % 6]}])
        for at, record in enumerate(world(rising))
    ]
    found = predict(results_of(records))
    quotient, norm = found.probes
    assert norm.test.statistic == pytest.approx(-(1 - 6 * 2 / 210))
    raw = (quotient.test.pvalue, norm.test.pvalue)
    assert raw[0] < raw[1]
    values = [(p, number) for _, p, number in corrected(found.probes, lambda r: r.test.pvalue)]
    assert values == [(pytest.approx(2 * raw[0]), 2), (pytest.approx(max(2 * raw[0], raw[1])), 2)]
    frame = table_of(found, "probes").frame.set_index("probe")
    assert frame["pvalue"]["gradient_quotient"] == raw[0]
    assert frame["pvalue_holm"]["gradient_quotient"] == pytest.approx(2 * raw[0])


def test_nothing_is_said_of_fewer_than_five_initializers():
    """A perfect order of four is one of 24, and its mirror image another: no p-value below 5 %, and no ρ is quoted."""
    found = predict(results_of(world(rising, SIX[:4])))
    assert not found.probes[0].test.is_testable
    first = found.sentences[0]
    assert first.is_open
    assert "4 initializers" in first.text
    assert "ρ" not in first.text
    frame = table_of(found, "probes").frame
    assert frame[["rho", "rho_low", "rho_high", "pvalue"]].isna().all(axis=None)
    by_workload = table_of(found, "correlation").frame
    assert by_workload[["rho", "rho_low", "rho_high"]].isna().all(axis=None)


def test_saturated_values_are_shown_both_ways():
    """The best initializer's quotient is saturated: without it the others are in order, with it they are not."""
    results = results_of(world(lambda _a, i, _seed: 9.0 if i == 0 else 1.0 + i, saturated=(0,)))
    probes = [r for r in measure(results) if r.column == "probe.gradient_quotient"]
    assert [r.form for r in probes] == [UNSATURATED, ALL_VALUES]
    without, every = probes
    assert without.test.statistic == pytest.approx(1)
    # Ranks 6, 1 … 5 of the probe against 1 … 6: ρ = 1 - 6 (25 + 5) / 210.
    assert every.test.statistic == pytest.approx(1 - 6 * 30 / 210)
    frame = table_of(Prediction(results, probes), "correlation").frame
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
