"""Initializing a model with a registered initializer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import InitializationContext, Optimizer, RealBatches
from initbench.initializers.coverage import count_coverage
from initbench.initializers.record import InitializationRecord
from initbench.inputs import Inputs
from initbench.models.batches import Batch, LossFunction
from initbench.models.state import forked_rng, preserved
from initbench.registry import INITIALIZERS, reads_optimizer
from initbench.tasks import find_task


def initialize(
    model: nn.Module,
    name: str,
    *,
    inputs: Tensor | Inputs | None = None,
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    task: str = "classification",
    seed: int = 0,
    batches: Iterable[Batch] | None = None,
    real_batches: RealBatches | None = None,
    loss_fn: LossFunction | None = None,
    training_optimizer: tuple[str, float] = ("sgd", 0.1),
    **arguments: Any,
) -> InitializationRecord:
    """Set a model's parameters in place and return the record of what was done.

    Some initializers draw them; others start from such a one, their argument `base`, and adjust what it drew with
    batches. Modes, buffers, `requires_grad`, gradients and the global random state are afterwards as they were; after
    an exception, so are all parameters. The result is a function of the model and the arguments alone.

    Args:
        model: any module; its output is a tensor, or has one as ``.logits``. Frozen parameters stay as they are.
        name: a registered initializer, such as ``metainit``.
        inputs: an example batch, (batch, ...), whose shape and type random batches get; integers are tokens. Or what
            one sample is.
        input_shape: of a batch, in its place: (batch, channels, height, width) for images.
        num_classes: how many outputs the model has: classes, or tokens of a vocabulary.
        task: what is learned: the loss, and what random batches are.
        seed: all random numbers derive from it.
        batches: (inputs, targets), in place of generated ones: one per step, from the first, none spent on measuring.
        real_batches: what an initializer that asks for real data gets: batches, or a function from a batch size.
        loss_fn: mean loss of a batch from (outputs, targets), in place of the task's.
        training_optimizer: name and learning rate of the training to come, for initializers that need them.
        arguments: the initializer's own. A ``batch_size`` that is not given is that of `inputs` or `input_shape`.

    Raises:
        UnknownNameError: no initializer or task has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        InitializationError: the initializer cannot do its work on this model, or with these batches.
    """
    start = time.perf_counter()
    component = INITIALIZERS.get(name)
    learned = find_task(task)
    example = inputs if isinstance(inputs, Tensor) else None
    shape = _batch_shape(example, input_shape)
    if num_classes is not None and num_classes < 1:
        raise ArgumentError(f"must be at least 1, got {num_classes}", "num_classes")
    if shape is not None and any(argument.name == "batch_size" for argument in component.arguments):
        arguments = {"batch_size": shape[0]} | arguments
    if "targets" in arguments:
        raise ArgumentError("is an unknown key; give batches=[(inputs, targets)]", "targets")
    resolved = component.resolve(arguments)
    apply = component.call(resolved)
    _check_model(model)
    record = InitializationRecord(
        initializer=name,
        arguments=component.plain(resolved),
        seed=seed,
        _parameters=dict(model.named_parameters()),
    )
    sample = None if shape is None else learned.inputs_for(shape[1:], num_classes, example)
    context = InitializationContext(
        model=model,
        record=record,
        seed=seed,
        task=learned,
        inputs=inputs if isinstance(inputs, Inputs) else sample,
        example=example,
        outputs=num_classes,
        loss_fn=loss_fn,
        may_read_optimizer=reads_optimizer(name, record.arguments),
        _training_optimizer=Optimizer(*training_optimizer),
        given_batches=batches,
        real_batches=real_batches,
    )
    with (
        torch.inference_mode(False),  # a caller's own, or its no_grad, must not take a tuner's gradients away
        torch.enable_grad(),
        preserved(model),
        forked_rng(model, seed, "initializer"),
        _parameters_restored_on_error(model),
    ):
        context.run(name, apply, model)
        _note_untouched(model, record)
        bases = [resolved[argument] for argument in component.initializer_arguments]
        as_built = bool(bases) and all(base is None for base in bases)
        record.coverage = count_coverage(context, as_built=as_built)
    record.seconds = time.perf_counter() - start
    return record


def _check_model(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter) or parameter.is_meta:
            raise InitializationError(f"{name} has no storage yet: give the model a device, or one forward pass")


def _batch_shape(inputs: Tensor | None, input_shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if inputs is not None and input_shape is not None:
        raise ArgumentError("cannot be given beside inputs", "input_shape")
    shape, argument = (input_shape, "input_shape") if inputs is None else (tuple(inputs.shape), "inputs")
    if shape is not None and (len(shape) < 2 or min(shape) < 1):
        raise ArgumentError(f"must be (batch, ...), each at least 1, got {tuple(shape)}", argument)
    return shape


@contextmanager
def _parameters_restored_on_error(model: nn.Module) -> Iterator[None]:
    """Give every module back its own parameters with the values they had, if an exception passes."""
    owned = [(module, _own_parameters(module)) for module in model.modules()]
    values: dict[int, Tensor] = {id(p): p.detach().clone() for p in model.parameters()}
    try:
        yield
    except BaseException:
        with torch.no_grad():
            for module, parameters in owned:
                for name in _own_parameters(module).keys() - parameters.keys():
                    delattr(module, name)
                for name, parameter in parameters.items():
                    parameter.copy_(values[id(parameter)])
                    setattr(module, name, parameter)
        raise


def _own_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return dict(module.named_parameters(recurse=False, remove_duplicate=False))


def _note_untouched(model: nn.Module, record: InitializationRecord) -> None:
    first_names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = first_names.setdefault(id(parameter), name)
        if first != name:
            record.tied(name, first)
        elif name not in record.tensors:
            record.left(name, None if parameter.requires_grad else "frozen")
