"""Recipes that suites start from: they come to fields, and nothing of a trial knows their names."""

from __future__ import annotations

import re

import pytest

import initbench
from initbench import plugins
from initbench.errors import InitbenchError, SuiteError
from initbench.suite.document import parse
from initbench.suite.load import suite_of
from initbench.suite.overrides import override
from initbench.training.named_recipes import RECIPES
from initbench.training.recipe import Recipe
from suites import ids, plan_of, planned

pytestmark = pytest.mark.usefixtures("scratch_registry")
NETWORK = {"architectures": [{"name": "mlp", "width": 8}], "initializers": ["kaiming"], "seeds": [0]}


def suite(recipe, **keys):
    return planned(**NETWORK | {"recipe": recipe} | keys)


def recipes(recipe, **keys):
    return [trial.recipe for trial in suite(recipe, **keys).trials]


# --- what the library brings


@pytest.mark.parametrize("name", sorted(RECIPES.builtins))
def test_each_value_of_a_recipe_says_on_its_line_where_it_comes_from(name):
    text = RECIPES.builtins[name].read_text(encoding="utf-8")
    lines = text.partition("\nrecipe:\n")[2].splitlines()
    found = [
        re.fullmatch(r"  (\w+): (\S.*?)  # (the paper|the authors' code|Fixup's code|ours)\b(.*)", x) for x in lines
    ]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    named = RECIPES.get(name)
    assert [match[1] for match in found] == list(named.fields) == list(named.sources)
    assert [f"{match[3]}{match[4]}" for match in found] == list(named.sources.values())
    assert named.reference
    assert named.summary.endswith(".")


@pytest.mark.parametrize("name", sorted(RECIPES.builtins))
def test_no_value_of_a_recipe_is_that_of_every_recipe(name):
    """What is at its default says nothing, but for values that papers print."""
    fields = RECIPES.get(name).fields
    said = {"batch_size", "lr", "momentum", "schedule", "step_factor"}
    plain = Recipe.model_validate({k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    assert {k for k in fields if getattr(plain, k) == Recipe.model_fields[k].default} <= said


def test_the_values_that_the_papers_print():
    """MetaInit, section 4.2; GradInit, appendices A.1 and A.2."""
    fields = {name: RECIPES.get(name).fields for name in RECIPES.builtins}
    metainit = {k: fields["metainit_cifar"][k] for k in ("lr", "mixup", "schedule")}
    assert metainit == {"lr": 0.1, "mixup": 1.0, "schedule": "cosine"}
    gradinit = {k: fields["gradinit_cifar"][k] for k in ("batch_size", "weight_decay", "flip")}
    assert gradinit == {"batch_size": 128, "weight_decay": 1e-4, "flip": True}
    imagenet = {k: fields["gradinit_imagenet"][k] for k in ("epochs", "milestones", "step_factor")}
    assert imagenet == {"epochs": 90, "milestones": [30, 60], "step_factor": 0.1}


# --- in suites


def test_the_fields_alone_make_the_trial():
    """Other fields on top, defaults written out, another order of keys: the same ids as without the name."""
    named = suite({"use": "gradinit_cifar", "epochs": 2, "crop": 1})
    written = suite(
        {
            "crop": 1,
            "cutout": 16,
            "flip": True,
            "weight_decays": {"norm": 0.0},
            "weight_decay": 0.0001,
            "schedule": "cosine",
            "lr": 0.1,
            "epochs": 2,
            "momentum": 0.9,
        }
    )
    assert ids(named) == ids(written)
    assert "gradinit_cifar" not in named.trials[0].model_dump_json()
    assert ids(suite({"use": "gradinit_cifar", "epochs": 3, "crop": 1})) != ids(named)


@pytest.mark.parametrize("name", sorted(RECIPES.builtins))
def test_every_recipe_trains_for_a_few_epochs_or_steps_in_the_place_of_its_own(name):
    [short] = recipes({"use": name, "epochs": 2})
    assert (short.epochs, short.steps, short.lr) == (2, None, RECIPES.get(name).fields["lr"])
    [steps] = recipes({"use": name, "steps": 50})
    assert (steps.epochs, steps.steps) == (10, 50)  # 10 is that of no recipe: its own is gone


def test_what_belongs_to_a_value_goes_with_it():
    [cosine] = recipes({"use": "fixup_cifar", "schedule": "cosine"})
    assert (cosine.schedule, cosine.milestones, cosine.mixup) == ("cosine", (), 1.0)
    [same] = recipes({"use": "weightnorm_cifar", "schedule": "step"})
    assert (same.milestones, same.step_factor) == ((60, 120, 160), 0.2)
    [adam] = recipes({"use": "metainit_cifar", "optimizer": "adam", "lr": 0.001})
    assert (adam.optimizer, adam.nesterov, adam.momentum) == ("adam", False, 0.9)
    [warm] = recipes({"use": "weightnorm_cifar_warmup", "warmup_steps": 20})
    assert (warm.warmup_epochs, warm.warmup_steps) == (0.0, 20)


def test_lists_are_crossed_the_recipes_too():
    found = recipes({"use": ["fixup_cifar", "metainit_cifar"], "lr": [0.1, 0.01], "epochs": 1})
    assert [(r.lr, r.nesterov) for r in found] == [(0.1, False), (0.01, False), (0.1, True), (0.01, True)]
    assert [r.milestones for r in found] == [(100, 150)] * 2 + [()] * 2


def test_rules_searches_and_the_command_line_are_on_top():
    rules = [{"when": {"architecture": "mlp"}, "recipe": {"lr": 0.5, "lr_multipliers": None}}]
    [ruled] = recipes({"use": "fixup_cifar", "epochs": 1}, rules=rules)
    assert (ruled.lr, ruled.lr_multipliers, ruled.mixup) == (0.5, None, 1.0)
    tuned = suite({"use": "fixup_cifar", "epochs": 1}, tune={"recipe.lr": {"times": [0.1, 10]}, "tries": 3})
    assert sorted({t.recipe.lr for t in tuned.trials}) == [0.01, 0.1, 1.0]
    assert {t.recipe.mixup for t in tuned.trials} == {1.0}


TEXT = """\
name: s
dataset: digits
architectures: [{name: mlp, width: 8}]
initializers: [kaiming]
recipe:
  use: fixup_cifar
  epochs: 1
"""


def of_text(text, *assignments):
    document = parse(text, "suite.yaml")
    for assignment in assignments:
        override(document, assignment)
    return suite_of(document)


def test_the_command_line_sets_fields_and_the_recipe_itself():
    plain, other = of_text(TEXT), of_text(TEXT, "recipe.use=metainit_cifar", "recipe.lr=0.3")
    assert [t.recipe.mixup for t in plan_of(plain).trials] == [1.0]
    [trial] = plan_of(other).trials
    assert (trial.recipe.lr, trial.recipe.nesterov, trial.recipe.epochs) == (0.3, True, 1)
    [trial] = plan_of(of_text(TEXT, "recipe.lr_multipliers.scalar=0.2")).trials
    assert trial.recipe.lr_multipliers.named == {"scalar": 0.2}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("fixup_cifar", "fixup_cifr"), "suite.yaml:6: recipe.use: unknown recipe 'fixup_cifr' (did you mean 'fixup_c"),
        (("fixup_cifar", "[fixup_cifar, x1]"), "suite.yaml:6: recipe.use[1]: unknown recipe 'x1' (valid: fixup"),
        (("fixup_cifar", "3"), "suite.yaml:6: recipe.use: must be the name of a recipe, got 3"),
        (("fixup_cifar", "[]"), "suite.yaml:6: recipe.use: must not be an empty list: nothing would run"),
        (("epochs: 1", "epoch: 1"), "suite.yaml:7: recipe.epoch: is an unknown key (did you mean 'epochs'?)"),
        (("epochs: 1", "lr: -1"), "suite.yaml:7: recipe.lr: must be at least 0, got -1"),
        (
            ("epochs: 1", "lr_multipliers: {scalr: 1}"),
            "suite.yaml:7: recipe.lr_multipliers.scalr: is an unknown key (did you mean 'scalar'?)",
        ),
        (
            ("fixup_cifar\n  epochs: 1", "[weightnorm_cifar, weightnorm_cifar_warmup]\n  warmup_epochs: 0"),
            "suite.yaml:6: recipe.use: gives the same recipe twice, the second time with weightnorm_cifar_warmup",
        ),
        (
            ("epochs: 1\n", "epochs: 1\nrules:\n  - {when: {architecture: mlp}, recipe: {use: metainit_cifar}}\n"),
            "suite.yaml:9: rules[0].recipe.use: a rule sets fields; it cannot start from another recipe",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_file_line_and_key(edit, message):
    assert edit[0] in TEXT
    with pytest.raises(SuiteError) as caught:
        plan_of(of_text(TEXT.replace(*edit)))
    assert str(caught.value).startswith(message)


# --- of plug-ins


def test_a_plug_in_brings_a_recipe():
    initbench.register_recipe(
        "short",
        {"epochs": 1, "schedule": "step", "milestones": [1], "lr": 0.2},
        reference="Ours, 2026",
        sources={"lr": "table 1"},
    )
    [recipe] = recipes({"use": "short", "lr": 0.3})
    assert (recipe.epochs, recipe.milestones, recipe.lr) == (1, (1,), 0.3)
    assert RECIPES.get("short").origin == __name__
    initbench.register_recipe("short", {"epochs": 2})  # a cell of a notebook is run again
    assert RECIPES.get("short").fields == {"epochs": 2}


def test_a_plug_in_file_brings_a_recipe_and_another_cannot_take_its_name():
    text = "import initbench\ninitbench.register_recipe('filed', {'epochs': 7})"
    plugins.load_file(plugins.PluginFile("first.py", text))
    assert RECIPES.get("filed").fields == {"epochs": 7}
    with pytest.raises(InitbenchError, match=r"recipe 'filed' is already registered by first\.py"):
        plugins.load_file(plugins.PluginFile("second.py", text))


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("fixup_cifar", {"epochs": 1}, "recipe 'fixup_cifar' is already registered by initbench"),
        ("a b", {}, "recipe 'a b': a name must not contain spaces, brackets, commas or '='"),
        ("mine", {"epoch": 1}, "recipe 'mine': epoch: is an unknown key (did you mean 'epochs'?)"),
        ("mine", {"lr": -1.0}, "recipe 'mine': lr: must be at least 0, got -1.0"),
        ("mine", {"milestones": [3]}, "recipe 'mine': milestones: are for schedule: step, not cosine"),
        (
            "mine",
            {"weight_decays": {"norms": 0}},
            "recipe 'mine': weight_decays.norms: is an unknown key (did you mean",
        ),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_where_it_is_registered(name, fields, message):
    with pytest.raises(InitbenchError) as caught:
        initbench.register_recipe(name, fields)
    assert str(caught.value).startswith(message)
    with pytest.raises(InitbenchError, match="recipe 'mine': sources names 'lrr'"):
        initbench.register_recipe("mine", {"lr": 0.1}, sources={"lrr": "table 1"})
