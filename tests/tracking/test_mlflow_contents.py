from __future__ import annotations

import re
from dataclasses import replace

import pytest
from trials import make_record, metainit

from initbench.suite.spec import ComponentSpec
from initbench.tracking import contents


def _labels(record):
    return contents.trial_labels([record.spec])[0]


def test_tags_and_name():
    record = make_record(initializer=metainit(), seed=3)
    assert contents.run_name(record, _labels(record)) == "metainit(delta_orthogonal) · wrn[depth=28, width=1] · seed 3"
    assert contents.tags(record, _labels(record)) == {
        "initbench.kind": "trial",
        "initbench.trial_id": record.id,
        "initbench.layout": "2",
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


def test_the_name_of_a_search_has_what_it_tries_of_the_recipe_and_of_the_initializer():
    """The initializer has a learning rate of its own."""
    record = make_record(initializer=metainit())
    spec = record.spec | {"phase": "search", "recipe": record.spec["recipe"] | {"lr": 0.003}}
    for keys, tried in ((["recipe.lr"], "lr=0.003"), (["recipe.lr", "initializer.lr"], "lr=0.003, lr=0.1")):
        search = replace(record, spec=spec | {"tuned": keys})
        assert contents.run_name(search, _labels(search)).endswith(f" · seed 0 · search {tried}")


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


def test_what_was_run_is_a_parameter_of_every_run_whatever_became_of_it():
    for status in ("finished", "diverged", "failed"):
        parameters = contents.parameters(make_record(initializer=metainit(), seed=3, status=status))
        # A failed trial may not have come to know its task.
        of_training = {"task": "classification", "metric": "test_error"}
        assert {name: text for name, text in parameters.items() if "." not in name} == {
            "initializer": "metainit[steps=100](delta_orthogonal)",
            "architecture": "wrn[depth=28, width=1, norm=none, activation=beta_swish]",
            "scheme": "standard",
            "dataset": "digits[image_size=8]",
            "seed": "3",
            "phase": "final",
        } | ({} if status == "failed" else of_training)


def test_the_parameter_of_a_component_tells_variants_apart_and_does_not_depend_on_the_suite():
    """MLflow never changes a parameter, and the label of a trial changes when its suite grows."""

    def orthogonal(gain):
        return ComponentSpec(name="delta_orthogonal", arguments={"gain": gain})

    records = [make_record(initializer=orthogonal(gain)) for gain in (1.0, 2.0)]
    names = [contents.parameters(record)["initializer"] for record in records]
    assert names == ["delta_orthogonal", "delta_orthogonal[gain=2]"]
    assert [_labels(record)["initializer"] for record in records] == ["delta_orthogonal", "delta_orthogonal"]
    together = contents.trial_labels([record.spec for record in records])
    assert [label["initializer"] for label in together] == ["delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]"]


def test_the_parameter_of_a_tuner_names_what_it_starts_from_with_its_arguments():
    base = {"name": "delta_orthogonal", "arguments": {"gain": 2.0}, "version": 1, "source": None}
    initializer = ComponentSpec(name="metainit", arguments=metainit(500).arguments | {"base": base})
    assert contents.parameters(make_record(initializer=initializer))["initializer"] == (
        "metainit(delta_orthogonal[gain=2])"  # 500 steps are the default
    )


def test_what_a_rule_sets_and_the_scheme_stand_in_the_parameter_as_in_the_label():
    record = make_record(initializer=ComponentSpec(name="delta_orthogonal", arguments={"gain": 2.0}))
    spec = record.spec | {"set_by_rules": ["initializer.gain", "architecture.norm"], "scheme": "weight_norm"}
    parameters = contents.parameters(replace(record, spec=spec))
    assert parameters["initializer"] == "delta_orthogonal"
    assert parameters["architecture"] == "wrn[depth=28, width=1, activation=beta_swish] + weight_norm"
    assert (parameters["scheme"], parameters["initializer.gain"]) == ("weight_norm", "2.0")


def test_what_is_measured_is_no_parameter():
    parameters = contents.parameters(make_record())
    assert "probe.gradient_quotient.eps" in parameters
    assert [name for name in parameters if "saturated" in name] == []


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
