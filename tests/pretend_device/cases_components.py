"""Every component, argument and recipe field on the device, once."""

from itertools import product

import pytest
import torch
from components import DEFAULTS, MLP, SUITES, WRN
from PIL import Image
from pretend import DEVICE, NAME
from trials import on_pretend, run, trials_of, with_something_new

from initbench.data.prepare import prepare
from initbench.execution.trial import run_trial
from initbench.registry import INITIALIZERS, PROBES, SCHEMES
from initbench.training.recipe import Recipe

TRIALS = {
    f"{name}_{n}": trial
    for name, suite in SUITES.items()
    for n, trial in enumerate(with_something_new(trials_of(**DEFAULTS | suite)))
}


@pytest.mark.parametrize("name", TRIALS)
def test_on_the_device(name):
    run(TRIALS[name])


@pytest.mark.parametrize("in_memory", [True, False])
def test_image_folders(in_memory, tmp_path):
    for split, label, n in product(("train", "test"), ("ant", "bee"), range(4)):
        path = tmp_path / split / label / f"{n}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.linear_gradient("L").rotate(20 * n).resize((16, 16)).save(path)
    dataset = {"name": "image_folder", "root": str(tmp_path), "image_size": 12, "resize": 16, "in_memory": in_memory}
    recipe = {"epochs": 1, "batch_size": 4, "random_resized_crop": [0.2, 1.0], "flip": True}
    [trial] = trials_of(**DEFAULTS | {"dataset": dataset, "recipe": recipe, "architectures": WRN})
    run(trial)


def test_images_of_bytes_stay_bytes_and_give_the_same_bits():
    random = torch.Generator().manual_seed(0)
    parts = [(torch.randint(256, (n, 3, 8, 8), generator=random).byte(), torch.arange(n)) for n in (500, 3, 50)]
    with on_pretend():
        for size, kept in ((None, torch.uint8), (5, torch.float32)):
            here = prepare("noise", *parts, image_size=size)
            for name in ("train", "validation", "test"):
                split, there = getattr(here, name), getattr(here.to(NAME), name)
                inputs, targets = there.take(slice(1, None))
                assert torch.equal(inputs.cpu(), split.inputs[1:])
                assert torch.equal(targets.cpu(), split.targets[1:])
                assert getattr(there, "pixels", inputs).dtype == kept
                assert (there.sample_shape, there.device) == (split.sample_shape, DEVICE)


def test_the_spectrum_on_the_device_is_that_of_the_host():
    """They are computed by two implementations of the same iteration, from one start vector, in float32 products."""
    probe = {"name": "hessian_spectrum", "data": "random", "batch_size": 4, "eigenvalues": 3, "lanczos_steps": 6}
    [trial] = trials_of(**DEFAULTS | {"architectures": MLP, "probes": [probe], "recipe": {"epochs": 0}})
    there, here = (
        {entry["name"].rsplit(".", 1)[1]: entry for entry in record.probes} for record in (run(trial), run_trial(trial))
    )
    assert there["eigenvalues"]["y"] == pytest.approx(here["eigenvalues"]["y"], rel=1e-4)
    assert there["gradient_share"]["value"] == pytest.approx(here["gradient_share"]["value"], rel=1e-3)
    for density in ("positive_density", "negative_density"):
        shares = ([-1 if share is None else share for share in one[density]["y"]] for one in (there, here))
        assert next(shares) == pytest.approx(next(shares), rel=1e-2, abs=1e-3)


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
            same = {key for key in plain if all(one.arguments[key] == plain[key] for one in ones)}
            assert ones, name
            assert same <= {"embedding_std"}, name  # one function draws the embeddings of all
    plain = Recipe().plain()
    same = {key for key in plain if all(t.recipe.plain()[key] == plain[key] for t in trials)}
    assert same == {"steps", "cudnn_benchmark", "compile"}  # the length alone, and what the device lacks
