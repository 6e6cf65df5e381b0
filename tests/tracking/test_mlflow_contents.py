from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from trials import EPOCHS, STEPS_PER_EPOCH, make_record, metainit, scalar

from initbench.tracking import contents


def _labels(record):
    return contents.trial_labels([record.spec])[0]


def test_tags_and_name():
    record = make_record(initializer=metainit(), seed=3)
    assert contents.run_name(record, _labels(record)) == "metainit(delta_orthogonal) · wrn[depth=28, width=1] · seed 3"
    assert contents.tags(record, _labels(record)) == {
        "initbench.kind": "trial",
        "initbench.trial_id": record.id,
        "suite": "depth",
        "architecture": "wrn[depth=28, width=1]",
        "scheme": "standard",
        "initializer": "metainit(delta_orthogonal)",
        "depth": "28",
        "width": "1",
        "dataset": "digits",
        "seed": "3",
        "status": "finished",
        "phase": "final",
        "task": "classification",
        "metric": "test_error",
    }


def test_labels_show_what_varies_among_the_specs():
    records = [make_record(initializer=metainit(steps)) for steps in (100, 500)]
    labels = contents.trial_labels([record.spec for record in records])
    assert [label["initializer"] for label in labels] == [
        "metainit[steps=100](delta_orthogonal)",
        "metainit[steps=500](delta_orthogonal)",
    ]


def test_runs_on_several_datasets_have_names_of_their_own():
    one = make_record(seed=3)
    other = {"name": "fashion_mnist", "arguments": {}}
    records = [one, replace(one, spec={**one.spec, "dataset": other})]
    labels = contents.trial_labels([record.spec for record in records])
    names = [contents.run_name(record, own) for record, own in zip(records, labels, strict=True)]
    assert [name.split(" · ")[2:] for name in names] == [["digits", "seed 3"], ["fashion_mnist", "seed 3"]]
    assert "place" not in contents.tags(records[0], labels[0])


def test_an_architecture_without_depth_has_no_tag_for_it():
    record = make_record()
    arguments = {"pretrained": False}
    record = replace(record, spec={**record.spec, "architecture": {"name": "timm/resnet18", "arguments": arguments}})
    assert not {"depth", "width"} & contents.tags(record, _labels(record)).keys()


def test_a_failed_trial_carries_its_error():
    record = make_record(status="failed")
    tags = contents.tags(record, _labels(record))
    assert tags["status"] == "failed"
    assert tags["error"] == "RuntimeError: out of memory"
    assert not {"task", "metric"} & tags.keys()  # which it may not have come to know


def test_parameters_are_the_settings_and_the_conditions_of_the_probes():
    parameters = contents.parameters(make_record(initializer=metainit()))
    expected = {
        "architecture.activation": "beta_swish",
        "architecture.dropout": "0.0",
        "initializer.steps": "100",
        "initializer.batch_size": "32",
        "initializer.base": "delta_orthogonal",
        "initializer.base.gain": "1.0",
        "dataset.train_size": "null",
        "recipe.lr": "0.1",
        "recipe.betas": "[0.9, 0.999]",
        "recipe.nesterov": "false",
        "probe.gradient_quotient.eps": "1e-05",
        "probe.gradient_quotient.fraction_below_epsilon": "0.03",
        "probe.gradient_quotient data-real.data": "real",
        "chance.test_error": "0.9",
    }
    assert expected.items() <= parameters.items()
    assert not [name for name in parameters if "per_batch" in name]
    assert [name for name in parameters if name.startswith("chance.")] == ["chance.test_error"]


def test_an_argument_that_is_an_initializer_is_its_name_with_its_own_arguments_below():
    parameters = contents.parameters(make_record(initializer=metainit()))
    of_the_initializer = {name: text for name, text in parameters.items() if name.startswith("initializer.")}
    assert of_the_initializer == {
        "initializer.base": "delta_orthogonal",
        "initializer.base.gain": "1.0",
        "initializer.batch_size": "32",
        "initializer.lr": "0.1",
        "initializer.steps": "100",
    }
    as_it_is = metainit()
    as_it_is.arguments["base"] = None
    assert contents.parameters(make_record(initializer=as_it_is))["initializer.base"] == "null"


def test_a_long_value_is_cut_to_500_characters():
    record = make_record()
    spec = {**record.spec, "dataset": {"name": "digits", "arguments": {"root": "x" * 501, "other": "y" * 500}}}
    parameters = contents.parameters(replace(record, spec=spec))
    assert parameters["dataset.root"] == "x" * 497 + "..."
    assert parameters["dataset.other"] == "y" * 500


def test_final_metrics_have_their_contract_names_and_the_rest_a_prefix():
    metrics = contents.metrics(make_record(test_error=0.25, seconds=12.5))
    assert metrics["test_error", 0] == 0.25
    assert metrics["parameters", 0] == 369_000
    assert metrics["probe/gradient_quotient", 0] == 0.46
    assert metrics["probe/gradient_quotient data-real", 0] == 0.51
    assert metrics["timing/total_seconds", 0] == 12.5
    curve = [(step, value) for (name, step), value in metrics.items() if name == "curves/test_error"]
    assert [step for step, _ in curve] == [STEPS_PER_EPOCH * (epoch + 1) for epoch in range(EPOCHS)]
    assert curve[-1][1] == 0.25
    assert {name for name, _ in metrics if name.startswith("curves/")} == {
        f"curves/{name}" for name in ("lr", "train_loss", "train_error", "test_loss", "test_error")
    }


def layers(values, name="gradient_norm.per_layer"):
    return {"name": name, "kind": "per_layer", "values": values, "unit": "", "conditions": {}}


def depth(x, y):
    return {"name": "signal", "kind": "curve", "x": x, "y": y, "over": "depth", "unit": "", "conditions": {}}


def measured(*probes):
    metrics = contents.metrics(replace(make_record(), probes=list(probes)))
    return {at: value for at, value in metrics.items() if at[0].startswith(("probe/", "layers/"))}


def test_a_value_for_each_layer_is_a_metric_of_each_layer():
    probe = layers({"stem.weight": 1.5, "groups[0]": 2, "stem.bias": None})
    assert measured(probe) == {("layers/gradient_norm/stem.weight", 0): 1.5, ("layers/gradient_norm/groups 0", 0): 2.0}
    assert measured(layers({"a": 1.0}, "mine")) == {("layers/mine/a", 0): 1.0}


def test_of_very_many_layers_some_are_shown_from_the_whole_depth():
    probe = layers({f"layer{i}": float(i) for i in range(1000)})
    shown = list(measured(probe).values())
    assert 100 <= len(shown) <= 200
    assert shown == sorted(shown)
    assert shown[0] == 0
    assert shown[-1] >= 990


@pytest.mark.parametrize(
    ("x", "steps"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([8, 4, 2], [8, 4, 2]),
        ([1.0, 10.0, 100.0], [1, 10, 100]),
        ([0.1, 0.2, 0.3], [0, 1, 2]),  # places that are no integers are counted
        ([1, 1, 2], [0, 1, 2]),  # so are places that stand twice, since a step has one value
        ([1, None, 2], [0, 1, 2]),
    ],
)
def test_a_curve_is_a_metric_over_its_places(x, steps):
    expected = dict(zip(steps, (0.5, 0.25, 0.125), strict=True))
    found = measured(depth(x, [0.5, 0.25, 0.125]))
    assert found == {("probe/signal", step): value for step, value in expected.items()}
    assert [step for _, step in found] == sorted(steps)
    assert ("probe/signal", steps[1]) not in measured(depth(x, [0.5, None, 0.125]))


def test_a_curve_has_one_value_per_step_in_increasing_order_whatever_the_order_of_the_history():
    record = make_record()
    # The entry of a step and the entry of an epoch can fall on the same step; the later one counts.
    history = [*reversed(record.history), {**record.history[3], "train_loss": 7.0}]
    metrics = contents.metrics(replace(record, history=history))
    steps = [step for name, step in metrics if name == "curves/train_loss"]
    assert steps == sorted(set(steps))
    assert len(steps) == EPOCHS
    assert metrics["curves/train_loss", record.history[3]["step"]] == 7.0


def test_non_finite_missing_and_boolean_values_are_no_metrics():
    record = make_record(status="diverged")
    entry = {"step": 1, "epoch": 1, "train_loss": math.inf, "test_loss": math.nan, "lr": None}
    probes = [scalar("gradient_norm", -math.inf, {})]
    record = replace(record, metrics={**record.metrics, "odd": True}, history=[entry], probes=probes)
    metrics = contents.metrics(record)
    assert all(math.isfinite(value) for value in metrics.values())
    assert {name for name, _ in metrics if not name.startswith("timing/")} == {
        "first_epoch_accuracy",
        "best_test_accuracy",
        "diverged_at_step",
        "steps",
        "parameters",
    }
    assert metrics["diverged_at_step", 0] == 30


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("test_error", "test_error"),
        ("probe/gradient_quotient[data=real]", "probe/gradient_quotient data-real"),
        ("gradient_quotient[data=real, eps=1e-06]", "gradient_quotient data-real eps-1e-06"),
        ("a|b:β", "a-b--"),
    ],
)
def test_names_are_mapped_to_what_mlflow_allows_on_every_system(name, clean):
    assert contents.clean_name(name) == clean
    assert re.fullmatch(r"[/\w.\- ]*", clean, flags=re.ASCII)


def test_the_digest_is_that_of_the_numbers_and_not_of_the_order_of_keys_or_of_durations():
    record = make_record()
    reordered = replace(record, metrics=dict(reversed(record.metrics.items())))
    assert contents.record_digest(record) == contents.record_digest(reordered)
    assert contents.record_digest(record) == contents.record_digest(make_record(seconds=12.6))
    assert contents.record_digest(record) != contents.record_digest(replace(record, status="failed"))
    assert contents.record_digest(record) != contents.record_digest(replace(record, metrics={"test_error": 0.5}))
