from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest
from ledgers import (
    DELTA_1,
    DELTA_2,
    KAIMING,
    METAINIT,
    PLAIN,
    WRN,
    make_record,
    make_spec,
    quickstart_records,
    write_ledger,
)
from reports import knowing_chance

import initbench
from initbench.comparing.formatting import natural
from initbench.reporting.frame import load_results, results_frame
from initbench.reporting.records import slim
from initbench.training.recipe import Recipe


def frame_of(*specs):
    return results_frame([make_record(spec) for spec in specs])


def group_of(frame, initializer, architecture="plain"):
    return set(frame.loc[(frame["treatment"] == initializer) & (frame["architecture"] == architecture), "workload"])


def test_columns_are_exactly_those_of_the_contract(tmp_path):
    write_ledger(tmp_path, quickstart_records())
    frame = initbench.load_results(tmp_path)
    assert list(frame.columns) == [
        *("trial_id", "suite", "status", "phase", "architecture", "scheme", "initializer", "dataset", "seed"),
        *("treatment", "workload", "cell", "architecture_label", "metric"),
        *("architecture.depth", "architecture.norm", "architecture.width"),
        *("initializer.base", "initializer.batch_size", "initializer.gain", "initializer.mode", "initializer.steps"),
        *sorted(f"recipe.{field}" for field in Recipe.model_fields),
        *("outcome", "chance", "chance_standard_error"),
        *("best_test_accuracy", "first_epoch_accuracy", "mean_train_loss", "test_error", "test_loss", "train_error"),
        *("train_loss", "validation_error", "diverged_at_step", "steps", "parameters"),
        *("probe.gradient_norm", "probe.gradient_quotient", "probe.gradient_quotient.saturated"),
        *("initialization_seconds", "total_seconds"),
    ]


def test_the_mean_training_loss_is_that_of_whole_epochs():
    """Of the made-up history 2.0, 1.0 and, within an epoch, 5.0."""
    entries = [(1, 1.0, 2.0), (2, 1.5, 5.0), (3, 2.0, 1.0)]
    history = [{"step": step, "epoch": epoch, "train_loss": loss, "test_error": 0.5} for step, epoch, loss in entries]
    finished = replace(make_record(make_spec(KAIMING)), history=history)
    once = slim(finished)
    assert once.metrics["mean_train_loss"] == 1.5
    assert slim(once).metrics["mean_train_loss"] == 1.5
    assert "mean_train_loss" not in slim(replace(finished, status="diverged")).metrics


def test_one_row_per_trial_with_labels_and_bare_names():
    frame = results_frame(quickstart_records())
    assert len(frame) == 24
    assert set(frame["treatment"]) == {
        "kaiming",
        "delta_orthogonal[gain=1]",
        "delta_orthogonal[gain=2]",
        "metainit(delta_orthogonal)",
    }
    assert set(frame["architecture"]) == {"plain", "wrn"}
    assert set(frame["architecture_label"]) == {"plain[depth=28, width=1]", "wrn[depth=28, width=1]"}
    tuned = frame[frame["treatment"] == "metainit(delta_orthogonal)"].iloc[0]
    assert (tuned["initializer.base"], tuned["initializer.steps"], tuned["initializer.batch_size"]) == (
        "delta_orthogonal",
        100,
        32,
    )


def test_a_failed_trial_keeps_its_row_without_numbers():
    ok, failed = make_record(make_spec(KAIMING, seed=0)), make_record(make_spec(KAIMING, seed=1), status="failed")
    frame = results_frame([ok, failed])
    assert list(frame["status"]) == ["finished", "failed"]
    assert list(frame["metric"].fillna("")) == ["test_error", ""]
    assert (
        frame.loc[1, ["outcome", "test_error", "steps", "probe.gradient_quotient", "initialization_seconds"]]
        .isna()
        .all()
    )


def test_the_chance_level_is_that_of_the_trials_own_split():
    [known] = knowing_chance([make_record(make_spec(KAIMING, seed=0))], 0.9, 0.01)
    frame = results_frame([known, make_record(make_spec(KAIMING, seed=1))])
    assert frame[["chance", "chance_standard_error"]].to_numpy()[0].tolist() == [0.9, 0.01]
    assert frame.loc[1, ["chance", "chance_standard_error"]].isna().all()


def test_metric_columns_are_numbers_even_where_every_value_is_missing():
    frame = results_frame([make_record(make_spec(KAIMING), status="failed")])
    for column in ("outcome", "steps", "parameters"):
        assert frame[column].dtype == "float64"
        assert frame[column].isna().all()


def test_reasons_are_no_columns_and_a_diverged_trial_has_no_test_error():
    frame = results_frame([make_record(make_spec(KAIMING), status="diverged")])
    assert not [column for column in frame.columns if column.endswith("_reason")]
    assert frame[["outcome", "test_error"]].isna().all(axis=None)
    assert frame["diverged_at_step"].item() == 37


def test_a_probe_with_arguments_has_its_own_columns():
    record = make_record(make_spec(KAIMING))
    real = {"name": "gradient_quotient[data=real]", "kind": "scalar", "value": 2.5, "conditions": {"saturated": True}}
    record.probes.append(real)
    frame = results_frame([record])
    assert frame["probe.gradient_quotient"].item() == 0.5
    assert frame["probe.gradient_quotient[data=real]"].item() == 2.5
    assert frame["probe.gradient_quotient[data=real].saturated"].tolist() == [True]
    assert frame["probe.gradient_quotient.saturated"].tolist() == [False]


def test_what_a_rule_sets_for_one_initializer_does_not_split_its_group():
    # lr is lowered for metainit alone: it is still compared with the others.
    frame = frame_of(
        make_spec(KAIMING),
        make_spec(DELTA_1),
        make_spec(METAINIT, recipe={"lr": 0.01}, rules=("recipe.lr",)),
        make_spec(KAIMING, WRN),
    )
    assert set(frame["workload"]) == {"plain[depth=28, width=1]", "wrn[depth=28, width=1]"}
    assert group_of(frame, "metainit(delta_orthogonal)") == group_of(frame, "kaiming")


def test_an_architecture_argument_set_by_a_rule_does_not_split_its_group():
    frame = frame_of(
        make_spec(KAIMING),
        make_spec(DELTA_1, PLAIN | {"norm": "batch"}, rules=("architecture.norm",)),
    )
    assert set(frame["workload"]) == {"plain[depth=28, width=1]"}


def test_what_the_suite_itself_varies_splits_groups_and_names_them():
    frame = frame_of(
        make_spec(KAIMING, recipe={"lr": 0.1}),
        make_spec(KAIMING, recipe={"lr": 0.01}),
        make_spec(KAIMING, PLAIN | {"norm": "batch"}, recipe={"lr": 0.1}),
        make_spec(KAIMING, dataset={"name": "fashion_mnist", "train_size": 1000}),
        make_spec(KAIMING, scheme="fixup"),
    )
    assert set(frame["workload"]) == {
        "plain[depth=28, width=1, norm=none] · digits · lr=0.1",
        "plain[depth=28, width=1, norm=none] · digits · lr=0.01",
        "plain[depth=28, width=1, norm=batch] · digits · lr=0.1",
        "plain[depth=28, width=1, norm=none] · fashion_mnist · lr=0.1",
        "plain[depth=28, width=1, norm=none] + fixup · digits · lr=0.1",
    }


def test_a_cell_is_a_trial_without_its_seed_its_probes_and_its_labels():
    frame = frame_of(
        make_spec(KAIMING, seed=0),
        make_spec(KAIMING, seed=1, probes=("gradient_norm",), suite="other", rules=("recipe.clip_norm",)),
        make_spec(KAIMING | {"version": 2}, seed=2),
    )
    first, second, newer = frame.sort_values("seed")["cell"]
    assert first == second
    assert first != newer


def test_groups_are_in_natural_order():
    frame = frame_of(*(make_spec(KAIMING, PLAIN | {"depth": depth}) for depth in (100, 16, 28)))
    assert list(frame["architecture.depth"]) == [16, 28, 100]
    assert natural("depth=16") < natural("depth=100")
    rates = ["lr=1e-05", "lr=0.05", "lr=0.1, warmup=0.25", "lr=0.1, warmup=1", "lr=0.25", "lr=2"]
    layers = ["layer1.2.conv1", "layer1.10.conv1", "layers.2.1", "layers.2.10", "layers.10.0.weight"]
    for texts in (rates, layers):
        assert all(natural(first) < natural(second) for first, second in pairwise(texts))


def test_the_order_of_records_does_not_matter():
    records = quickstart_records()
    expected = results_frame(records)
    for seed in range(5):
        shuffled = random.Random(seed).sample(records, len(records))  # noqa: S311  # not cryptography
        pd.testing.assert_frame_equal(results_frame(shuffled), expected)


def test_csv_round_trip_is_exact(tmp_path):
    records = [
        *quickstart_records(),
        make_record(make_spec(DELTA_2, seed=9), 1 / 3),
        make_record(make_spec(KAIMING, seed=9), status="failed"),
    ]
    frame = results_frame(records)
    frame.to_csv(tmp_path / "results.csv", index=False)
    read = pd.read_csv(tmp_path / "results.csv")
    # A file has no types: flags with gaps come back as objects.
    read["probe.gradient_quotient.saturated"] = read["probe.gradient_quotient.saturated"].astype("boolean")
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    assert repr(1 / 3) in (tmp_path / "results.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("make", [False, True], ids=["missing", "empty"])
def test_a_folder_without_records_is_one_clear_line(tmp_path, make):
    folder = tmp_path / "nothing"
    if make:
        (folder / "trials").mkdir(parents=True)
    with pytest.raises(initbench.InitbenchError, match=r"no trial records in .*trials") as caught:
        load_results(folder)
    assert "\n" not in str(caught.value)


def test_a_broken_record_is_named(tmp_path):
    ledger = write_ledger(tmp_path, [make_record(make_spec(KAIMING))])
    (ledger.trials / "bad.json").write_text("{", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"^skipped .*/trials/bad\.json: not a trial record \(.+\)$"):
        assert len(load_results(tmp_path)) == 1
