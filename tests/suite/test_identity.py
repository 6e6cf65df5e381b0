"""What a trial's id is made of: what changes the numbers, and nothing else."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import Field

import initbench
from initbench import registry
from initbench.data.load import describe_dataset
from initbench.inputs import Inputs
from initbench.registry import DATASETS, INITIALIZERS, PROBES, TASKS, Description, Initializer
from initbench.suite import spec
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.training.recipe import Recipe
from suites import planned, the_trial

RICH = {
    "dataset": {"name": "digits", "train_size": 100},
    "architectures": [{"name": "plain", "depth": 10, "width": 1}],
    "initializers": [{"name": "metainit", "base": {"name": "kaiming", "mode": "fan_out"}, "steps": 2}],
    "recipe": {"epochs": 1, "lr": 0.2},
    "probes": [{"name": "gradient_quotient", "eps": 1e-4}, "gradient_norm"],
    "seeds": [3],
}


def test_golden_identity():
    """An id is how a resumed run finds its results: this may change only on purpose, with a line in the changelog."""
    trial = the_trial(**RICH)
    content = describe_dataset("digits", {}).content
    assert trial.identity == {
        "architecture": {"name": "plain", "arguments": {"depth": 10, "width": 1}, "version": 1},
        "scheme": "standard",
        "initializer": {
            "name": "metainit",
            "arguments": {
                "base": {"name": "kaiming", "arguments": {"mode": "fan_out"}, "version": 1},
                "steps": 2,
            },
            "version": 3,
        },
        "dataset": {"name": "digits", "arguments": {"train_size": 100}, "version": 1}
        | ({"content": content} if content else {}),
        "task": {"name": "classification", "version": 1},
        "recipe": {"epochs": 1, "lr": 0.2, "version": 1},
        "probes": [
            {"name": "gradient_quotient", "arguments": {"eps": 1e-4}, "version": 3},
            {"name": "gradient_norm", "arguments": {}, "version": 1},
        ],
        "seed": 3,
        "phase": "final",
    }


def test_golden_id():
    """As above, of what makes a digest of it."""
    trial = TrialSpec(
        suite="any",
        architecture=ComponentSpec(name="plain", arguments={"depth": 10, "width": 1, "norm": "none"}),
        initializer=ComponentSpec(name="xavier", arguments={"gain": 2.0}),
        dataset=DatasetSpec(name="digits", inputs=Inputs((1, 8, 8)), outputs=10, content="sha256:0"),
        recipe=Recipe(),
        probes=(ComponentSpec(name="gradient_quotient", version=2),),
        seed=0,
    )
    assert trial.id == "2876bfc35ee61b35a844d27f13cdda8a925adf69d3bab59b8ccfa4610bc28b57"
    assert trial.cell == "59b5fd42bc9464e3069797578dfeb4461f1040e6867946d27b24fc480750d3d1"


# --- what changes no id


SAME = [
    {"initializers": [{"name": "xavier", "gain": 1}]},
    {"initializers": [{"gain": 1.0, "name": "xavier", "distribution": "uniform"}]},
    {"architectures": [{"width": 8, "depth": 3, "name": "mlp"}]},
    {"architectures": [{"name": "mlp", "width": 8, "scheme": "standard"}]},
    {"dataset": {"name": "digits", "image_size": None}},
    {"dataset": ["digits"]},
    {"recipe": {"lr": 0.1, "epochs": 10}},
    {"recipe": {"weight_decay": 0}},
    {"name": "other", "description": "anything", "resources": {"cpus": 4, "gpus": 0.5}},
    {"rules": [{"when": {"architecture": "mlp"}, "recipe": {"lr": 0.1}}]},
    {"compare": ["initializer", "recipe.lr"]},
    {"seeds": [0]},
]


@pytest.mark.parametrize("keys", SAME, ids=str)
def test_what_does_not_change_the_numbers_does_not_change_the_id(keys):
    assert the_trial(**keys).id == the_trial().id
    assert the_trial(**keys).cell == the_trial().cell


@pytest.fixture
def grown(monkeypatch):
    """Every component of the library with one more argument, and a recipe with one more field, all at defaults."""

    def grow():
        for components, names in (
            (INITIALIZERS, ("metainit", "kaiming")),
            (registry.ARCHITECTURES, ("plain",)),
            (DATASETS, ("digits",)),
            (PROBES, ("gradient_quotient", "gradient_norm")),
        ):
            for name in names:
                component = components.get(name)
                grown = replace(component, factory=with_another_argument(component.factory))
                if components is DATASETS:
                    grown = replace(grown, traits=described_without(component.traits, "another"))
                monkeypatch.setitem(components._registered, name, grown)

        class Grown(Recipe):
            """A recipe of a later version."""

            ema: float = Field(0.0, ge=0)

        return Grown

    return grow


def described_without(traits, argument):
    def describe(**arguments):
        return traits.describe(**{name: value for name, value in arguments.items() if name != argument})

    return replace(traits, describe=describe)


def with_another_argument(factory):
    import inspect

    def grown(*arguments, another=1.0, **keywords):
        return factory(*arguments, **keywords)

    signature = inspect.signature(factory, eval_str=True)
    added = inspect.Parameter("another", inspect.Parameter.KEYWORD_ONLY, default=1.0, annotation=float)
    grown.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])
    grown.__module__, grown.__doc__ = factory.__module__, factory.__doc__
    return grown


def test_a_new_recipe_field_and_a_new_argument_change_no_id(grown):
    before = the_trial(**RICH)
    later = grown()
    after = the_trial(**RICH)
    after = after.model_copy(update={"recipe": later.model_validate(after.recipe.model_dump())})
    assert after.initializer.arguments["another"] == 1.0
    assert after.initializer.arguments["base"]["arguments"]["another"] == 1.0
    assert after.recipe.ema == 0.0
    assert {(p.arguments["another"]) for p in after.probes} == {1.0}
    assert (after.id, after.cell, after.identity) == (before.id, before.cell, before.identity)
    other = the_trial(**RICH | {"architectures": [RICH["architectures"][0] | {"another": 2}]})
    assert other.id != before.id
    ema = after.recipe.model_copy(update={"ema": 0.5})
    assert after.model_copy(update={"recipe": ema}).id != before.id


# --- what changes it


OTHER_RECIPES = {
    "epochs": 11,
    "steps": 7,
    "batch_size": 64,
    "accumulate": 2,
    "optimizer": "adam",
    "lr": 0.2,
    "momentum": 0.8,
    "nesterov": True,
    "weight_decay": 1e-4,
    "lr_multipliers": {"bias": 0.1},
    "weight_decays": {"norm": 0.1},
    "schedule": "constant",
    "clip_norm": 1.0,
    "random_resized_crop": [0.08, 1.0],
    "crop": 4,
    "flip": True,
    "warmup_epochs": 0.5,
    "warmup_steps": 3,
    "cutout": 8,
    "mixup": 1.0,
    "label_smoothing": 0.1,
    "precision": "bf16",
    "deterministic": True,
    "cudnn_benchmark": True,
    "compile": True,
    "activation_checkpointing": True,
    "channels_last": True,
    "history_every": 5,
    "evaluate_every": 5,
    "threads": 2,
}
DEPENDENT = {"batch_tokens", "milestones", "betas", "step_factor", "batch_norm", "shift_steps"}


def test_everything_that_changes_the_numbers_changes_the_id():
    assert {*OTHER_RECIPES, *DEPENDENT} == set(Recipe.model_fields)
    with_blocks = {"architectures": [{"name": "plain", "depth": 10, "width": 1, "norm": "none"}]}
    variants = [with_blocks | {"recipe": {name: value}} for name, value in OTHER_RECIPES.items()]
    variants += [
        {},
        with_blocks,
        {"recipe": {"schedule": "step", "milestones": [3]}},
        {"recipe": {"schedule": "step", "milestones": [4]}},
        {"recipe": {"schedule": "step", "milestones": [4], "step_factor": 0.2}},
        {"recipe": {"schedule": "inverse_square_root", "shift_steps": 3}},
        {"recipe": {"schedule": "inverse_square_root", "shift_steps": 4}},
        {"recipe": {"optimizer": "adam", "betas": [0.8, 0.9]}},
        {"recipe": {"optimizer": "signsgd"}},
        {"recipe": {"optimizer": "signsgd", "momentum": 0.8}},
        {"recipe": {"accumulate": 2, "batch_norm": "micro_batch"}},
        {"recipe": {"lr_multipliers": {"scalar": 0.1}}},
        {"recipe": {"lr_multipliers": {"scalar": 0.1, "bias": 0.1}}},
        {"seeds": [1]},
        {"dataset": "gaussian"},
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


def versions(components, name, monkeypatch, **changes):
    component = copy.copy(components.get(name))
    for key, value in changes.items():
        object.__setattr__(component, key, value)
    monkeypatch.setitem(components._registered, name, component)


@pytest.mark.parametrize(
    ("components", "name", "changes"),
    [
        (INITIALIZERS, "metainit", {"version": 7}),
        (INITIALIZERS, "metainit", {"source": "0" * 64}),
        (INITIALIZERS, "kaiming", {"version": 7}),  # it stands among the other's arguments
        (INITIALIZERS, "kaiming", {"source": "0" * 64}),
        (registry.ARCHITECTURES, "plain", {"version": 7}),
        (DATASETS, "digits", {"version": 7}),
        (TASKS, "classification", {"version": 7}),
        (PROBES, "gradient_norm", {"version": 7}),
    ],
    ids=lambda part: part if isinstance(part, str) else getattr(part, "kind", None) or "-".join(part),
)
def test_the_version_and_the_source_of_every_component_are_part_of_the_id(components, name, changes, monkeypatch):
    before = the_trial(**RICH)
    versions(components, name, monkeypatch, **changes)
    assert the_trial(**RICH).id != before.id


def test_a_component_at_its_default_is_never_left_out(monkeypatch):
    before = the_trial(initializers=["metainit"])
    assert before.identity["initializer"]["arguments"]["base"]["name"] == "delta_orthogonal"
    assert the_trial(initializers=[{"name": "metainit", "base": None}]).identity["initializer"]["arguments"] == {
        "base": None
    }
    versions(INITIALIZERS, "delta_orthogonal", monkeypatch, version=7)
    assert the_trial(initializers=["metainit"]).id != before.id


def test_all_arguments_of_a_plug_in_stay():
    @initbench.register_initializer("test_identity_mine")
    def mine(std: float = 0.5, sizes: tuple[int, ...] = (1, 2), base: Initializer = Initializer("kaiming")):
        return lambda model, context: None

    found = the_trial(initializers=["test_identity_mine"]).identity["initializer"]
    assert found["arguments"] == {
        "std": 0.5,
        "sizes": [1, 2],
        # The library's own, whose defaults are left out.
        "base": {"name": "kaiming", "arguments": {}, "version": 1},
    }
    assert found["source"] is not None


# --- a dataset is its content


def images(folder, content):
    """A plug-in's dataset in a folder, which says what it holds."""

    def describe(*, path, size):
        return Description(Inputs((1, 8, 8)), 10, content)

    @initbench.register_dataset("test_identity_images", describe=describe)
    def factory(path: Path = Path(folder), size: int | None = None):
        """Never read."""

    return the_trial(dataset={"name": "test_identity_images", "path": str(folder)})


@pytest.mark.usefixtures("scratch_registry")
def test_a_dataset_is_known_by_its_content_and_not_by_its_path(tmp_path):
    here, there = (images(tmp_path / name, "sha256:1") for name in ("here", "there"))
    assert here.id == there.id
    assert here.dataset.arguments["path"] != there.dataset.arguments["path"]  # the record says where it was
    assert images(tmp_path / "here", "sha256:2").id != here.id
    # Where it does not say what it holds, the path is all that tells it from another.
    unknown = [images(tmp_path / name, None).id for name in ("here", "there")]
    assert len({*unknown, here.id}) == 3


@pytest.mark.usefixtures("scratch_registry")
def test_two_places_with_one_content_in_one_suite_are_the_same_trial_twice(tmp_path):
    images(tmp_path, "sha256:1")
    entries = [{"name": "test_identity_images", "path": str(tmp_path / name)} for name in ("a", "b")]
    with pytest.raises(initbench.InitbenchError) as refused:
        planned(dataset=entries)
    assert refused.value.key == "dataset[1]"


# --- cells and copies


def test_a_cell_is_a_trial_without_its_seed_and_probes():
    assert the_trial(probes=["gradient_norm"]).cell == the_trial().cell
    trials = planned(seeds=3, recipe={"lr": [0.1, 0.2]}).trials
    assert len({t.id for t in trials}) == 6
    assert len({t.cell for t in trials}) == 2
    assert len({t.cell for t in trials if t.recipe.lr == 0.1}) == 1


def test_a_copy_with_other_values_has_another_id():
    trial = the_trial()
    known = (trial.id, trial.cell)  # computed before the copy is made
    other = trial.model_copy(update={"seed": 1})
    assert other.id != known[0]
    assert other.cell == known[1]
    assert other.model_copy(update={"seed": 0}).id == known[0]
    assert trial.model_copy(update={"scheme": "fixup"}).cell != known[1]


LABELS = {"suite", "set_by_rules", "scheme_named_by", "tuned", "protocols"}
CHANGED = {
    "suite": "another",
    "architecture": ComponentSpec(name="mlp"),
    "scheme": "fixup",
    "scheme_arguments": {"keep_norms": True},
    "initializer": ComponentSpec(name="xavier", arguments={"gain": 2.0}),
    "dataset": DatasetSpec(name="digits", inputs=Inputs((1, 8, 8)), outputs=10, content="sha256:other"),
    "recipe": Recipe(lr=0.3),
    "probes": (),
    "seed": 4,
    "phase": "search",
    "set_by_rules": ("recipe.lr",),
    "scheme_named_by": ("initializer",),
    "tuned": ("recipe.lr",),
    "protocols": ("own",),
}


@pytest.mark.parametrize("field", TrialSpec.model_fields)
def test_the_id_follows_every_change_of_a_field(field):
    trial = the_trial(**RICH)
    known = (trial.id, trial.cell, trial.identity)  # computed before the copy is made
    changed = trial.model_copy(update={field: CHANGED[field]})
    assert getattr(changed, field) == CHANGED[field] != getattr(trial, field)
    assert (changed.id == trial.id) is (field in LABELS)
    # As if nothing had been there before.
    fresh = TrialSpec.model_validate_json(changed.model_dump_json())
    assert (changed.id, changed.cell, changed.identity) == (fresh.id, fresh.cell, fresh.identity)
    assert (trial.id, trial.cell, trial.identity) == known
    assert "id" not in changed.model_dump()


def test_a_trial_has_no_id_until_its_dataset_is_described():
    trial = the_trial(**RICH)
    bare = trial.model_copy(update={"dataset": DatasetSpec(name="digits", arguments=trial.dataset.arguments)})
    assert bare.id == ""
    assert bare.model_dump()["dataset"].keys() == {"name", "arguments", "version", "source"}
    assert bare.model_copy(update={"dataset": trial.dataset}).id == trial.id


def test_what_a_record_holds_gives_the_id_back():
    trial = the_trial(**RICH)
    again = TrialSpec.model_validate_json(json.dumps(trial.model_dump(mode="json")))
    assert (again, again.id) == (trial, trial.id)
    assert spec.digest(trial.identity) == trial.id
    assert spec.cell_id(trial.identity) == trial.cell
