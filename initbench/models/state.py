"""What is kept of a model while it is worked on: modes, buffers, gradients, random states; and its BatchNorms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from initbench.randomness import derive_seed


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """Restore at the end, also after an exception, everything of a model that is not a parameter's value.

    That is the training mode of every module, every buffer (running statistics of BatchNorm), `requires_grad`, and
    the gradients, which are None inside. What modules keep of their parameters in eval mode is forgotten before each
    pass of the model and at the end (see `forgetful`).

    Args:
        model: any module.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(module, dict(module.named_buffers(recurse=False))) for module in model.modules()]
    values = {id(buffer): buffer.detach().clone() for _, own in buffers for buffer in own.values()}
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    for parameter, _, _ in parameters:
        parameter.grad = None
    try:
        with forgetful(model):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for module, own in buffers:
                for name, buffer in own.items():
                    buffer.copy_(values[id(buffer)])
                    setattr(module, name, buffer)  # a buffer may have been replaced, not only written to
        for parameter, requires_grad, grad in parameters:
            parameter.requires_grad_(requires_grad)
            parameter.grad = grad


@contextmanager
def forgetful(model: nn.Module) -> Iterator[None]:
    """Empty before each pass, and at the end, what modules have computed from their parameters and kept.

    timm's LeViT, EfficientFormer and TinyViT keep attention biases in eval mode until `train` is called, which holds
    for weights that are loaded once. Where parameters change between two passes, the second would see the old biases,
    and differentiate through the graph of the first.
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
        for module, mode in modes:  # `train` sets those of the modules within, too
            module.training = mode

    hook = model.register_forward_pre_hook(forget)
    try:
        yield
    finally:
        hook.remove()
        forget()


@contextmanager
def forked_rng(model: nn.Module, seed: int, *keys: str) -> Iterator[None]:
    """Seed the global random state (dropout uses no other) from the stream ``dropout``; restore it at the end.

    Args:
        model: its CUDA devices are seeded too.
        seed: the trial's seed.
        keys: what the stream is split by.
    """
    devices = sorted({p.device.index for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices):
        state = derive_seed(seed, "dropout", *keys)
        torch.default_generator.manual_seed(state)
        for device in devices:
            torch.cuda.default_generators[device].manual_seed(state)
        yield


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def uses_batch_statistics(layer: _BatchNorm) -> bool:
    """Return whether a BatchNorm layer uses the statistics of the batch, as one without running ones always does."""
    return layer.training or layer.running_mean is None
