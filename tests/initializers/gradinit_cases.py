"""A small network and half-batches for the tests of GradInit."""

from __future__ import annotations

import itertools

import torch
from cases import batch
from torch import nn

from initbench.initializers.initialize import initialize

TINY = (6, 3, 8, 8)


def half_batches(shape=TINY, seed=1, dtype=torch.float64):
    for index in itertools.count():
        yield batch(shape, seed=1000 * seed + index, dtype=dtype)


def joined(*parts):
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


def net(norm, gain):
    """A VGG-like net; a bias in front of BatchNorm has no derivative, and Adam would make steps of rounding errors."""
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=norm == "none"),
        nn.BatchNorm2d(6) if norm == "batch" else nn.Identity(),
        nn.Tanh(),
        nn.Conv2d(6, 8, 3, stride=2, bias=False),
        nn.BatchNorm2d(8) if norm == "batch" else nn.Identity(),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    ).double()
    initialize(model, "kaiming", gain=gain)
    for bias in (model[-1].bias, model[0].bias):
        if bias is not None:
            nn.init.normal_(bias, generator=torch.Generator().manual_seed(3))
    return model
