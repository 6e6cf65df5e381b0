"""What the tuners say of models and batches that they cannot work with: whole messages, and the model is as it was."""

from __future__ import annotations

import inspect
import traceback
from typing import get_args

import pytest
import torch
from bad_input import ARGUMENTS, CASES, GRADINIT, JOINED, LSUV, METAINIT, SHAPE, WEIGHT_NORM, Fails, Images, batches
from cases import assert_same_state, state
from torch.nn.utils.parametrizations import weight_norm

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import OPTIMIZERS
from initbench.initializers.initialize import initialize
from initbench.training.recipe import Recipe

IDS = [f"{case.name}-{tuner}" for case in CASES for tuner in case.messages]


def refused(tuner, error, *, change=lambda model: model, model=Images, given=None, **options):
    """Return the error, having seen that the model is as it was."""
    torch.manual_seed(0)
    model = change(model(weight_norm) if tuner == WEIGHT_NORM else model())
    for parameter in list(model.parameters())[:2]:
        parameter.grad = torch.ones_like(parameter)
    model.norm.running_mean.fill_(0.25)
    before = state(model)
    arguments = {"input_shape": SHAPE, "num_classes": 10, **ARGUMENTS[tuner], **options}
    with pytest.raises(error) as caught:
        initialize(model, tuner, batches=None if given is None else given(), **arguments)
    assert_same_state(before, state(model))
    return caught.value


@pytest.mark.parametrize(("case", "tuner"), [(case, tuner) for case in CASES for tuner in case.messages], ids=IDS)
def test_the_message_and_the_model(case, tuner):
    error = refused(tuner, case.error, change=case.change, model=case.model, given=case.batches, **case.options)
    assert str(error) == case.messages[tuner].format(n=JOINED[tuner], tuner=tuner)


@pytest.mark.parametrize("tuner", ARGUMENTS)
def test_the_traceback_of_the_models_own_error_is_kept(tuner):
    error = refused(tuner, InitializationError, model=Fails)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert str(error.__cause__) == "no mean of 0\nand a second line"
    last = traceback.extract_tb(error.__cause__.__traceback__)[-1]
    assert (last.filename, last.name) == (inspect.getsourcefile(Fails), "forward")


@pytest.mark.parametrize("tuner", [LSUV, METAINIT, GRADINIT])
def test_integers_for_images(tuner):
    """The rest of the message is PyTorch's, by version and layer."""

    def given():
        return (((10 * x).long(), y) for x, y in batches(lambda *pair: pair)())

    error = refused(tuner, InitializationError, given=given)
    start = f"the model fails on inputs of shape ({JOINED[tuner]}, 3, 8, 8) and type int64: RuntimeError: "
    assert str(error).startswith(start)
    assert "\n" not in str(error)


@pytest.mark.parametrize("tuner", [METAINIT, GRADINIT])
@pytest.mark.parametrize(
    ("loss_fn", "message"),
    [
        (lambda outputs, _: outputs.mean(1), "loss_fn must return a 0-dim tensor, got shape ({n},)"),
        (lambda outputs, _: outputs.mean().item(), "loss_fn must return a 0-dim tensor, got float"),
    ],
)
def test_what_is_no_loss(tuner, loss_fn, message):
    assert str(refused(tuner, ArgumentError, loss_fn=loss_fn)) == message.format(n=JOINED[tuner])


@pytest.mark.parametrize(("tuner", "argument"), [(METAINIT, "steps"), (GRADINIT, "iterations")])
@pytest.mark.parametrize("number", [0, -1])
def test_numbers_of_steps(tuner, argument, number):
    error = refused(tuner, ArgumentError, **{argument: number})
    assert str(error) == f"{argument} must be at least 1, got {number}"
    assert error.argument == argument


@pytest.mark.parametrize(
    ("optimizer", "message"), [(("SGD", 0.1), "must be one of sgd, "), (("adam", -1.0), "learning rate")]
)
def test_an_unknown_optimizer(optimizer, message):
    """It was taken for Adam."""
    with pytest.raises(ArgumentError, match=f"^training_optimizer .*{message}"):
        initialize(Images(), "kaiming", training_optimizer=optimizer)


def test_the_optimizers_are_those_of_recipes():
    assert get_args(Recipe.model_fields["optimizer"].annotation) == OPTIMIZERS


def test_out_of_memory_stays_what_it_is():
    """Callers look for it, to try a smaller batch."""

    class TooLarge(Images):
        def forward(self, _):
            raise torch.OutOfMemoryError("CUDA out of memory")

    for tuner in ARGUMENTS:
        assert str(refused(tuner, torch.OutOfMemoryError, model=TooLarge)) == "CUDA out of memory"


@pytest.mark.parametrize("tuner", [METAINIT, GRADINIT])
@pytest.mark.parametrize(
    "options",
    [{"loss_fn": lambda outputs, targets: (outputs.mean(1) - targets).square().mean()}, {"batches": True}],
    ids=["another loss", "given batches"],
)
def test_more_classes_than_outputs_where_that_is_no_mistake(tuner, options):
    """Only cross-entropy needs an output for each class, and only random targets are of all classes."""
    if "batches" in options:
        options = {"batches": batches(lambda *pair: pair)()}
    arguments = {**ARGUMENTS[tuner], "input_shape": SHAPE, "num_classes": 1000, **options}
    assert initialize(Images(), tuner, **arguments).conditions["stopped_at_step"] is None
