"""Initializing a model with a registered initializer."""

from __future__ import annotations

import time
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from initbench.errors import InitializationError
from initbench.initializers.context import InitializationContext, InitializationRecord, Optimizer
from initbench.preservation import forked_rng, preserved
from initbench.registry import INITIALIZERS, Component, InitializerTraits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from initbench.batches import Batch, LossFunction
    from initbench.initializers.context import Apply


class _Base(Enum):
    DECLARED = "the base that the tuner declares"


def initialize(
    model: nn.Module,
    name: str,
    *,
    base: str | Mapping[str, Any] | _Base | None = _Base.DECLARED,
    input_shape: tuple[int, ...] | None = None,
    num_classes: int | None = None,
    seed: int = 0,
    batches: Iterable[Batch] | None = None,
    real_batches: Iterable[Batch] | None = None,
    loss_fn: LossFunction = F.cross_entropy,
    training_optimizer: tuple[str, float] = ("sgd", 0.1),
    **arguments: Any,
) -> InitializationRecord:
    """Set a model's parameters in place and return the record of what was done.

    A distribution draws them; a tuner draws its base and then adjusts it with batches. Modes, buffers,
    `requires_grad`, gradients and the global random state are afterwards as they were; after an exception, so are all
    parameters. The result is a function of the model and the arguments alone.

    Args:
        model: any module. Frozen parameters stay as they are.
        name: a registered initializer, such as ``metainit``.
        base: of a tuner: a distribution's name, or a mapping of its ``name`` and arguments; None takes the model as
            it is; by default the one that the tuner declares.
        input_shape: of a batch, (batch, channels, height, width), for random batches.
        num_classes: for the targets of random batches.
        seed: all random numbers derive from it.
        batches: (inputs, targets), in place of generated ones: one per step, from the first, none spent on measuring.
        real_batches: what a tuner that asks for real data gets.
        loss_fn: mean loss of a batch from (outputs, targets).
        training_optimizer: name and learning rate of the training to come, for tuners that need them.
        arguments: the initializer's own.

    Raises:
        UnknownNameError: no initializer has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        InitializationError: the initializer cannot do its work on this model, or with these batches.
    """
    start = time.perf_counter()
    component = INITIALIZERS.get(name)
    resolved = component.resolve(arguments)
    stages = [(name, component.build(arguments))]
    base_component, base_arguments = _resolve_base(component, base)
    described = None
    if base_component is not None:
        described = {"name": base_component.name, **base_component.resolve(base_arguments)}
        stages.insert(0, (base_component.name, base_component.build(base_arguments)))
    _check_model(model)
    _check_shape(input_shape, num_classes)
    record = InitializationRecord(
        initializer=name,
        arguments=resolved,
        base=described,
        seed=seed,
        _parameters=dict(model.named_parameters()),
    )
    context = InitializationContext(
        model, record, seed, input_shape, num_classes, loss_fn, Optimizer(*training_optimizer), batches, real_batches
    )
    with (
        torch.inference_mode(False),  # a caller's own, or its no_grad, must not take a tuner's gradients away
        torch.enable_grad(),
        preserved(model),
        forked_rng(model, seed, "initializer"),
        _parameters_restored_on_error(model),
    ):
        for stage, apply in stages:
            _run(stage, apply, model, context)
    _note_untouched(model, record)
    record.seconds = time.perf_counter() - start
    return record


def _resolve_base(
    component: Component[InitializerTraits], base: str | Mapping[str, Any] | _Base | None
) -> tuple[Component[InitializerTraits] | None, dict[str, Any]]:
    """Return the base distribution, None for none, and the arguments that the user set for it."""
    chosen = component.traits.base if isinstance(base, _Base) else base
    if chosen is None:
        return None, {}
    if component.traits.kind != "tuner":
        raise InitializationError(f"base: {component.name} draws the parameters itself; only a tuner has a base")
    arguments = {} if isinstance(chosen, str) else dict(chosen)
    name = chosen if isinstance(chosen, str) else arguments.pop("name", None)
    if not isinstance(name, str):
        raise InitializationError("base must be a distribution's name, or a mapping with the key name")
    found = INITIALIZERS.get(name)
    if found.traits.kind == "tuner":
        raise InitializationError(f"base: {name} is a tuner; a base is a distribution, such as kaiming")
    return found, arguments


def _check_model(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter) or parameter.is_meta:
            raise InitializationError(f"{name} has no storage yet: give the model a device, or one forward pass")


def _check_shape(input_shape: tuple[int, ...] | None, num_classes: int | None) -> None:
    if input_shape is not None and (not input_shape or min(input_shape) < 1):
        raise InitializationError(f"input_shape must be (batch, ...), each at least 1, got {tuple(input_shape)}")
    if num_classes is not None and num_classes < 1:
        raise InitializationError(f"num_classes must be at least 1, got {num_classes}")


def _run(stage: str, apply: Apply, model: nn.Module, context: InitializationContext) -> None:
    """Run one initializer and note what it changed without saying so."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    notes = {name: len(done) for name, done in context.record.tensors.items()}
    identities = _identities(model)
    apply(model, context)
    if _identities(model) != identities:
        raise InitializationError(f"{stage} added, removed or replaced a parameter; an initializer only sets values")
    for name, parameter in model.named_parameters():
        silent = len(context.record.tensors.get(name, [])) == notes.get(name, 0)
        if silent and not torch.equal(parameter, before[name]):
            context.record.note(name, f"set by {stage}")


def _identities(model: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


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
            record.note(name, f"tied to {first}")
        elif name not in record.tensors:
            record.note(name, "untouched" if parameter.requires_grad else "untouched: frozen")
