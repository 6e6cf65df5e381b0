"""From a suite to its trials: what is crossed, and in which order."""

import itertools
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import initbench
from initbench.data.load import describe_dataset
from initbench.inputs import Inputs
from initbench.registry import Initializer
from initbench.suite.document import Document, parse
from initbench.suite.load import suite_of
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.training.recipe import Recipe
from suites import ids, plan_of, planned, the_trial

# --- crossing


def test_every_list_is_crossed_in_the_order_of_the_file():
    result = planned(
        architectures=[{"name": "mlp", "width": [8, 4], "depth": [2, 3]}, "plain"],
        initializers=["xavier", {"name": "orthogonal", "gain": [1, 2]}],
        dataset={"name": "digits", "train_size": [100, 200]},
        recipe={"lr": [0.1, 0.01]},
        seeds=[5, 3],
    )
    got = [
        (
            t.seed,
            t.dataset.arguments["train_size"],
            t.architecture.name,
            t.architecture.arguments["width"],
            t.architecture.arguments["depth"],
            t.recipe.lr,
            t.initializer.name,
            t.initializer.arguments["gain"],
        )
        for t in result.trials
    ]
    architectures = [("mlp", 8, 2), ("mlp", 8, 3), ("mlp", 4, 2), ("mlp", 4, 3), ("plain", 10, 28)]
    initializers = [("xavier", 1.0), ("orthogonal", 1.0), ("orthogonal", 2.0)]
    want = [
        (seed, size, *architecture, lr, *initializer)
        for seed, size, architecture, lr, initializer in itertools.product(
            [5, 3], [100, 200], architectures, [0.1, 0.01], initializers
        )
    ]
    assert got == want
    assert len(set(ids(result))) == len(want) == 120


def test_a_spec_holds_every_default():
    trial = the_trial(initializers=["metainit"], probes=["gradient_norm"], seeds=[7])
    assert trial == TrialSpec(
        suite="s",
        architecture=ComponentSpec(
            name="mlp",
            arguments={"depth": 3, "width": 8, "norm": "none", "activation": "relu", "dropout": 0.0}
            | {"widths": [], "bias": True},
        ),
        scheme="standard",
        initializer=ComponentSpec(
            name="metainit",
            arguments={
                "base": {
                    "name": "delta_orthogonal",
                    "arguments": {"gain": 1.0, "embedding_std": 0.02},
                    "version": 1,
                    "source": None,
                },
                "steps": 500,
                "lr": 0.1,
                "momentum": 0.9,
                "eps": 1e-5,
                "plateau_window": None,
                "plateau_tolerance": 0.05,
                "data": "random",
                "optimizer": "signsgd",
                "norm": "l1",
                "method": "exact",
                "mode": "eval",
                "batch_size": 32,
                "zeros": "refuse",
                "micro_batch_size": None,
                "input_size": None,
                "parametrization": "norm",
                "clip": None,
            },
            version=3,
        ),
        dataset=trial.dataset,
        recipe=Recipe(),
        probes=(ComponentSpec(name="gradient_norm", arguments=trial.probes[0].arguments),),
        seed=7,
    )
    assert trial.dataset == DatasetSpec(
        name="digits",
        arguments={"train_size": None, "image_size": None},
        task="classification",
        inputs=Inputs((1, 8, 8)),
        outputs=10,
        content=describe_dataset("digits", {}).content,
    )


@pytest.mark.parametrize(
    ("recipe", "values"),
    [
        ({"optimizer": "adam", "betas": [0.8, 0.9]}, [(0.8, 0.9)]),
        ({"optimizer": "adam", "betas": [[0.8, 0.9], [0.9, 0.999]]}, [(0.8, 0.9), (0.9, 0.999)]),
        ({"schedule": "step", "milestones": [1, 2, 3]}, [(1, 2, 3)]),
        ({"schedule": "step", "milestones": [[1, 2], [3]]}, [(1, 2), (3,)]),
        ({"milestones": []}, [()]),
    ],
)
def test_a_list_of_a_list_typed_field_is_one_value(recipe, values):
    trials = planned(recipe=recipe).trials
    assert [getattr(t.recipe, [*recipe][-1]) for t in trials] == values


def test_a_list_of_a_list_typed_argument_is_one_value():
    @initbench.register_initializer("test_plan_lists")
    def factory(scales: tuple[float, ...] = (1.0,), names: list[str] | None = None, gain: float = 1):
        return lambda model, context: None

    entry = {"name": "test_plan_lists", "scales": [1, 2], "names": ["a", "b"], "gain": [1, 2]}
    trials = planned(initializers=[entry]).trials
    assert [t.initializer.arguments for t in trials] == [
        {"scales": [1.0, 2.0], "names": ["a", "b"], "gain": gain} for gain in (1.0, 2.0)
    ]
    crossed = planned(initializers=[entry | {"scales": [[1], [2, 3]], "gain": 1}]).trials
    assert [t.initializer.arguments["scales"] for t in crossed] == [[1.0], [2.0, 3.0]]
    # What a worker reads from JSON is the same trial.
    assert TrialSpec.model_validate_json(crossed[1].model_dump_json()).id == crossed[1].id


def test_an_initializer_that_is_an_argument_is_crossed_by_name_and_by_argument():
    bases = ["xavier", {"name": "delta_orthogonal", "gain": [1, 2]}, None]
    trials = planned(initializers=[{"name": "metainit", "base": bases, "steps": [1, 2]}]).trials
    got = [(t.initializer.arguments["steps"], t.initializer.arguments["base"]) for t in trials]
    by_steps = {
        steps: [base and (base["name"], base["arguments"]["gain"]) for s, base in got if s == steps] for steps in (1, 2)
    }
    each = [("xavier", 1.0), ("delta_orthogonal", 1.0), ("delta_orthogonal", 2.0), None]
    assert by_steps == {1: each, 2: each}


def test_any_argument_that_is_an_initializer_is_crossed():
    """The core knows them by their type: a plug-in may have two, of any name."""

    @initbench.register_initializer("test_plan_two")
    def factory(first: Initializer = Initializer("xavier"), second: Initializer | None = None):
        return lambda model, context: None

    entry = {"name": "test_plan_two", "first": {"name": "kaiming", "mode": ["fan_in", "fan_out"]}, "second": "zero"}
    trials = planned(initializers=["test_plan_two", entry]).trials
    got = [(t.initializer.arguments["first"], t.initializer.arguments["second"]) for t in trials]
    assert [(a["name"], a["arguments"].get("mode"), b and b["name"]) for a, b in got] == [
        ("xavier", None, None),
        ("kaiming", "fan_in", "zero"),
        ("kaiming", "fan_out", "zero"),
    ]


def test_batch_sizes_of_a_tuner_are_crossed():
    trials = planned(initializers=[{"name": "metainit", "batch_size": [8, 16]}]).trials
    assert [t.initializer.arguments["batch_size"] for t in trials] == [8, 16]


@pytest.mark.parametrize(("seeds", "want"), [(3, [0, 1, 2]), ([4, 2], [4, 2]), (1, [0])])
def test_seeds(seeds, want):
    assert [t.seed for t in planned(seeds=seeds).trials] == want


def test_a_date_is_a_text():
    text = "name: 2026-11-21\ndataset: digits\narchitectures: [mlp]\ninitializers: [xavier]\nprobes: []\n"
    assert suite_of(parse(text, "suite.yaml")).name == "2026-11-21"


RICH = {
    "name": "rich",
    "dataset": {"name": "digits", "train_size": [100, 200], "image_size": 8},
    "architectures": [{"name": "mlp", "width": [8, 4], "depth": 2}, {"name": "mlp", "depth": 4, "norm": "batch"}],
    "initializers": [
        "kaiming",
        {"name": "metainit", "base": {"name": "kaiming", "mode": "fan_out", "gain": 2}, "steps": 2, "batch_size": 4},
    ],
    "recipe": {"epochs": 1, "batch_size": [16, 32], "mixup": 1},
    "rules": [{"when": {"depth": 4, "initializer": "kaiming"}, "recipe": {"clip_norm": 1, "lr": 0.3}}],
    "exclude": [{"depth": 4, "initializer": "metainit"}],
    "probes": [{"name": "gradient_quotient", "eps": 1e-4, "batches": 1}],
    "seeds": 2,
}


def shuffled(value, order):
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_the_order_of_keys_changes_no_id(seed):
    want = plan_of(suite_of(Document("suite.yaml", "", RICH)))
    assert len(want.trials) == 40
    # JSON is YAML: the text goes through the parser.
    text = json.dumps(shuffled(RICH, random.Random(seed)), indent=1)  # noqa: S311  # no secret
    got = plan_of(suite_of(parse(text, "suite.yaml")))
    # The order of crossing follows the order of the keys; the set of trials does not.
    assert {t.id for t in got.trials} == {t.id for t in want.trials}
    assert got.excluded == want.excluded == 8
