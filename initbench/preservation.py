"""Leaving things as they were: the model's modes, buffers and gradients, and the global random state."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from initbench.randomness import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """Restore at the end, also after an exception, everything of a model that is not a parameter's value.

    That is the training mode of every module, every buffer (running statistics of BatchNorm), `requires_grad`, and
    the gradients, which are None inside.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(module, dict(module.named_buffers(recurse=False))) for module in model.modules()]
    values = {id(buffer): buffer.detach().clone() for _, own in buffers for buffer in own.values()}
    parameters = [(parameter, parameter.requires_grad, parameter.grad) for parameter in model.parameters()]
    for parameter, _, _ in parameters:
        parameter.grad = None
    try:
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
