"""What `--set` changes: a key, or an argument in every entry that has it."""

import copy

import pytest

from initbench.errors import SuiteError
from initbench.suite.document import Document, parse
from initbench.suite.load import suite_of
from initbench.suite.overrides import override
from suites import BASE, plan_of, planned, the_trial

THREE = {
    "architectures": ["plain", {"name": "mlp", "depth": [2, 3]}, {"name": "wrn", "depth": 16, "width": 4}],
    "initializers": ["xavier", {"name": "metainit", "base": ["orthogonal", {"name": "kaiming", "mode": "fan_out"}]}],
}


def arguments(kind, name, **keys):
    return {(getattr(t, kind).name, getattr(t, kind).arguments.get(name)) for t in planned(**keys).trials}


def changed(assignment, **data):
    document = Document("s.yaml", "", data)
    override(document, assignment)
    return document.data


def test_an_argument_is_set_in_every_entry_whose_component_has_it():
    assert arguments("architecture", "width", **THREE, assignments=["architectures.width=1"]) == {
        ("plain", 1),
        ("mlp", 1),
        ("wrn", 1),
    }
    blocks = {"architectures": [*THREE["architectures"], "resnet"], "assignments": ["architectures.block=bottleneck"]}
    # Of these the residual network alone has blocks.
    assert changed("architectures.block=bottleneck", architectures=["plain", "resnet"]) == {
        "architectures": ["plain", {"name": "resnet", "block": "bottleneck"}]
    }
    assert ("resnet", "bottleneck") in arguments(
        "architecture", "block", **blocks | {"architectures": ["mlp", {"name": "resnet", "depth": 11}]}
    )


def test_a_list_is_crossed():
    assert arguments("architecture", "width", architectures=["mlp"], assignments=["architectures.width=[1, 2]"]) == {
        ("mlp", 1),
        ("mlp", 2),
    }


def test_the_scheme_is_an_argument_of_every_architecture():
    assert changed("architectures.scheme=fixup", architectures=["wrn", {"name": "timm/resnet18"}]) == {
        "architectures": [{"name": "wrn", "scheme": "fixup"}, {"name": "timm/resnet18", "scheme": "fixup"}]
    }


def test_an_entry_is_named():
    assert changed(
        "initializers.metainit.steps=50", initializers=["lsuv", "metainit", {"name": "metainit", "lr": 1}]
    ) == {"initializers": ["lsuv", {"name": "metainit", "steps": 50}, {"name": "metainit", "lr": 1, "steps": 50}]}
    assert changed("architectures.timm/resnet18.drop_rate=0.5", architectures=["timm/resnet18", "timm/resnet34"]) == {
        "architectures": [{"name": "timm/resnet18", "drop_rate": 0.5}, "timm/resnet34"]
    }


def test_an_argument_of_an_argument():
    entry = {"name": "metainit", "base": ["orthogonal", {"name": "kaiming", "mode": "fan_out"}, "zero"]}
    got = changed("initializers.base.gain=2", initializers=["kaiming", entry, "gradinit"])
    assert got["initializers"] == [
        "kaiming",
        {
            "name": "metainit",
            "base": [
                {"name": "orthogonal", "gain": 2},
                {"name": "kaiming", "mode": "fan_out", "gain": 2},
                "zero",  # has no gain
            ],
        },
        # What is not said is the default, with its arguments.
        {"name": "gradinit", "base": {"name": "kaiming", "mode": "fan_out", "gain": 2}},
    ]


def test_a_condition_on_an_argument_of_what_was_left_out_is_no_mistake():
    """But a key that no initializer has is one."""
    base = {"name": "gaussian", "std": [0.1, 0.2]}
    two = ["kaiming", {"name": "metainit", "steps": [1, 2], "base": base}]
    for key, value in (("initializer.steps", 2), ("initializer.base.std", 0.1), ("initializer.stpes", 2)):
        document = Document("s.yaml", "", copy.deepcopy(BASE | {"initializers": two, "exclude": [{key: value}]}))
        override(document, "initializers=[kaiming]")
        if key != "initializer.stpes":
            assert {trial.initializer.name for trial in plan_of(suite_of(document)).trials} == {"kaiming"}
        else:
            with pytest.raises(SuiteError, match="is an unknown key"):
                plan_of(suite_of(document))
    with pytest.raises(SuiteError, match="is an unknown key"):
        planned(initializers=two, assignments=["initializers=[kaiming]"], only=["initializer.steps=2"])


def test_an_argument_of_one_entry_leaves_what_an_option_has_given_to_all():
    document = Document("s.yaml", "", copy.deepcopy(BASE | {"initializers": ["metainit", "lsuv"]}))
    override(document, "initializers.base={name: orthogonal}")
    override(document, "initializers.metainit.base.gain=2")
    bases = [entry["base"] for entry in document.data["initializers"]]
    assert bases == [{"name": "orthogonal", "gain": 2}, {"name": "orthogonal"}]


def test_every_dataset_and_probe():
    assert changed("dataset.image_size=8", dataset=["digits", {"name": "cifar10"}]) == {
        "dataset": [{"name": "digits", "image_size": 8}, {"name": "cifar10", "image_size": 8}]
    }
    assert changed("dataset.image_size=8", dataset="digits") == {"dataset": {"name": "digits", "image_size": 8}}
    assert changed("probes.batches=1", probes=["parameter_norm", "gradient_norm"]) == {
        "probes": ["parameter_norm", {"name": "gradient_norm", "batches": 1}]
    }


def test_the_default_probes_are_set_too():
    data = {key: value for key, value in BASE.items() if key != "probes"}
    document = Document("s.yaml", "", copy.deepcopy(data))
    override(document, "probes.batches=3")
    trial = plan_of(suite_of(document)).trials[0]
    assert [(probe.name, probe.arguments["batches"]) for probe in trial.probes] == [
        ("gradient_quotient", 3),
        ("gradient_norm", 3),
    ]


@pytest.mark.parametrize(
    ("data", "assignment", "hint"),
    [
        ({}, "probes.batchez=1", " (did you mean 'batches'?)"),
        ({"probes": []}, "probes.batches=1", ""),
        ({"initializers": ["pytorch_default"]}, "initializers.gain=1", " (valid: pytorch_default)"),
    ],
    ids=["default probes", "no probe", "no arguments"],
)
def test_an_override_that_sets_nothing_is_refused(data, assignment, hint):
    section, _, name = assignment.partition("=")[0].partition(".")
    document = Document("s.yaml", "", copy.deepcopy(data))
    with pytest.raises(SuiteError) as refused:
        override(document, assignment)
    assert document.data == data
    assert refused.value.problem == f"nothing in {section} has the name or an argument {name!r}{hint}"


def test_what_is_set_is_told_from_what_the_file_says():
    """An error about the changed argument names the option, one about its neighbours the file and line."""
    document = parse("architectures:\n- {name: plain, depth: 16, width: 4}\ndataset: digits\n", "s.yaml")
    override(document, "architectures.width=1")
    override(document, "dataset.image_size=9")
    width, depth = (document.error(("architectures", 0, name), "m") for name in ("width", "depth"))
    assert (width.where, width.line, width.key) == ("--set architectures.width=1", None, "architectures[0].width")
    assert (depth.where, depth.line, depth.key) == ("s.yaml", 2, "architectures[0].depth")
    assert document.error(("dataset",), "m").line == 3


def test_an_override_takes_the_place_of_the_lines_below_it():
    document = parse("recipe:\n  lr: 0.1\n", "s.yaml")
    override(document, "recipe={lr: -1}")
    assert document.error(("recipe", "lr"), "m").where == "--set recipe={lr: -1}"
    override(document, "seeds=0", "--seeds 0")
    assert document.error(("seeds",), "m").where == "--seeds 0"
    assert document.data == {"recipe": {"lr": -1}, "seeds": 0}


def test_an_override_leaves_other_lines():
    document = parse("recipe:\n  lr: 0.1\n  epochs: 3\n", "s.yaml")
    override(document, "recipe.epochs=1")
    errors = [document.error(key, "m") for key in (("recipe", "lr"), ("recipe", "epochs"), ("recipe",))]
    assert [(e.where, e.line) for e in errors] == [("s.yaml", 2), ("--set recipe.epochs=1", None), ("s.yaml", 1)]


@pytest.mark.parametrize("assignment", ["a.b.c=1", "a", "x.y=[1", "initializers.metainit.step=1", "initializers.qq=1"])
def test_a_refused_override_changes_nothing(assignment):
    data = {"a": {"b": 1}, "initializers": ["metainit"]}
    document = Document("s.yaml", "", data)
    with pytest.raises(SuiteError) as refused:
        override(document, assignment)
    assert refused.value.where == f"--set {assignment}"
    assert document.data == {"a": {"b": 1}, "initializers": ["metainit"]}


def test_what_is_malformed_is_said_where_it_stands():
    """Not that it has no such argument: the file is wrong."""
    for key, value in (("architectures", "plain"), ("architectures", [3]), ("architectures", None)):
        with pytest.raises(SuiteError) as refused:
            planned(**{key: value}, assignments=["architectures.width=1"])
        assert refused.value.key.startswith("architectures")
    with pytest.raises(SuiteError) as refused:
        the_trial(architectures=["plian"], assignments=["architectures.width=1"])
    assert refused.value.key == "architectures[0]"


def test_a_condition_on_what_was_set_in_entries_is_no_mistake():
    rules = [
        {"when": {"norm": "none"}, "recipe": {"lr": 0.5}},
        {"when": {"architecture.width": 8}, "recipe": {"lr": 0.5}},
        {"when": {"initializer.gain": 2}, "recipe": {"lr": 0.5}},
    ]
    trial = the_trial(
        architectures=[{"name": "mlp", "norm": "none", "width": 8}],
        initializers=[{"name": "xavier", "gain": 2}],
        rules=rules,
        assignments=["architectures.norm=batch", "architectures.width=4", "initializers.gain=1"],
    )
    assert trial.set_by_rules == ()


def test_a_key_that_is_tuned_has_a_dot_of_its_own():
    tune = {"recipe.lr": [0.1, 1.0], "tries": 2}
    assert changed("tune.recipe.lr=[0.01, 0.1]", tune=tune) == {"tune": {"recipe.lr": [0.01, 0.1], "tries": 2}}
    assert changed("tune.search=once", tune={"recipe.lr": [0.1, 1.0]})["tune"]["search"] == "once"
    trials = planned(tune=tune, assignments=["tune.recipe.lr=[0.02, 0.03]"]).trials
    assert {trial.recipe.lr for trial in trials if trial.phase == "search"} == {0.02, 0.03}
