"""What the report answers to its questions, on ledgers whose truth is known."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from initbench.reporting.answers.cost import cost_answers, initialization_costs
from initbench.reporting.answers.probe_results import ALL_VALUES, UNSATURATED, measure
from initbench.reporting.answers.probes import correlation_frame, probe_answers
from initbench.reporting.answers.treatments import rank, treatment_answers
from initbench.reporting.parts import Figure, Remark, Table
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, make_record, make_spec
from reports import TERMS, compared
from scipy import stats

from initbench.reporting.charts import colours

SEEDS = range(3)
DEPTHS = (10, 16, 22, 28, 34)
XAVIER, LSUV = {"name": "xavier"}, {"name": "orthogonal"}
FIVE = (KAIMING, DELTA_1, DELTA_2, XAVIER, LSUV)


def world(outcome, initializers=FIVE, depths=DEPTHS, quotient=None, **options):
    """Return a record for each depth, initializer and seed; `outcome` and `quotient` take their indices."""
    records = []
    for a, depth in enumerate(depths):
        for i, initializer in enumerate(initializers):
            for seed in SEEDS:
                error = outcome(a, i, seed)
                records.append(
                    make_record(
                        make_spec(initializer, PLAIN | {"depth": depth}, seed),
                        error,
                        status="finished" if error is not None else "diverged",
                        quotient=0.5 if quotient is None else quotient(a, i, seed),
                        **options,
                    )
                )
    return records


def answer(records, by_workload=()):
    trials, metrics, _, terms = compared(records)
    return treatment_answers(trials, rank(trials), colours(list(trials["treatment"])), by_workload, metrics, terms)


def part(section, kind, name):
    [found] = [p for p in section.parts if isinstance(p, kind) and p.name == name]
    return found


def remarks(section):
    return [p.text for p in section.parts if isinstance(p, Remark)]


def ordered(a, i, seed):
    """The i-th initializer is worse by 2 points than the one before it, but for noise of .1 points."""
    return 0.1 + 0.02 * i + 0.01 * a + 0.001 * float(np.random.default_rng((a, i, seed)).standard_normal())


def test_an_order_that_is_the_same_everywhere_is_found():
    section = answer(world(ordered))
    first, second = section.questions["Which initializer is better?"]
    assert first.sentence.startswith("kaiming is first (mean rank 1.00 of 5, n = 5 workloads; Friedman's χ² = ")
    assert ", ahead of " in first.sentence
    assert "kaiming has" not in second.sentence
    found = re.fullmatch(
        r"delta_orthogonal\[gain=1\] has .* points more test error than kaiming \(95 % interval, simultaneous over 10 "
        r"comparisons, ([\d.]+) to ([\d.]+) points, n = 5 workloads\)\.",
        second.sentence,
    )
    assert 0 < float(found[1]) < 2 < float(found[2])


def test_the_table_of_differences_is_that_of_paired_t_tests():
    records = world(ordered)
    frame = part(answer(records), Table, "differences").frame.set_index("treatment")
    names = ["kaiming", "delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]", "xavier", "orthogonal"]
    for i, name in enumerate(names):
        means = [np.mean([ordered(a, i, s) - ordered(a, 0, s) for s in SEEDS]) for a in range(5)]
        row = frame.loc[name]
        if i == 0:
            assert math.isnan(row["difference"])
            continue
        interval = stats.ttest_1samp(means, 0).confidence_interval(1 - 0.05 / 10)
        expected = (np.mean(means), interval.low, interval.high)
        assert (row["difference"], row["difference_low"], row["difference_high"]) == pytest.approx(expected)
        assert row["improvement"] == 0  # it never has the lower error


def test_the_critical_difference_is_drawn_where_there_are_enough_workloads():
    assert part(answer(world(ordered)), Figure, "mean-ranks").note.startswith("Critical difference 2.73 (Nemenyi, 5 %")
    few = answer(world(ordered, depths=(10, 16)))
    assert "No critical-difference diagram: 2 workloads; a critical difference is given from 5 on." in remarks(few)


def test_divergence_is_counted_by_workload():
    """kaiming diverges at one seed of two workloads, delta_orthogonal[gain=1] at every seed of one."""
    bad = {(0, 0, 0), (1, 0, 2), (2, 1, 0), (2, 1, 1), (2, 1, 2)}
    section = answer(world(lambda a, i, seed: None if (a, i, seed) in bad else ordered(a, i, seed)))
    first, second = section.questions["Which initializers diverge?"]
    assert "kaiming diverged on 2 of 5 workloads" in first.sentence
    assert "in 2 of 15 trials" in first.sentence
    assert second.is_detail
    assert "on 1 of 5 workloads" in second.sentence
    assert "in 3 of 15 trials" in second.sentence
    [none] = answer(world(ordered)).questions["Which initializers diverge?"]
    assert none.sentence == "No trial diverged, of 75."


def test_what_did_not_run_everywhere_is_named_and_compared_on_the_workloads_that_it_has():
    """It is as good as kaiming on the two workloads that it has, which say nothing of the others."""
    records = world(ordered) + world(ordered, (METAINIT,), DEPTHS[:2])
    section, without = answer(records), answer(world(ordered))
    assert any("initializers metainit(delta_orthogonal)" in text for text in remarks(section))
    table = part(section, Table, "differences").frame.set_index("treatment")
    assert list(table["mean_rank"])[:5] == [1, 2, 3, 4, 5]
    row = table.loc["metainit(delta_orthogonal)"]
    assert math.isnan(row["mean_rank"])
    assert (row["difference"], row["improvement"], row["workloads"]) == (0, 0.5, 2)
    left = section.questions["Which initializer is better?"][-1]
    assert (left.where, left.is_detail) == ("metainit(delta_orthogonal), on 2 workloads", True)
    assert left.sentence.startswith("Not enough evidence that metainit(delta_orthogonal) and kaiming differ: n = 2")
    # The others are ranked and compared as they were without it.
    assert section.questions["Which initializer is better?"][:-1] == without.questions["Which initializer is better?"]
    ranked = table.drop(index="metainit(delta_orthogonal)").drop(columns=["rate_low", "rate_high"])
    before = part(without, Table, "differences").frame.set_index("treatment").drop(columns=["rate_low", "rate_high"])
    assert ranked.equals(before)


@pytest.mark.parametrize("depths", [(10,), DEPTHS])
def test_every_pair_with_the_best_stands_in_the_table_by_workload(depths):
    frame = part(answer(world(ordered, depths=depths)), Table, "paired_differences").frame
    assert len(frame) == 4 * len(depths)
    row = frame[frame["treatment"] == "xavier"].iloc[0]
    differences = [ordered(0, 3, s) - ordered(0, 0, s) for s in SEEDS]
    assert (row["difference"], row["seeds"]) == pytest.approx((np.mean(differences), 3))


def costs_of(records):
    trials, _, by_workload, terms = compared(records)
    return cost_answers(trials, records, colours(list(trials["treatment"])), by_workload, terms)


def curve(record, errors, cost):
    history = [{"step": 21 * (e + 1), "epoch": e + 1, "test_error": error} for e, error in enumerate(errors)]
    forward, backward = cost
    return replace(record, history=history, initialization={"cost": {"forward": forward, "backward": backward}})


def test_the_cost_to_a_target_counts_what_the_initializer_spent():
    """MetaInit's 10 steps of half a batch, 9 gradients each, are 45 training steps."""
    records = []
    for depth in (10, 16):
        for seed in SEEDS:
            tuned = make_record(make_spec(METAINIT, PLAIN | {"depth": depth}, seed), 0.1)
            plain = make_record(make_spec(KAIMING, PLAIN | {"depth": depth}, seed), 0.2)
            records += [curve(tuned, [0.15, 0.1], (10, 30)), curve(plain, [0.3, 0.15], (0, 0))]
    section = costs_of(records)
    spent, fastest = (a.sentence for a in section.questions["What does initialization cost?"])
    assert spent == (
        "In training steps of the same cost: metainit(delta_orthogonal) as much as 45; the others spend nothing; "
        "training has 168."
    )
    # The target is the median of .1 and .2: kaiming is there after 42 steps, MetaInit after 45 and 21.
    assert fastest.startswith("kaiming reaches the target with the least compute, its own passes included, on 2 of 2")
    frame = part(section, Table, "costs").frame.set_index(["workload", "treatment"])["steps_to_target"]
    assert set(frame.xs("kaiming", level=1)) == {42}
    assert set(frame.xs("metainit(delta_orthogonal)", level=1)) == {66}


def test_an_unknown_cost_is_said():
    records = world(ordered)
    assert initialization_costs(compared(records).trials, records)["initialization_steps"].isna().all()
    first = costs_of(records).questions["What does initialization cost?"][0]
    assert first.sentence == "Not known: the records do not say what initializers spent."


def test_an_initializer_of_unknown_cost_is_not_said_to_have_run_nowhere():
    records = []
    for depth in (10, 16):
        for own, cost in ((METAINIT, (10, 30)), (KAIMING, (0, 0)), ({"name": "xavier"}, None)):
            for seed in SEEDS:
                record = curve(make_record(make_spec(own, PLAIN | {"depth": depth}, seed), 0.1), [0.1], cost or (0, 0))
                records.append(record if cost else replace(record, initialization={}))
    [remark] = [own.text for own in costs_of(records).parts if isinstance(own, Remark)]
    assert remark == (
        "Left out where workloads are put together, because not every initializer ran everywhere with a cost that the "
        "records tell: initializers xavier."
    )


def probes_of(records):
    found = compared(records)
    return measure(found.trials, records, found.terms)


def test_a_probe_that_orders_as_the_outcome_predicts_it_and_one_that_is_constant_does_not():
    six = (*FIVE, {"name": "zero"})
    results = probes_of(world(ordered, six, quotient=lambda a, i, seed: 1.0 + i + 0.01 * a + 0.001 * seed))
    assert [(r.column, r.form) for r in results] == [
        ("probe.gradient_quotient", ALL_VALUES),
        ("probe.gradient_norm", ALL_VALUES),
    ]
    quotient, norm = results
    assert quotient.test.statistic == pytest.approx(1)
    # All 720 permutations; the order and its mirror image are the most extreme. Holm counts the probes with a p-value.
    assert quotient.test.pvalue == pytest.approx(2 / 720)
    assert math.isnan(norm.test.statistic)
    questions = probe_answers(results, TERMS).questions
    [first, second] = questions["Does a measurement at initialization predict the test error?"]
    # A perfect order of 6 has Fisher's interval of the largest ρ below 1, z = arctanh(1 - 6 / 210) ± 1.96 √(1.06 / 3).
    z, half = math.atanh(1 - 6 / 210), 1.96 * math.sqrt(1.06 / 3)
    assert first.sentence == (
        "The higher the gradient quotient, the higher the test error: mean ρ = +1.00 (95 % interval "
        f"{math.tanh(z - half):+.2f} to {math.tanh(z + half):+.2f}), n = 6 initializers on 5 workloads, "
        "permutation p = 0.0028."  # the norm, which is constant, has none to correct for
    )
    assert second.is_detail
    assert second.sentence.startswith("Not enough evidence")
    [regret, _] = questions["What does it cost to pick an initializer by it?"]
    assert "costs 0.00 points" in regret.sentence


def test_saturated_values_are_shown_both_ways():
    """The best initializer's quotient is saturated: without it the others are in order, with it they are not."""
    records = [
        make_record(
            make_spec(initializer, PLAIN | {"depth": depth}, seed),
            ordered(a, i, seed),
            quotient=9.0 if i == 0 else 1.0 + i,
            saturated=i == 0,
        )
        for a, depth in enumerate(DEPTHS)
        for i, initializer in enumerate((*FIVE, {"name": "zero"}))
        for seed in SEEDS
    ]
    results = [r for r in probes_of(records) if r.column == "probe.gradient_quotient"]
    assert [r.form for r in results] == [UNSATURATED, ALL_VALUES]
    without, every = results
    assert without.test.statistic == pytest.approx(1)
    # Ranks 6, 1 … 5 of the probe against 1 … 6: ρ = 1 - 6 (25 + 5) / 210.
    assert every.test.statistic == pytest.approx(1 - 6 * 30 / 210)
    frame = correlation_frame(results, TERMS)
    assert list(frame["saturated"]) == [1] * 10
    assert set(frame[frame["form"] == UNSATURATED]["n"]) == {5}


def test_the_batches_and_the_time_of_a_probe():
    records = [
        replace(
            record,
            probes=[probe | {"conditions": {"per_batch": [1.0, 2.0, 3.0]}} for probe in record.probes],
            timing=record.timing | {"gradient_quotient_probe_seconds": 0.1 * (index % 3)},
        )
        for index, record in enumerate(world(ordered))
    ]
    results = probes_of(records)
    assert results[0].spread.value == pytest.approx(0.5)  # s = 1, mean 2
    assert results[0].seconds == pytest.approx(0.1)
    assert math.isnan(results[1].seconds)
