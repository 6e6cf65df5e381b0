"""Every component, argument and recipe field on the device, once."""

import pytest
from components import DEFAULTS, SUITES
from image_trees import make_tree
from trials import run, trials_of, with_something_new

from initbench.registry import INITIALIZERS, PROBES, SCHEMES
from initbench.training.recipe import Recipe


def _listed(keys):
    return {name: key if isinstance(key, list) or name in {"dataset", "recipe"} else [key] for name, key in keys.items()}


TRIALS = {
    f"{name}_{n}": trial
    for name, suite in SUITES.items()
    for n, trial in enumerate(with_something_new(trials_of(**_listed(DEFAULTS | suite))))
}


@pytest.mark.parametrize("name", TRIALS)
def test_on_the_device(name):
    run(TRIALS[name])


@pytest.mark.parametrize("in_memory", [True, False])
def test_image_folders(in_memory, tmp_path):
    root = make_tree(tmp_path / "images")
    dataset = {"name": "image_folder", "root": str(root), "image_size": 12, "resize": 16, "in_memory": in_memory}
    recipe = {"epochs": 1, "batch_size": 8, "random_resized_crop": (0.2, 1.0), "flip": True}
    [trial] = trials_of(
        **DEFAULTS | {"dataset": dataset, "recipe": recipe, "initializers": ["kaiming"]},
        architectures=[{"name": "wrn", "depth": 10, "width": 1, "norm": "none"}],
    )
    run(trial)


def test_nothing_is_left_out():
    """Every component is there, and every argument and recipe field has a value other than its default."""
    trials = TRIALS.values()
    assert {t.scheme for t in trials} >= {*SCHEMES.names(), "standard"}
    for registry, made in (
        (INITIALIZERS, [t.initializer for t in trials]),
        (PROBES, [probe for t in trials for probe in t.probes]),
    ):
        for name in registry.names():
            ones = [one for one in made if one.name == name]
            plain = registry.get(name).spec(registry.get(name).resolve({}))["arguments"]
            same = [key for key in plain if all(one.arguments[key] == plain[key] for one in ones)]
            assert (name, same) == (name, [])
    plain = Recipe().plain()
    same = {key for key in plain if all(t.recipe.plain()[key] == plain[key] for t in trials)}
    assert same == {"steps"}  # the length alone
