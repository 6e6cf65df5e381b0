"""Preserve a model's state while working on it: modes, buffers, gradients, random states; and find its BatchNorms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from initbench.errors import InitializationError
from initbench.models import random_state
from initbench.randomness import derive_seed


def check_storage(model: nn.Module) -> None:
    """Raise an InitializationError if parameters have no values yet."""
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter) or parameter.is_meta:
            raise InitializationError(f"{name} has no storage yet: give the model a device, or one forward pass")


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """Restore at the end, even after an exception, everything in a model except its parameters' values.

    This includes the training mode of every module, every buffer (running statistics of BatchNorm), `requires_grad`,
    and the gradients, which are None inside. Weights that a module changes with its mode, as LoRA layers that merge,
    are restored exactly. Values that modules cache from their parameters in eval mode are discarded before each pass of
    the model and at the end (see `forgetful`).

    Args:
        model: any module.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(module, dict(module.named_buffers(recurse=False))) for module in model.modules()]
    values = {id(buffer): buffer.detach().clone() for _, named_buffers in buffers for buffer in named_buffers.values()}
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    changing = [module for module in model.modules() if type(module).train is not nn.Module.train]
    weights = {
        p: p.detach().clone() for module in changing for p in module.parameters() if not (is_lazy(p) or p.is_meta)
    }
    for parameter, _, _ in parameters:
        parameter.grad = None
    try:
        with forgetful(model):
            yield
    finally:
        for module, mode in modes:  # outer modules first
            if module in changing:
                module.train(mode)
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for parameter, value in weights.items():
                if _is_rounding(parameter, value):
                    parameter.copy_(value)
            for module, named_buffers in buffers:
                for name, buffer in named_buffers.items():
                    buffer.copy_(values[id(buffer)])
                    setattr(module, name, buffer)  # a buffer may have been replaced, not only written to
        for parameter, requires_grad, grad in parameters:
            parameter.requires_grad_(requires_grad)
            parameter.grad = grad


def _is_rounding(value: Tensor, before: Tensor) -> bool:
    """Return whether a tensor has changed by no more than what adding and subtracting another one leaves."""
    if not value.is_floating_point() or value.dtype.itemsize < 2 or not value.numel():
        return False
    largest = before.abs().nan_to_num().max()
    return bool(((value - before).abs().nan_to_num() <= 64 * torch.finfo(value.dtype).eps * largest).all())


@contextmanager
def forgetful(model: nn.Module) -> Iterator[None]:
    """Discard before each pass, and at the end, the values that modules have computed from their parameters and cached.

    timm's LeViT, EfficientFormer and TinyViT cache attention biases in eval mode until `train` is called, which assumes
    that weights are loaded once. If parameters change between two passes, the second would use the old biases and
    differentiate through the graph of the first.
    """
    keepers = [module for module in model.modules() if type(module).train is not nn.Module.train]
    if not keepers:
        yield
        return

    def forget(*_: Any) -> None:
        modes = [(module, module.training) for module in model.modules()]
        for module in keepers:
            mode = module.training
            module.train()
            module.train(mode)
        for module, mode in modes:  # `train` also sets the modes of inner modules
            module.training = mode

    hook = model.register_forward_pre_hook(forget)
    try:
        yield
    finally:
        hook.remove()
        forget()


@contextmanager
def forked_rng(model: nn.Module, seed: int, *keys: str) -> Iterator[None]:
    """Seed the global random state, which dropout uses, from the stream ``dropout``; restore it at the end.

    Args:
        model: its devices are also seeded.
        seed: the trial's seed.
        keys: keys that distinguish streams.
    """
    devices = [parameter.device for parameter in model.parameters()]
    with random_state.forked(*devices, seed=derive_seed(seed, "dropout", *keys)):
        yield


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def evaluate_but_batch_norm(model: nn.Module, mode: Literal["eval", "train"]) -> str | None:
    """Put a model into eval mode and BatchNorm into `mode`; return which statistics it uses, None without BatchNorm."""
    model.eval()
    layers = batch_norms(model)
    for layer in layers:
        layer.training = mode == "train"
    if not layers:
        return None
    return "batch statistics" if any(map(uses_batch_statistics, layers)) else "running statistics"


def uses_batch_statistics(layer: _BatchNorm) -> bool:
    """Return whether a BatchNorm layer uses batch statistics, as one without running statistics always does."""
    return layer.training or layer.running_mean is None
