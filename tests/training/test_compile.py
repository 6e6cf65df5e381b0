"""Training steps through `torch.compile`."""

from functools import partial

import pytest
import torch
from cases import random_dataset
from pydantic import ValidationError

from initbench.architectures.create import create_model
from initbench.initializers.initialize import initialize
from initbench.training.loop import train
from initbench.training.recipe import Recipe

SHAPE, CLASSES = (2, 6, 6), 4
DATASET = random_dataset(SHAPE, CLASSES, (40, 12, 16))
RECIPE = Recipe(epochs=2, batch_size=16, lr=0.05)

pytestmark = pytest.mark.usefixtures("one_thread")


def trained(recipe):
    model = create_model("mlp", norm="batch", input_shape=SHAPE, num_classes=CLASSES)
    initialize(model, "kaiming", seed=0)
    return train(model, DATASET, recipe, 0), dict(model.named_parameters())


@pytest.fixture
def compiled(monkeypatch):
    """The shapes for which graphs are compiled and the batches that they run on; the compiler changes nothing."""
    shapes, batches = [], []

    def backend(graph, examples):
        sample_shapes = [tuple(example.shape) for example in examples if example.shape[1:] == SHAPE]
        shapes.extend(shape[0] for shape in sample_shapes)

        def run(*inputs):
            batches.append(next(len(x) for x in inputs if tuple(x.shape[1:]) == SHAPE))
            return graph(*inputs)

        return run

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    return shapes, batches


def test_every_training_step_and_no_evaluation_runs_the_compiled_model(compiled):
    """3 steps per epoch, of 16, 16 and 8; each shape is compiled once. The numbers are those of the eager model."""
    result, parameters = trained(RECIPE.model_copy(update={"compile": True}))
    shapes, batches = compiled
    assert (shapes, batches) == ([16, 8], [16, 16, 8, 16, 16, 8])
    eager, expected = trained(RECIPE)
    assert result == eager
    assert all(torch.equal(parameters[name], expected[name]) for name in expected)
    assert parameters.keys() == expected.keys()


def test_every_trial_of_a_process_is_compiled(compiled):
    """PyTorch gives up after 8 graphs of one function, without an error, and runs it eagerly."""
    recipe = RECIPE.model_copy(update={"compile": True, "epochs": 1})
    for _ in range(10):
        trained(recipe)
    assert len(compiled[0]) == 20


def test_without_steps_nothing_is_compiled(compiled):
    trained(RECIPE.model_copy(update={"compile": True, "epochs": 0}))
    assert compiled == ([], [])


def test_it_is_not_combined_with_checkpointing():
    with pytest.raises(ValidationError, match="compile cannot be combined with activation_checkpointing"):
        Recipe(compile=True, activation_checkpointing=True)


@pytest.mark.slow
def test_the_numbers_are_those_of_the_eager_model_but_for_rounding():
    """Six steps of a small network in float32, whose sums the compiler adds in another order."""
    result, parameters = trained(RECIPE.model_copy(update={"compile": True}))
    eager, expected = trained(RECIPE)
    assert result.metrics["train_loss"] == pytest.approx(eager.metrics["train_loss"], rel=1e-4)
    for name, parameter in expected.items():
        torch.testing.assert_close(parameters[name], parameter, rtol=1e-3, atol=1e-4)
