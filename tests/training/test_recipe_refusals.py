"""What a recipe cannot train, said before a trial."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cases import Attention, random_dataset
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.tasks import find_task
from initbench.training.loop import train
from initbench.training.recipe import Recipe
from initbench.training.refusals import ModelTraits, data_refusal, model_refusal

IMAGES, VECTORS, TOKENS = Inputs((3, 8, 8)), Inputs((8,)), Inputs((16,), vocabulary=50)
ANY = ModelTraits(has_blocks=True, has_batch_norm=False)
CLASSIFICATION = find_task("classification")


class Plain(type(CLASSIFICATION)):
    """A task that has nothing to mix or to smooth."""

    name = "plain"
    recipe_fields = frozenset()


def reason(recipe, task=CLASSIFICATION, inputs=IMAGES, model=ANY):
    made = Recipe(**recipe)
    return data_refusal(made, task, inputs) or model_refusal(made, model)


@pytest.mark.parametrize("field", ["mixup", "label_smoothing"])
def test_a_field_of_some_tasks_is_refused_for_the_others(field):
    assert reason({field: 0.1}) is None
    assert reason({field: 0.1}, Plain()).startswith(f"{field} ")
    assert "plain" in reason({field: 0.1}, Plain())


@pytest.mark.parametrize("inputs", [VECTORS, TOKENS, Inputs((3, 8, 8), vocabulary=9)])
@pytest.mark.parametrize(
    "recipe", [{"random_resized_crop": (0.5, 1.0)}, {"crop": 2}, {"flip": True}, {"cutout": 4}, {"channels_last": True}]
)
def test_what_is_for_images_is_refused_for_other_inputs(recipe, inputs):
    assert reason(recipe) is None
    assert reason(recipe, inputs=inputs).startswith(f"{next(iter(recipe))} ")


def test_tokens_cannot_be_mixed():
    assert reason({"mixup": 1.0}, inputs=VECTORS) is None
    assert reason({"mixup": 1.0}, inputs=TOKENS).startswith("mixup ")


@pytest.mark.parametrize(
    ("name", "arguments", "blocks", "batch_norm"),
    [
        ("mlp", {}, False, False),
        ("mlp", {"norm": "batch"}, False, True),
        ("wrn", {"depth": 10, "width": 1}, True, True),
        ("wrn", {"depth": 10, "width": 1, "norm": "none"}, True, False),
        ("timm/resnet10t", {}, True, True),
        ("timm/convnext_atto", {}, True, False),
    ],
)
def test_what_is_asked_of_models(name, arguments, blocks, batch_norm):
    traits = ModelTraits.of(create_model(name, input_shape=(3, 32, 32), **arguments))
    assert traits == ModelTraits(blocks, batch_norm)
    checkpointing = reason({"activation_checkpointing": True}, model=traits)
    assert checkpointing is None if blocks else checkpointing.startswith("activation_checkpointing ")
    accumulation = reason({"accumulate": 2}, model=traits)
    assert accumulation.startswith("accumulate ") if batch_norm else accumulation is None
    assert reason({"accumulate": 2, "batch_norm": "micro_batch"}, model=traits) is None


def test_any_batch_norm_counts():
    for norm in (nn.BatchNorm1d(3), nn.BatchNorm3d(3), nn.SyncBatchNorm(3), nn.LazyBatchNorm2d()):
        assert ModelTraits.of(nn.Sequential(norm)).has_batch_norm
    assert not ModelTraits.of(Attention()).has_batch_norm


def test_what_is_only_measured_is_never_refused():
    assert reason({"epochs": 0, "mixup": 1.0, "crop": 1, "accumulate": 2}, Plain(), TOKENS) is None


def test_training_itself_refuses_the_same_and_touches_nothing():
    data = random_dataset((3, 8, 8), 4, (16, 0, 8))
    model = create_model("wrn", depth=10, width=1, input_shape=(3, 8, 8), num_classes=4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InitbenchError, match=r"^accumulate "):
        train(model, data, Recipe(epochs=1, accumulate=2), 0)
    with pytest.raises(InitbenchError, match=r"^crop "):
        train(model, replace(data, inputs=VECTORS), Recipe(crop=1), 0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
