"""How training went: on test and on training data, as facts and as sentences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from drawings import lines_of
from ledgers import (
    DELTA_1,
    ERROR,
    KAIMING,
    METAINIT,
    PLAIN,
    R_SQUARED,
    WRN,
    make_measured,
    make_record,
    make_spec,
    task_of,
)

from initbench.reporting.questions.line_figures import MOST_DRAWN
from initbench.reporting.questions.training import training_curves
from initbench.reporting.records import CURVE_POINTS, slim
from initbench.reporting.results import Results
from initbench.reporting.source import Source
from initbench.statistics.curves import best_unfitted, widest_gaps

TEST = replace(ERROR, chance=0.9, chance_standard_error=0.001)
TRAIN = replace(ERROR, name="train_error", label="train error", split="train", primary=False)
BOTH = task_of(TEST, TRAIN)


def trained(spec, test, train, *, task=BOTH, status="finished"):
    """Return a record with these values on both splits, ten steps each."""
    names = list(task["metrics"])
    record = make_record(spec, None if status == "diverged" else test[-1], status=status)
    values = zip(test, [None] * len(test) if train is None else train, strict=True)
    history = [{"step": 10 * i, "epoch": i, **dict(zip(names, own, strict=False))} for i, own in enumerate(values, 1)]
    metrics = record.metrics | {task["primary"]: None if status == "diverged" else test[-1]}
    return replace(record, history=history, task=task, metrics=metrics)


def training_of(*records):
    return training_curves(Results(Source([slim(record) for record in records])))


def test_the_training_split_has_columns_of_its_own():
    found = training_of(
        trained(make_spec(KAIMING, seed=0), [0.5, 0.2], [0.40, 0.10]),
        trained(make_spec(KAIMING, seed=1), [0.6, 0.3], [0.50, 0.05]),
        trained(make_spec(KAIMING, seed=2), [0.7, 0.4], [0.45, 0.00]),
    )
    curves = found.facts.curves
    assert list(curves["outcome_median"]) == [0.6, 0.3]
    assert list(curves["train_median"]) == [0.45, 0.05]
    assert list(curves["train_smallest"]) == [0.40, 0.00]
    assert list(curves["train_largest"]) == [0.50, 0.10]
    assert list(found.facts.ends["gap"]) == [pytest.approx(0.25)]
    assert found.frame is curves


def test_what_diverged_counts_as_worst_on_training_data_too():
    found = training_of(
        trained(make_spec(KAIMING, seed=0), [0.5, 0.2], [0.40, 0.10]),
        trained(make_spec(KAIMING, seed=1), [0.6], [0.50], status="diverged"),
    )
    assert list(found.facts.curves["train_median"]) == [pytest.approx(0.45), math.inf]
    assert found.facts.ends["gap"].isna().all()  # no difference of two infinities


def test_the_widest_gap_is_that_of_what_trained():
    found = training_of(
        trained(make_spec(KAIMING), [0.5, 0.03], [0.4, 0.01]),
        trained(make_spec(DELTA_1), [0.5, 0.20], [0.4, 0.05]),
        trained(make_spec(METAINIT), [0.9, 0.90], [0.5, 0.02]),  # a wider gap, of one that did not train
    )
    [row] = widest_gaps(found.facts.ends).to_dict("records")
    assert row["treatment"] == "delta_orthogonal"
    assert row["gap"] == pytest.approx(0.15)
    first, second = found.sentences
    assert str(first).replace("\N{NO-BREAK SPACE}", " ") == (
        "The gap is widest for delta_orthogonal on plain-28: the error ends at 20.00 % on test data and at 5.00 % on "
        "training data."
    )
    assert "fits its training data (error 2.00" in str(second)
    assert "metainit" in second.bold


def test_what_fits_nothing_is_told_from_what_generalizes_to_nothing():
    found = training_of(
        trained(make_spec(KAIMING), [0.9, 0.90], [0.9, 0.88]),
        trained(make_spec(DELTA_1), [0.9, 0.91], [0.9, 0.85]),
    )
    assert not len(widest_gaps(found.facts.ends))
    assert list(best_unfitted(found.facts.ends, {"test_error": TEST})["treatment"]) == ["delta_orthogonal"]
    [sentence] = found.sentences
    assert str(sentence).startswith("Networks that did not train did not fit their training data either")
    assert "85.00" in str(sentence)


def test_test_data_that_are_ahead_are_not_called_a_gap():
    found = training_of(trained(make_spec(KAIMING), [0.5, 0.1], [0.6, 0.3]))
    assert list(found.facts.ends["gap"]) == [pytest.approx(-0.2)]
    assert str(found.sentences[0]).startswith("The error is nowhere worse on test data than on training data")


@pytest.mark.parametrize("train", [0.99, 0.4])
def test_where_higher_is_better_the_gap_turns(train):
    on_train = replace(R_SQUARED, name="train_r_squared", label="train R²", split="train", primary=False)
    task = task_of(R_SQUARED, on_train, name="regression")
    found = training_of(trained(make_spec(KAIMING, task="regression"), [0.1, 0.7], [0.1, train], task=task))
    assert list(found.facts.ends["gap"]) == [pytest.approx(train - 0.7)]
    assert str(found.sentences[0]).startswith(
        "The gap is widest for kaiming" if train > 0.7 else "The R² is nowhere worse"
    )


def test_each_metric_has_a_sentence_and_none_is_compared_with_another():
    bits = replace(R_SQUARED, name="train_r_squared", label="train R²", split="train", primary=False)
    task = task_of(R_SQUARED, bits, name="regression")
    found = training_of(
        trained(make_spec(KAIMING), [0.5, 0.3], [0.4, 0.1]),
        trained(make_spec(KAIMING, WRN, task="regression"), [0.1, 0.9], [0.1, 0.8], task=task),
    )
    assert list(widest_gaps(found.facts.ends)["metric"]) == ["test_error", "test_r_squared"]
    assert [str(own)[:60] for own in found.sentences] == [
        "The gap is widest for kaiming on plain-28: the error ends at",
        "The R² is nowhere worse on test data than on training data; ",
    ]
    assert "the two are closest for kaiming on wrn-28: 0.900 and 0.800" in str(found.sentences[1])


def test_without_a_training_split_the_best_end_is_said():
    found = training_of(
        trained(make_spec(KAIMING), [0.5, 0.3], None, task=task_of(TEST)),
        trained(make_spec(DELTA_1), [0.5, 0.2], None, task=task_of(TEST)),
    )
    assert found.facts.curves[["train_median", "train_smallest", "train_largest"]].isna().all(axis=None)
    assert "On training data,\nmedian" not in [column.heading for column in found.tables[1].columns]
    [sentence] = found.sentences
    assert "delta_orthogonal ends with the best test error" in str(sentence)
    assert "at step 20" in str(sentence)


def test_a_quantity_of_another_unit_is_not_the_same():
    nats = replace(TRAIN, unit="nats")
    found = training_of(trained(make_spec(KAIMING), [0.5, 0.3], [0.4, 0.1], task=task_of(TEST, nats)))
    assert found.facts.curves["train_median"].isna().all()


def test_where_all_diverged_or_nothing_was_trained():
    diverged = [make_record(make_spec(KAIMING, seed=s), None, status="diverged") for s in range(2)]
    found = training_of(*(replace(record, history=[]) for record in diverged))
    assert [str(own) for own in found.sentences] == [
        "By the end of every curve, at least half of its seeds have diverged."
    ]
    assert found.figures == []
    assert training_of(make_record(make_spec(KAIMING), status="failed")) is None
    assert training_of(make_measured(make_spec(KAIMING))) is None


def test_the_training_split_is_drawn_dashed_and_by_compute_not_at_all():
    cost = {"cost": {"forward": 10, "backward": 30}}
    record = trained(make_spec(METAINIT), [0.5, 0.2], [0.4, 0.1])
    found = training_of(replace(record, initialization=cost))
    steps, compute = found.figures
    assert sorted(bool(dash) for _, dash, _, _ in lines_of(steps.svg)) == [False, True]
    assert [bool(dash) for _, dash, _, _ in lines_of(compute.svg)] == [False]
    assert "metainit (from delta_orthogonal) at step 20: 20.00" in steps.alt
    assert "(10.00\N{NO-BREAK SPACE}% on training data)" in steps.alt
    assert all("mean over the epoch so far" in table.note for table in found.tables)


def test_of_many_workloads_some_are_drawn_and_the_rest_is_said():
    records = [
        trained(make_spec(KAIMING, PLAIN | {"depth": depth}), [0.5, 0.2], [0.4, 0.1])
        for depth in range(10, 10 + 2 * (MOST_DRAWN + 3), 2)
    ]
    found = training_of(*records)
    assert len(found.figures) == MOST_DRAWN  # by step alone: what was spent is not known
    assert found.remarks == [f"Of {MOST_DRAWN + 3}, the first {MOST_DRAWN} are drawn; curves.csv has all."]
    assert len(set(found.facts.curves["workload"])) == MOST_DRAWN + 3


def test_a_slim_record_keeps_the_training_split_and_is_the_same_again():
    long = [0.5 - 0.001 * epoch for epoch in range(200)]
    record = trained(make_spec(KAIMING, recipe={"epochs": 200}), long, [value / 2 for value in long])
    once = slim(record)
    assert all(entry["train_error"] == entry["test_error"] / 2 for entry in once.history)
    assert sum(entry["drawn"] for entry in once.history) == CURVE_POINTS
    assert slim(once).initialization == once.initialization
