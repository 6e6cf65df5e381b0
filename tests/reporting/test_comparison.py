from __future__ import annotations

import math
import random

import numpy as np
import pandas as pd
import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, WRN, cell, make_record, make_spec, quickstart_records
from reports import comparison, knowing_chance


def compare_records(records):
    return comparison(records)


def only(table):
    assert len(table) == 1
    return table.iloc[0]


@pytest.mark.parametrize("errors", [[0.1], [0.1, 0.2]])
def test_no_interval_below_three_seeds(errors):
    row = only(compare_records(cell(errors)))
    assert row["seeds"] == len(errors)
    assert row["outcome_mean"] == pytest.approx(np.mean(errors))
    assert math.isnan(row["outcome_interval"])


def test_mean_median_and_interval_of_a_cell():
    row = only(compare_records(cell([0.01, 0.02, 0.04])))
    assert row["outcome_mean"] == pytest.approx(0.07 / 3)
    assert row["outcome_median"] == 0.02
    assert row["outcome_interval"] == pytest.approx(0.01 * 4.30265 * math.sqrt(7 / 9), rel=1e-6)


@pytest.mark.parametrize(
    ("errors", "median"),
    [([0.1, None, 0.2], 0.2), ([0.1, None], math.inf), ([None, None, 0.1], math.inf), ([0.1, 0.2, 0.3, None], 0.25)],
)
def test_a_diverged_trial_is_the_worst_outcome_and_leaves_no_mean(errors, median):
    row = only(compare_records(cell(errors)))
    assert row["outcome_median"] == pytest.approx(median)
    assert math.isnan(row["outcome_mean"])
    assert math.isnan(row["outcome_interval"])
    assert row["diverged"] == errors.count(None)
    assert row["seeds"] == len(errors)


def test_failed_trials_are_counted_and_in_no_statistic():
    failed = [make_record(make_spec(KAIMING, seed=seed), status="failed") for seed in (7, 8)]
    row = only(compare_records([*cell([0.1, 0.2, 0.3]), *failed]))
    assert (row["seeds"], row["failed"], row["diverged"]) == (3, 2, 0)
    assert row["outcome_mean"] == pytest.approx(0.2)
    nothing = only(compare_records(failed))
    assert (nothing["seeds"], nothing["failed"]) == (0, 2)
    assert nothing[["rank", "outcome_median", "outcome_mean", "parameters"]].isna().all()


def test_first_epoch_accuracy_needs_every_trial():
    complete = cell([0.1, 0.1], first_epoch_accuracy=0.25)
    assert only(compare_records(complete))["first_epoch_accuracy_mean"] == 0.25
    gap = make_record(make_spec(KAIMING, seed=5), None, status="diverged", first_epoch_accuracy=None)
    assert math.isnan(only(compare_records([*complete, gap]))["first_epoch_accuracy_mean"])


def test_ranks_sort_diverged_cells_last_and_ties_share_the_least():
    records = [
        *cell([None, None, 0.01], KAIMING),
        *cell([0.3, 0.3, 0.3], DELTA_2),
        *cell([0.3, 0.1, 0.4], DELTA_1),
        *cell([0.05, 0.05, 0.9], METAINIT),
    ]
    table = compare_records(records)
    assert list(table["treatment"]) == [
        "metainit(delta_orthogonal)",
        "delta_orthogonal[gain=1]",
        "delta_orthogonal[gain=2]",
        "kaiming",
    ]
    assert list(table["rank"]) == [1, 2, 2, 4]


def test_cells_that_did_not_train_share_a_rank_behind_those_that_did():
    """Of ten classes a guess is wrong in 90 %; the medians stand as they are, and order the rows."""
    records = [
        *cell([None, None, 0.01], KAIMING),
        *cell([0.9, 0.9, 0.9], DELTA_2),
        *cell([0.89, 0.895, 0.1], DELTA_1),
        *cell([0.8, 0.85, 0.9], METAINIT),
    ]
    table = compare_records(knowing_chance(records))
    names = ["metainit(delta_orthogonal)", "delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]", "kaiming"]
    assert list(table["treatment"]) == names
    assert list(table["rank"]) == [1, 2, 2, 4]
    assert list(table["outcome_median"]) == [0.85, 0.89, 0.9, math.inf]
    assert list(table["state"]) == ["trained", "untrained", "untrained", "diverged"]
    assert list(table["trained"]) == [2, 1, 0, 1]
    assert set(table["chance"]) == {0.9}


def test_quotient_seconds_and_saturation_of_a_cell():
    records = [
        make_record(make_spec(KAIMING, seed=seed), quotient=q, saturated=s, initialization_seconds=t)
        for seed, (q, s, t) in enumerate([(1.0, True, 1.0), (0.2, False, 2.0), (0.4, False, 6.0)])
    ]
    row = only(compare_records(records))
    assert row["gradient_quotient_median"] == 0.4
    assert row["gradient_quotient_saturated"] == 1
    assert row["initialization_seconds_mean"] == 3.0


def test_a_ledger_without_the_gradient_quotient_can_be_compared():
    records = [make_record(make_spec(KAIMING, seed=seed, probes=("gradient_norm",))) for seed in range(3)]
    row = only(compare_records(records))
    assert math.isnan(row["gradient_quotient_median"])
    assert row["gradient_quotient_saturated"] == 0


def test_search_trials_are_left_out():
    search = make_record(make_spec(KAIMING, seed=0, phase="search"), 0.9)
    row = only(compare_records([*cell([0.1, 0.1, 0.1]), search]))
    assert (row["seeds"], row["outcome_mean"]) == (3, pytest.approx(0.1))


def test_a_trial_run_again_with_other_probes_is_counted_once():
    again = make_record(make_spec(KAIMING, seed=0, probes=("gradient_norm",)), 0.1)
    row = only(compare_records([*cell([0.1, 0.2, 0.3]), again]))
    assert row["seeds"] == 3
    assert row["gradient_quotient_median"] == 0.5


def test_trials_of_an_edited_rule_are_never_pooled_with_the_older_ones():
    records = [
        make_record(make_spec(KAIMING, seed=seed, recipe={"clip_norm": clip}, rules=("recipe.clip_norm",)), error)
        for clip, error in ((1.0, 0.1), (0.5, 0.2))
        for seed in range(3)
    ]
    table = compare_records(records)
    assert list(table["treatment"]) == ["kaiming {clip_norm=1.0}", "kaiming {clip_norm=0.5}"]
    assert list(table["seeds"]) == [3, 3]


def test_two_versions_of_an_initializer_are_never_pooled():
    records = [make_record(make_spec(KAIMING | {"version": v}, seed=s), v / 10) for v in (1, 2) for s in range(3)]
    table = compare_records(records)
    assert list(table["outcome_mean"]) == pytest.approx([0.1, 0.2])
    assert table["treatment"].is_unique


def test_architectures_are_compared_apart():
    table = compare_records(quickstart_records())
    best = table[table["rank"] == 1]
    assert list(best["workload"]) == ["plain[depth=28, width=1]", *["wrn[depth=28, width=1]"] * 2]
    assert set(table.groupby("workload").size()) == {4}


def test_the_order_of_records_does_not_matter():
    records = [*quickstart_records(), make_record(make_spec(KAIMING, WRN, 5), status="failed")]
    expected = compare_records(records)
    for seed in range(5):
        shuffled = random.Random(seed).sample(records, len(records))  # noqa: S311  # not cryptography
        pd.testing.assert_frame_equal(compare_records(shuffled), expected)
