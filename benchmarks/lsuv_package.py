"""LSUV of a deep convolutional network against the package `lsuv` (PyPI), which needs a forward pass or two per layer.

Both sides start from the same orthogonal weights and zero biases and take the same batch, whose inputs have the
standard deviation 1. The package has its defaults, but for the orthogonal weights, which it is given, and its printing,
which is off: a layer whose standard deviation is within 0.1 of 1 is left as it is, another is divided by it, at most 11
times. Without biases once is enough. Without that margin it would run the network more often, not less; initbench has
none. What each side reached is measured afterwards, outside the times, by a forward pass of this file.

The package comes with `pip install -e '.[bench]'` or `pip install lsuv==0.3.0`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from importlib import metadata
from typing import Any

import timing
import torch
from torch import Tensor, nn

import initbench

LAYERS, CHANNELS, SIZE, BATCH = 100, 32, 12, 64
BOUND, FARTHEST = 0.02, 1e-5


def network(layers: int, channels: int) -> nn.Module:
    """Return 3×3 convolutions with biases, a ReLU after each, of orthogonal weights."""
    modules: list[nn.Module] = []
    for layer in range(layers):
        modules += [nn.Conv2d(channels if layer else 3, channels, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*modules)
    initbench.initialize(model, "orthogonal")
    return model


def initbench_lsuv(start: nn.Module, inputs: Tensor) -> nn.Module:
    """Return a copy of a network with weights scaled by initbench."""
    model = deepcopy(start)
    initbench.initialize(model, "lsuv", base=None, batches=[(inputs, torch.zeros(len(inputs), dtype=torch.long))])
    return model


def package_lsuv(package: Callable[..., Any], start: nn.Module, inputs: Tensor) -> nn.Module:
    """Return a copy of a network with weights scaled by the package."""
    model = deepcopy(start)
    package(model, inputs, do_orthonorm=False, verbose=False, device=inputs.device)
    return model


@torch.no_grad()
def farthest(model: nn.Module, inputs: Tensor) -> float:
    """Return the largest distance from 1 of the standard deviation of a convolution's outputs."""
    distances: list[float] = []

    def measured(_module: nn.Module, _inputs: object, outputs: Tensor) -> None:
        distances.append(abs(outputs.double().std(correction=0).item() - 1))

    model = deepcopy(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(measured)
    model(inputs)
    return max(distances)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for the durations and one for what each side reached; exit with 2 without the package."""
    try:
        from lsuv import lsuv_with_singlebatch
    except ModuleNotFoundError:
        print("the package to compare with is not installed: pip install lsuv==0.3.0", file=sys.stderr)
        sys.exit(2)
    torch.manual_seed(0)
    layers, channels, size, batch = (6, 8, 8, 16) if quick else (LAYERS, CHANNELS, SIZE, BATCH)
    start, inputs = network(layers, channels), torch.randn(batch, 3, size, size)

    def ours() -> nn.Module:
        return initbench_lsuv(start, inputs)

    def reference() -> nn.Module:
        return package_lsuv(lsuv_with_singlebatch, start, inputs)

    reached = farthest(ours(), inputs), farthest(reference(), inputs)  # the warm-up as well
    pairs = timing.paired(ours, reference, runs, warm_up=0)
    other = f"lsuv {metadata.version('lsuv')}"
    case = f"LSUV of {layers} convolutions of {channels} channels, batch {batch} of {size}×{size}, against {other}"
    return [
        timing.Row.of_pairs(case, pairs, BOUND),
        timing.Row("farthest standard deviation from 1 after initbench", (reached[0],), "", FARTHEST),
        timing.Row(f"farthest standard deviation from 1 after {other}", (reached[1],), ""),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=3, threads=1)
