"""Networks, batches and small statistics that several laws measure with."""

from __future__ import annotations

import itertools
import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from initbench import create_model
from initbench.data.load import load_dataset

Batch = tuple[Tensor, Tensor]


@cache
def _digits() -> Batch:
    train = load_dataset("digits", {}).splits.train
    return train.take(slice(None))


def digits_batch(samples: int, seed: int, dtype: torch.dtype = torch.float32) -> Batch:
    """Return distinct training images of digits, standardized, (samples, 1, 8, 8), and their classes."""
    inputs, targets = _digits()
    chosen = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))[:samples]
    return inputs[chosen].to(dtype), targets[chosen]


def random_batch(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float32, classes: int = 10) -> Batch:
    """Return inputs ~ N(0, 1) and uniform classes."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return inputs, torch.randint(classes, shape[:1], generator=generator)


def chain(widths: list[int], activation: type[nn.Module] | None = nn.ReLU, *, bias: bool = False) -> nn.Sequential:
    """Return linear layers between the widths, with an activation after each but the last."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers.append(nn.Linear(a, b, bias=bias))
        if activation is not None:
            layers.append(activation())
    return nn.Sequential(*(layers if activation is None else layers[:-1]))


def conv_net(name: str, depth: int, width: int = 1, side: int = 8, channels: int = 1, **arguments: object) -> nn.Module:
    """Return a network of images without normalization; `plain` and `wrn` have β-Swish from β = 0, as in the paper."""
    options = {"activation": "beta_swish", "norm": "none"} | arguments
    return create_model(name, depth=depth, width=width, input_shape=(channels, side, side), **options)


def gradient(model: nn.Module, batch: Batch) -> Tensor:
    """Return the gradient of the mean cross-entropy over all parameters, one vector; zeros for unused ones."""
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(
        cross_entropy(model(batch[0]), batch[1]), parameters, allow_unused=True, materialize_grads=True
    )
    return torch.cat([g.flatten() for g in gradients])


def slope(x: list[float] | Tensor, y: list[float] | Tensor) -> float:
    """Return the slope of the least-squares line."""
    x, y = torch.as_tensor(x, dtype=torch.float64), torch.as_tensor(y, dtype=torch.float64)
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def explained(x: list[float] | Tensor, y: list[float] | Tensor) -> float:
    """Return R² of the least-squares line."""
    x, y = torch.as_tensor(x, dtype=torch.float64), torch.as_tensor(y, dtype=torch.float64)
    return float(torch.corrcoef(torch.stack([x, y]))[0, 1] ** 2)


def mean_and_error(values: Tensor) -> tuple[float, float]:
    """Return the mean of independent draws and its standard error."""
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


def of(count: int, total: int) -> str:
    """Return "4 of 5"."""
    return f"{count} of {total}"
