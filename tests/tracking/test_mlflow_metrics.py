"""What MLflow draws: names, steps and values of the metrics of a run."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from itertools import pairwise

import pytest
from trials import EPOCHS, STEPS_PER_EPOCH, make_record, metainit, scalar

from initbench.tracking.contents import layer_table, metrics


def test_final_metrics_have_their_contract_names_and_the_rest_a_prefix():
    values = metrics(make_record(test_error=0.25, seconds=12.5))
    assert values["test_error", 0] == 0.25
    assert values["parameters", 0] == 369_000
    assert values["probe/gradient_quotient", 0] == 0.46
    assert values["probe/gradient_quotient data-real", 0] == 0.51
    assert values["timing/total_seconds", 0] == 12.5
    curve = [(step, value) for (name, step), value in values.items() if name == "curves/test_error"]
    assert [step for step, _ in curve] == [STEPS_PER_EPOCH * (epoch + 1) for epoch in range(EPOCHS)]
    assert curve[-1][1] == 0.25
    assert {name for name, _ in values if name.startswith("curves/")} == {
        f"curves/{name}" for name in ("lr", "train_loss", "train_error", "test_loss", "test_error")
    }


def of_the_result(record):
    return {name: value for (name, _), value in metrics(record).items() if name in {"outcome", "diverged"}}


def test_the_outcome_has_one_name_whatever_the_task():
    assert of_the_result(make_record(test_error=0.25)) == {"outcome": 0.25, "diverged": 0}
    record = make_record()
    text = replace(record, task={"name": "language", "primary": "test_perplexity", "metrics": {}})
    text = replace(text, metrics={"test_perplexity": 12.5, "test_error": 0.25})
    assert of_the_result(text) == {"outcome": 12.5, "diverged": 0}
    assert metrics(text)["test_perplexity", 0] == 12.5


def test_a_diverged_trial_has_no_outcome_and_a_failed_one_no_result():
    assert of_the_result(make_record(status="diverged")) == {"diverged": 1}
    # What a metric was when it diverged is no outcome, even where it is finite.
    diverged = make_record(status="diverged")
    assert of_the_result(replace(diverged, metrics=diverged.metrics | {"test_error": 0.9})) == {"diverged": 1}
    assert of_the_result(make_record(status="failed")) == {}


def test_saturated_is_a_number_of_each_probe_that_can_saturate():
    probes = [scalar("gradient_quotient", 1.0, {"saturated": True})]
    probes += [scalar("gradient_quotient[data=real]", 0.5, {"saturated": False}), scalar("gradient_norm", 0.1, {})]
    values = metrics(replace(make_record(), probes=probes))
    assert {at: value for at, value in values.items() if "saturated" in at[0]} == {
        ("probe/gradient_quotient.saturated", 0): 1.0,
        ("probe/gradient_quotient data-real.saturated", 0): 0.0,
    }


def tuned(history):
    record = replace(
        make_record(initializer=metainit()), initialization={"initializer": "metainit", "history": history}
    )
    return {at: value for at, value in metrics(record).items() if at[0].startswith("tuning/")}


def test_what_a_tuner_did_is_a_curve_of_each_of_its_numbers():
    history = [{"step": 4, "objective": 3.0, "norm": None}, {"step": 2, "objective": 5.0, "norm": 1.0}]
    assert list(tuned(history).items()) == [
        (("tuning/objective", 2), 5.0),
        (("tuning/objective", 4), 3.0),
        (("tuning/norm", 2), 1.0),
    ]
    assert tuned([{"gain[a]": 2.0}, {"gain[a]": 1.0}]) == {("tuning/gain a", 0): 2.0, ("tuning/gain a", 1): 1.0}
    assert tuned([]) == {}
    long = [step for _, step in tuned([{"step": step, "objective": 1.0} for step in range(500)])]
    assert (len(long), long[0], long[-1]) == (200, 0, 499)


def layers(values, name="gradient_norm.per_layer"):
    return {"name": name, "kind": "per_layer", "values": values, "unit": "", "conditions": {}}


def depth(x, y):
    return {"name": "signal", "kind": "curve", "x": x, "y": y, "over": "depth", "unit": "", "conditions": {}}


def measured(*probes):
    values = metrics(replace(make_record(), probes=list(probes)))
    return {at: value for at, value in values.items() if at[0].startswith(("probe/", "layers/"))}


def test_the_values_of_the_layers_are_one_curve_whose_steps_are_the_places_in_the_model():
    values = {"stem": 1.5, "bias": None, "groups[0]": 2, "a": 0.5}
    expected = {("layers/gradient_norm", 0): 1.5, ("layers/gradient_norm", 2): 2.0, ("layers/gradient_norm", 3): 0.5}
    assert measured(layers(values)) == expected  # a value that is missing leaves a gap, and moves no other
    parameters = {"stem.weight": 1.5, "stem.bias": 0.1, "head.weight": 2.0, "head.bias": 0.2}
    assert measured(layers(parameters)) == {
        ("layers/gradient_norm", 0): 1.5,
        ("layers/gradient_norm", 2): 2.0,
        ("layers/gradient_norm.others", 1): 0.1,
        ("layers/gradient_norm.others", 3): 0.2,
    }
    assert measured(layers({"b": 1.0, "a": 2.0}, "mine")) == {("layers/mine", 0): 1.0, ("layers/mine", 1): 2.0}
    on_real_data = measured(layers({"a": 1.0}, "gradient_norm[data=real].per_layer"))
    assert on_real_data == {("layers/gradient_norm data-real", 0): 1.0}


def test_a_table_says_which_layer_a_step_is():
    values = {"stem.weight": 1.5, "stem.bias": None, 'odd, "name"': 2}
    record = replace(make_record(), probes=[scalar("signal", 1.0, {}), layers(values), layers({"a": 0.5}, "mine")])
    assert list(csv.DictReader(io.StringIO(layer_table(record)))) == [
        {"metric": metric, "step": step, "layer": layer, "value": value, "unit": ""}
        for metric, step, layer, value in (
            ("layers/gradient_norm", "0", "stem.weight", "1.5"),
            ("layers/gradient_norm.others", "1", "stem.bias", ""),
            ("layers/gradient_norm.others", "2", 'odd, "name"', "2"),
            ("layers/mine", "0", "a", "0.5"),
        )
    ]
    assert layer_table(replace(record, probes=[scalar("signal", 1.0, {})])) == ""


def test_of_very_many_layers_some_are_shown_from_the_first_to_the_last():
    found = measured(layers({f"layer{i}": float(i) for i in range(1000)}))
    assert len(found) == 200
    assert all(step == value for (_, step), value in found.items())  # each at its own place
    steps = [step for _, step in found]
    assert (steps[0], steps[-1]) == (0, 999)
    assert {5, 6} >= {after - before for before, after in pairwise(steps)}
    for count in (199, 200, 201):
        assert len(measured(layers(dict.fromkeys(map(str, range(count)), 1.0)))) == min(count, 200)


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
    values = metrics(replace(record, history=history))
    steps = [step for name, step in values if name == "curves/train_loss"]
    assert steps == sorted(set(steps))
    assert len(steps) == EPOCHS
    assert values["curves/train_loss", record.history[3]["step"]] == 7.0


def test_non_finite_missing_and_boolean_values_are_no_metrics():
    record = make_record(status="diverged")
    entry = {"step": 1, "epoch": 1, "train_loss": math.inf, "test_loss": math.nan, "lr": None}
    probes = [scalar("gradient_norm", -math.inf, {})]
    record = replace(record, metrics={**record.metrics, "odd": True}, history=[entry], probes=probes)
    values = metrics(record)
    assert all(math.isfinite(value) for value in values.values())
    assert {name for name, _ in values if not name.startswith("timing/")} == {
        "first_epoch_accuracy",
        "best_test_accuracy",
        "diverged",
        "diverged_at_step",
        "steps",
        "parameters",
    }
    assert values["diverged_at_step", 0] == 30
