"""The gradient quotient of a batch against one gradient of the same loss.

Counted in passes over the network, a gradient is a forward and a backward pass, and the quotient adds the backward pass
of both: three gradients for the convolutions. Plain networks without normalization and with β-Swish are those of the
MetaInit paper; their activation, made of several elementwise operations, weighs most where the network is narrow.
"""

from __future__ import annotations

from typing import Any

import timing
import torch
from torch.nn import functional

import initbench

BATCH, BOUND = 32, 3.3
NETWORKS: list[dict[str, Any]] = [
    {"name": "wrn", "depth": 16, "width": 4, "norm": "batch", "activation": "relu"},
    {"name": "plain", "depth": 28, "width": 1, "norm": "none", "activation": "relu"},
    {"name": "plain", "depth": 28, "width": 1, "norm": "none", "activation": "beta_swish"},
]


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for each network."""
    torch.manual_seed(0)
    networks, size = ([NETWORKS[0] | {"width": 1}], 2) if quick else (NETWORKS, BATCH)
    inputs, targets = torch.randn(size, 3, 32, 32), torch.randint(10, (size,))
    rows = []
    for network in networks:
        model = initbench.create_model(**network)
        initbench.initialize(model, "kaiming")
        model.eval()  # as the probe measures
        parameters = list(model.parameters())

        @torch.no_grad()  # measured, as the probe does; MetaInit differentiates it, see metainit_step.py
        def quotient(model: torch.nn.Module = model) -> torch.Tensor:
            return initbench.gradient_quotient(model, inputs, targets)

        def gradient(
            model: torch.nn.Module = model, parameters: list[torch.nn.Parameter] = parameters
        ) -> tuple[torch.Tensor, ...]:
            return torch.autograd.grad(functional.cross_entropy(model(inputs), targets), parameters)

        pairs = timing.paired(quotient, gradient, runs)
        case = "{name}-{depth}-{width}, norm {norm}, {activation}".format_map(network)
        rows.append(timing.Row.of_pairs(f"{case}, batch {size}", pairs, BOUND))
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=15, threads=1)
