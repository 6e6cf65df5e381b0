"""Run a user's model and loss function; exceptions become one line that shows the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.models.batches import Batch, LossFunction
from initbench.plugins import first_line


def tensor_of(output: Any) -> Any:
    """Return the ``logits`` of a model's output if it has them, otherwise the output itself, for a loss function.

    Models of Hugging Face's transformers return objects with the field ``logits``.
    """
    return output.logits if hasattr(output, "logits") else output


@contextmanager
def removed(hooks: Iterable[RemovableHandle]) -> Iterator[None]:
    """Remove hooks at the end."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def mean_loss(model: Callable[[Tensor], Any], batch: Batch, loss_fn: LossFunction) -> Tensor:
    """Return the loss of one batch, 0-dim: the only place where a model runs for a loss at initialization.

    An exception of the model or `loss_fn` becomes an InitializationError; a loss that is not 0-dim is an ArgumentError.
    """
    inputs, targets = batch
    with running_on(inputs):
        outputs = tensor_of(model(inputs))
    hint = "" if torch.is_tensor(outputs) else " (give a loss_fn that takes them)"
    with explained(f"loss_fn fails on outputs {_shown(outputs)}{hint}, and targets {_shown(targets)}"):
        loss = loss_fn(outputs, targets)
    if not torch.is_tensor(loss) or loss.dim() != 0:
        got = f"shape {tuple(loss.shape)}" if torch.is_tensor(loss) else type(loss).__name__
        raise ArgumentError(f"must return a 0-dim tensor, got {got}", "loss_fn")
    return loss


@contextmanager
def running_on(*inputs: Tensor) -> Iterator[None]:
    """Turn an exception of the model into an InitializationError that shows its inputs."""
    with explained(f"the model fails on inputs {' and '.join(map(_shown, inputs))}"):
        yield


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn an exception of the user's code into an InitializationError of one line that begins with `what`."""
    try:
        yield
    except (InitbenchError, torch.OutOfMemoryError):  # clear enough, and caught elsewhere by type
        raise
    except Exception as error:
        raise InitializationError(f"{what}: {type(error).__name__}: {first_line(error)}") from error


def _shown(value: Any) -> str:
    if torch.is_tensor(value):
        return f"of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    return f"of type {type(value).__name__}"


@dataclass(frozen=True)
class LayerRun:
    """One run of a layer within a forward pass of its model.

    Attributes:
        name: of the layer in the model.
        layer: itself.
        inputs: its positional arguments.
        outputs: what it returned; a visitor may write into them.
        repeat: calls its `forward` once more with the same arguments, without hooks, and returns the new outputs.
    """

    name: str
    layer: nn.Module
    inputs: tuple[Any, ...]
    outputs: Tensor
    repeat: Callable[[], Tensor]


@torch.no_grad()
def run_visiting(
    model: nn.Module, inputs: Tensor, layers: Mapping[str, nn.Module], visit: Callable[[LayerRun], Tensor | None]
) -> None:
    """Run the model once, without gradients, and call `visit` whenever one of `layers` has run.

    A result of `visit` other than None replaces the layer's outputs. A layer that runs twice is visited twice. The
    model's inputs are not modified.
    """

    def hook_of(name: str) -> Callable[..., Tensor | None]:
        def hook(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Tensor) -> Tensor | None:
            return visit(LayerRun(name, layer, args, outputs, lambda: layer.forward(*args, **kwargs)))

        return hook

    hooks = [layer.register_forward_hook(hook_of(name), with_kwargs=True) for name, layer in layers.items()]
    with removed(hooks), running_on(inputs):
        model(inputs.clone())  # the model may write into them
