"""A step of MetaInit against a direct transcription of the published listing.

The transcription below is Figure 2 of Dauphin & Schoenholz (NeurIPS 2019) in float32 with its misprint corrected (`gg`
for `gq`), without `.cuda()`, on given batches, and with the gradient quotients returned where it prints them. Both
sides start from the same weights and take the same batches; two steps of both are checked to do the same.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import timing
import torch
from torch import Tensor, nn
from torch.nn import functional

import initbench

BATCH, STEPS, BOUND = 32, 2, 1.02
Batches = list[tuple[Tensor, Tensor]]


def listing_gradient_quotient(loss: Tensor, params: list[nn.Parameter], eps: float = 1e-5) -> Tensor:
    """Return GQ as the listing computes it."""
    grad = torch.autograd.grad(loss, params, retain_graph=True, create_graph=True)
    half: Any = sum([(q**2).sum() / 2 for q in grad])
    prod = torch.autograd.grad(half, params, retain_graph=True, create_graph=True)
    out: Any = sum(
        [
            ((g - p) / (g + eps * (2 * (g >= 0).float() - 1).detach()) - 1).abs().sum()
            for g, p in zip(grad, prod, strict=True)
        ]
    )
    quotient: Tensor = out / sum([p.data.nelement() for p in params])
    return quotient


def listing_metainit(
    model: nn.Module, batches: Batches, lr: float = 0.1, momentum: float = 0.9, eps: float = 1e-5
) -> list[float]:
    """Tune a model in place, one step per batch, and return the gradient quotient of each step."""
    model.eval()
    params = [p for p in model.parameters() if p.requires_grad and len(p.size()) >= 2]
    memory = [0.0] * len(params)
    quotients = []
    for inputs, target in batches:
        loss = functional.cross_entropy(model(inputs), target)
        gq = listing_gradient_quotient(loss, list(model.parameters()), eps)
        grad = torch.autograd.grad(gq, params)
        for j, (p, g_all) in enumerate(zip(params, grad, strict=True)):
            norm = p.data.norm().item()
            g = torch.sign((p.data * g_all).sum() / norm)
            memory[j] = momentum * memory[j] - lr * g.item()
            new_norm = norm + memory[j]
            p.data.mul_(new_norm / norm)
        quotients.append(gq.item())
    return quotients


def initbench_metainit(model: nn.Module, batches: Batches) -> list[float]:
    """Do the same with initbench."""
    record = initbench.initialize(model, "metainit", base=None, steps=len(batches), batches=batches)
    return [float(entry["gradient_quotient"] or "nan") for entry in record.history]


def same_algorithm(start: nn.Module, batches: Batches) -> None:
    """Check that both sides do the same; after many more steps rounding could turn a sign."""
    ours, listing = deepcopy(start), deepcopy(start)
    quotients = initbench_metainit(ours, batches), listing_metainit(listing, batches)
    torch.testing.assert_close(torch.tensor(quotients[0]), torch.tensor(quotients[1]), rtol=1e-2, atol=0)
    for tensor, expected in zip(ours.parameters(), listing.parameters(), strict=True):
        torch.testing.assert_close(tensor, expected, rtol=1e-4, atol=1e-6)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for each network."""
    torch.manual_seed(0)
    networks, size = ([("wrn", 10)], 2) if quick else ([("wrn", 16), ("plain", 28)], BATCH)
    batches = [(torch.randn(size, 3, 32, 32), torch.randint(10, (size,))) for _ in range(STEPS)]
    rows = []
    for name, depth in networks:
        start = initbench.create_model(name, depth=depth, width=1, norm="none", activation="beta_swish")
        initbench.initialize(start, "delta_orthogonal")
        same_algorithm(start, batches)

        def ours(start: nn.Module = start) -> None:
            initbench_metainit(deepcopy(start), batches)

        def listing(start: nn.Module = start) -> None:
            listing_metainit(deepcopy(start), batches)

        pairs = timing.paired(ours, listing, runs)
        rows.append(timing.Row.of_pairs(f"step on {name}-{depth}-1, batch {size}", pairs, BOUND, per=STEPS))
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=31, threads=1)
