"""The device as the default device, and models that are built on it."""

from itertools import product

import pytest
import torch
from components import DEFAULTS, GPT, GRADINIT, HESSIAN, LSUV, METAINIT, MLP, PROBES, STEP, TEXT, WRN
from PIL import Image
from pretend import DEVICE, NAME, module
from trials import on_pretend, run, trials_of

from initbench import create_model
from initbench.data import load

BOX = [
    *["delta_orthogonal", "gaussian", "kaiming", "lecun", "looks_linear", "orthogonal", "pytorch_default"],
    *["truncated_normal", "xavier", "zero", "skipinit", "fixup", "weight_norm", METAINIT, GRADINIT, LSUV],
]
EVERY_AUGMENTATION = {"crop": 2, "flip": True, "cutout": 3, "mixup": 1.0, "random_resized_crop": [0.2, 1.0]}
SUITES = {
    "initializers": {"architectures": WRN, "initializers": BOX, "recipe": STEP | {"epochs": 0}},
    "probes": {"architectures": MLP | {"norm": "batch"}, "probes": [*PROBES, HESSIAN], "recipe": STEP | {"epochs": 0}},
    "augmentation": {"architectures": MLP, "recipe": STEP | EVERY_AUGMENTATION},
    "text": {"dataset": TEXT, "architectures": GPT, "initializers": [METAINIT, "gpt2"]},
    "digits": {"dataset": {"name": "digits", "train_size": 24}, "architectures": MLP},
}


@pytest.mark.parametrize("name", SUITES)
def test_a_trial_under_a_default_device(name):
    load._kept.cache_clear()
    for trial in trials_of(**DEFAULTS | SUITES[name]):
        with torch.device(NAME):
            run(trial)


def test_streamed_images_under_a_default_device(tmp_path):
    for split, label in product(("train", "test"), ("ant", "bee")):
        path = tmp_path / split / label / "1.png"
        path.parent.mkdir(parents=True)
        Image.linear_gradient("L").resize((16, 16)).save(path)
    dataset = {"name": "image_folder", "root": str(tmp_path), "image_size": 12, "resize": 16, "in_memory": False}
    [trial] = trials_of(**DEFAULTS | {"dataset": dataset, "architectures": WRN})
    with torch.device(NAME):
        run(trial)


@pytest.mark.parametrize("scheme", ["standard", "skipinit"])
def test_a_model_built_on_the_device_is_seeded_and_leaves_its_random_state(scheme):
    models, before = [], module.get_rng_state()
    for _ in range(2):
        with on_pretend(), torch.device(NAME):
            models.append(create_model("wrn", depth=10, width=1, norm="none", scheme=scheme, input_shape=(3, 8, 8)))
        assert torch.equal(module.get_rng_state(), before)
        module.manual_seed(7)
        before = module.get_rng_state()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert one.device == DEVICE
        assert torch.equal(one.held, other.held)
