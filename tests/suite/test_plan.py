"""From a suite to its trials: what is crossed, and what a trial's id is made of."""

import copy
import itertools
import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import initbench
from initbench import registry
from initbench.suite.document import Document, parse
from initbench.suite.load import suite_of
from initbench.suite.plan import plan
from initbench.suite.spec import ComponentSpec, TrialSpec
from initbench.training.recipe import Recipe
from suites import ids, planned, the_trial

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
            arguments={"depth": 3, "width": 8, "norm": "none", "activation": "relu", "dropout": 0.0},
        ),
        scheme="standard",
        initializer=ComponentSpec(
            name="metainit",
            arguments={
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
            },
            version=2,
            base=ComponentSpec(name="delta_orthogonal", arguments={"gain": 1.0}),
            batch_size=32,
        ),
        dataset=ComponentSpec(name="digits", arguments={"train_size": None, "image_size": None}),
        recipe=Recipe(),
        probes=(ComponentSpec(name="gradient_norm", arguments=trial.probes[0].arguments),),
        seed=7,
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
    def factory(scales: tuple[float, ...] = (1.0,), names: list[str] | None = None, gain: float = 1):  # noqa: ARG001
        return lambda model, context: None  # noqa: ARG005

    entry = {"name": "test_plan_lists", "scales": [1, 2], "names": ["a", "b"], "gain": [1, 2]}
    trials = planned(initializers=[entry]).trials
    assert [t.initializer.arguments for t in trials] == [
        {"scales": (1.0, 2.0), "names": ["a", "b"], "gain": gain} for gain in (1.0, 2.0)
    ]
    crossed = planned(initializers=[entry | {"scales": [[1], [2, 3]], "gain": 1}]).trials
    assert [t.initializer.arguments["scales"] for t in crossed] == [(1.0,), (2.0, 3.0)]
    # What a worker reads from JSON, where tuples are lists, is the same trial.
    assert TrialSpec.model_validate_json(crossed[1].model_dump_json()).id == crossed[1].id


def test_bases_are_crossed_by_name_and_by_argument():
    bases = ["xavier", {"name": "delta_orthogonal", "gain": [1, 2]}, None]
    trials = planned(initializers=[{"name": "metainit", "base": bases, "steps": [1, 2]}]).trials
    got = [(t.initializer.arguments["steps"], t.initializer.base) for t in trials]
    by_steps = {
        steps: [base and (base.name, base.arguments["gain"]) for s, base in got if s == steps] for steps in (1, 2)
    }
    each = [("xavier", 1.0), ("delta_orthogonal", 1.0), ("delta_orthogonal", 2.0), None]
    assert by_steps == {1: each, 2: each}


def test_batch_sizes_of_a_tuner_are_crossed():
    trials = planned(initializers=[{"name": "metainit", "batch_size": [8, 16]}]).trials
    assert [t.initializer.batch_size for t in trials] == [8, 16]


@pytest.mark.parametrize(("seeds", "want"), [(3, [0, 1, 2]), ([4, 2], [4, 2]), (1, [0])])
def test_seeds(seeds, want):
    assert [t.seed for t in planned(seeds=seeds).trials] == want


def test_a_date_is_a_text():
    text = "name: 2026-11-21\ndataset: digits\narchitectures: [mlp]\ninitializers: [xavier]\nprobes: []\n"
    assert suite_of(parse(text, "suite.yaml")).name == "2026-11-21"


# --- identity


def test_golden_id():
    """An id is how a resumed run finds its results: these may change only on purpose, with a line in the changelog."""
    spec = TrialSpec(
        suite="any",
        architecture=ComponentSpec(name="plain", arguments={"depth": 28, "width": 1, "norm": "none"}),
        initializer=ComponentSpec(
            name="metainit",
            arguments={"steps": 100},
            base=ComponentSpec(name="delta_orthogonal", arguments={"gain": 1.0}),
            batch_size=32,
        ),
        dataset=ComponentSpec(name="digits"),
        recipe=Recipe(),
        probes=(ComponentSpec(name="gradient_quotient"),),
        seed=0,
    )
    assert spec.id == "a3c2c26a5c35b3767a00ac519550a6acd3ae1e4a7355b061b35f43d3fcc83773"
    assert spec.cell == "cefc042a6dc3f0fa2f98bbab629fe3a905e034c155dcc75a328e10b711aef244"


SAME = [
    {"initializers": [{"name": "xavier", "gain": 1}]},
    {"initializers": [{"gain": 1.0, "name": "xavier", "distribution": "uniform"}]},
    {"architectures": [{"width": 8, "depth": 3, "name": "mlp"}]},
    {"architectures": [{"name": "mlp", "width": 8, "scheme": "standard"}]},
    {"dataset": {"name": "digits", "image_size": None}},
    {"recipe": {"lr": 0.1, "epochs": 10}},
    {"recipe": {"weight_decay": 0}},
    {"name": "other", "description": "anything", "resources": {"cpus": 4, "gpus": 0.5}},
    {"rules": [{"when": {"architecture": "mlp"}, "recipe": {"lr": 0.1}}]},
    {"seeds": [0]},
]


@pytest.mark.parametrize("keys", SAME, ids=str)
def test_what_does_not_change_the_numbers_does_not_change_the_id(keys):
    assert the_trial(**keys).id == the_trial().id
    assert the_trial(**keys).cell == the_trial().cell


OTHER_RECIPES = {
    "epochs": 11,
    "batch_size": 64,
    "optimizer": "adam",
    "lr": 0.2,
    "momentum": 0.8,
    "nesterov": True,
    "weight_decay": 1e-4,
    "schedule": "constant",
    "clip_norm": 1.0,
    "crop": 4,
    "flip": True,
    "warmup_epochs": 0.5,
    "cutout": 8,
    "mixup": 1.0,
    "label_smoothing": 0.1,
    "precision": "bf16",
    "activation_checkpointing": True,
    "channels_last": True,
    "history_every": 5,
    "threads": 2,
}


def test_everything_that_changes_the_numbers_changes_the_id():
    assert {*OTHER_RECIPES, "milestones", "betas", "step_factor"} == set(Recipe.model_fields)
    with_blocks = {"architectures": [{"name": "plain", "depth": 10, "width": 1}]}
    variants = [with_blocks | {"recipe": {name: value}} for name, value in OTHER_RECIPES.items()]
    variants += [
        {},
        with_blocks,
        {"recipe": {"schedule": "step", "milestones": [3]}},
        {"recipe": {"schedule": "step", "milestones": [4]}},
        {"recipe": {"schedule": "step", "milestones": [4], "step_factor": 0.2}},
        {"recipe": {"optimizer": "adam", "betas": [0.8, 0.9]}},
        {"recipe": {"optimizer": "signsgd"}},
        {"recipe": {"optimizer": "signsgd", "momentum": 0.8}},
        {"seeds": [1]},
        {"dataset": "fashion_mnist"},
        {"dataset": {"name": "digits", "train_size": 100}},
        {"architectures": ["plain"]},
        {"architectures": [{"name": "mlp", "width": 9}]},
        {"initializers": ["orthogonal"]},
        {"initializers": [{"name": "xavier", "gain": 1.5}]},
        {"initializers": ["metainit"]},
        {"initializers": [{"name": "metainit", "base": "xavier"}]},
        {"initializers": [{"name": "metainit", "base": {"name": "xavier", "gain": 1.5}}]},
        {"initializers": [{"name": "metainit", "base": None}]},
        {"initializers": [{"name": "metainit", "batch_size": 64}]},
        {"probes": ["gradient_norm"]},
        {"probes": ["gradient_quotient"]},
        {"probes": [{"name": "gradient_quotient", "eps": 1e-4}]},
        {"probes": ["gradient_norm", "gradient_quotient"]},
    ]
    assert len({the_trial(**keys).id for keys in variants}) == len(variants)


def test_a_cell_is_a_trial_without_its_seed_and_probes():
    assert the_trial(probes=["gradient_norm"]).cell == the_trial().cell
    trials = planned(seeds=3, recipe={"lr": [0.1, 0.2]}).trials
    assert len({t.id for t in trials}) == 6
    assert len({t.cell for t in trials}) == 2
    assert len({t.cell for t in trials if t.recipe.lr == 0.1}) == 1


@pytest.mark.parametrize(
    ("kind", "section", "other"),
    [
        (registry.INITIALIZERS, "initializers", {}),
        (registry.INITIALIZERS, "initializers", {"source": "0" * 64}),
        (registry.ARCHITECTURES, "architectures", {}),
    ],
)
def test_version_and_source_are_part_of_the_id(kind, section, other, monkeypatch):
    name = {"initializers": "xavier", "architectures": "mlp"}[section]
    before = the_trial(**{section: [name]})
    component = copy.copy(kind.get(name))
    changes = other or {"version": component.version + 1}
    for key, value in changes.items():
        object.__setattr__(component, key, value)
    monkeypatch.setitem(kind._registered, name, component)
    after = the_trial(**{section: [name]})
    assert after.id != before.id
    assert getattr(getattr(after, section[:-1]), *changes) == next(iter(changes.values()))


def test_a_copy_with_other_values_has_another_id():
    trial = the_trial()
    identity = (trial.id, trial.cell)  # computed before the copy is made
    other = trial.model_copy(update={"seed": 1})
    assert other.id != identity[0]
    assert other.cell == identity[1]
    assert other.model_copy(update={"seed": 0}).id == identity[0]
    assert trial.model_copy(update={"scheme": "fixup"}).cell != identity[1]


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
    want = plan(suite_of(Document("suite.yaml", "", RICH)))
    assert len(want.trials) == 40
    # JSON is YAML: the text goes through the parser.
    text = json.dumps(shuffled(RICH, random.Random(seed)), indent=1)  # noqa: S311  # no secret
    got = plan(suite_of(parse(text, "suite.yaml")))
    # The order of crossing follows the order of the keys; the set of trials does not.
    assert {t.id for t in got.trials} == {t.id for t in want.trials}
    assert got.excluded == want.excluded == 8
