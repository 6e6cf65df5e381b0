"""Initialize a model with a registered initializer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts, show
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import InitializationContext, Optimizer, RealBatches
from initbench.initializers.coverage import count_coverage
from initbench.initializers.record import InitializationRecord
from initbench.inputs import Inputs
from initbench.models.batches import Batch, LossFunction
from initbench.models.kernels import float32_products
from initbench.models.state import check_storage, forked_rng, preserved
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
    """Set a model's parameters in place and return a record of what was done.

    Some initializers draw the parameters; others start from a drawing initializer, their argument `base`, and adjust
    its weights with batches. Modes, buffers, `requires_grad`, gradients and the global random state are restored
    afterwards; after an exception, so are all parameters. The result depends only on the model and the arguments.

    Args:
        model: any module whose output is a tensor or has one as ``.logits``. Frozen parameters stay as they are.
        name: a registered initializer, such as ``metainit``.
        inputs: an example batch, (batch, ...), whose shape and type random batches get (integers are tokens), or a
            description of one sample.
        input_shape: shape of a batch, instead of `inputs`: (batch, channels, height, width) for images.
        num_classes: number of outputs of the model: classes, or tokens of a vocabulary.
        task: determines the loss and the random batches.
        seed: all random numbers derive from it.
        batches: (inputs, targets), instead of generated ones: one per step, starting with the first; none is spent on
            measuring.
        real_batches: used if the initializer needs real data: batches, or a function that returns them for a given
            batch size.
        loss_fn: mean loss of a batch from (outputs, targets), instead of the task's.
        training_optimizer: name and learning rate of the training to come, for initializers that need them.
        arguments: the initializer's own. ``batch_size`` defaults to the batch size of `inputs` or `input_shape`.

    Raises:
        UnknownNameError: no initializer or task has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        InitializationError: the initializer cannot be applied to this model or with these batches.
    """
    start = time.perf_counter()
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"must be a torch.nn.Module, is {show(model)}", "model")
    component = INITIALIZERS.get(name)
    learned = find_task(task)
    example = inputs if isinstance(inputs, Tensor) else None
    shape = _batch_shape(example, input_shape)
    check_counts(num_classes=num_classes)
    if shape is not None and any(argument.name == "batch_size" for argument in component.arguments):
        arguments = {"batch_size": shape[0]} | arguments
    if "targets" in arguments:
        raise ArgumentError("is an unknown key; give batches=[(inputs, targets)]", "targets")
    resolved = component.resolve(arguments)
    apply = component.call(resolved)
    check_storage(model)
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
        torch.inference_mode(False),  # a tuner needs gradients even if the caller has switched them off
        torch.enable_grad(),
        float32_products(),
        _parameters_kept(model, name),
        preserved(model),
        forked_rng(model, seed, "initializer"),
    ):
        context.run(name, apply, model)
        _note_untouched(model, record)
        bases = [resolved[argument] for argument in component.initializer_arguments]
        as_built = bool(bases) and all(base is None for base in bases)
        record.coverage = count_coverage(context, as_built=as_built)
    record.seconds = time.perf_counter() - start
    return record


def _batch_shape(inputs: Tensor | None, input_shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if inputs is not None and input_shape is not None:
        raise ArgumentError("cannot be given together with inputs", "input_shape")
    shape, argument = (input_shape, "input_shape") if inputs is None else (tuple(inputs.shape), "inputs")
    if shape is not None and (len(shape) < 2 or min(shape) < 1):
        raise ArgumentError(f"must be (batch, ...), each at least 1, got {tuple(shape)}", argument)
    return shape


@contextmanager
def _parameters_kept(model: nn.Module, initializer: str) -> Iterator[None]:
    """Restore every module's own parameters and their values if an exception passes; refuse changed frozen ones."""
    owned = [(module, _direct_parameters(module)) for module in model.modules()]
    values: dict[int, Tensor] = {id(p): p.detach().clone() for p in model.parameters()}
    frozen = {name: parameter for name, parameter in model.named_parameters() if not parameter.requires_grad}
    try:
        yield
        _check_frozen(frozen, values, initializer)
    except BaseException:
        with torch.no_grad():
            for module, parameters in owned:
                for name in _direct_parameters(module).keys() - parameters.keys():
                    delattr(module, name)
                for name, parameter in parameters.items():
                    parameter.copy_(values[id(parameter)])
                    setattr(module, name, parameter)
        raise


def _check_frozen(frozen: Mapping[str, Tensor], values: Mapping[int, Tensor], initializer: str) -> None:
    for name, parameter in frozen.items():
        # Bytes, because NaNs differ from themselves, and types of quantized weights cannot be compared.
        now, before = (tensor.detach().reshape(-1).view(torch.uint8) for tensor in (parameter, values[id(parameter)]))
        if not torch.equal(now, before):
            raise InitializationError(f"{initializer}: {name} is frozen and was changed")


def _direct_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    return dict(module.named_parameters(recurse=False, remove_duplicate=False))


def _note_untouched(model: nn.Module, record: InitializationRecord) -> None:
    first_names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = first_names.setdefault(id(parameter), name)
        if first != name:
            record.tied(name, first)
        elif name not in record.tensors:
            record.left(name, None if parameter.requires_grad else "frozen")
