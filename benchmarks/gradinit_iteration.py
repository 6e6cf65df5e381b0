"""An iteration of GradInit against a transcription of the authors' loop.

The transcription below follows gradinit_utils.py and gradinit_optimizers.py of github.com/zhuchen03/gradinit (commit
777c407, the CIFAR version) in what is computed and how: a loop over the tensors with numbers on the host, the network's
own parameters replaced for the look-ahead, PyTorch's own derivatives. It has SGD with the normalized gradient, as all
of its launch scripts, and leaves out CUDA, data loading, resuming and the log. Each iteration of the authors' is one of
two kinds, by whether the gradient norm is above γ, and each has a row: γ is so small, or so large, that every iteration
is of that kind.

Both sides start from the same weights and take the same half-batches. They are checked to do the same for a small γ, a
large one, and one between them, where iterations of both kinds follow each other.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import timing
import torch
from torch import Tensor, nn
from torch.nn import functional

import initbench

HALF, ITERATIONS, BOUND = 64, 4, 1.02
FEW, SMALL, CHECKED = 2, 8, 4
KINDS = {"the gradient norm": 1e-6, "the loss after a step": 1e6}
"""What an iteration descends: γ"""
NETWORKS: list[dict[str, Any]] = [
    {"name": "wrn", "depth": 16, "width": 1, "norm": "batch"},
    {"name": "plain", "depth": 28, "width": 1, "norm": "none"},
]
TAU, ETA, FLOOR, CLIP, BETAS, EPS = 1e-2, 0.1, 0.01, 1.0, (0.9, 0.999), 1e-8
Batches = list[tuple[Tensor, Tensor]]
Done = tuple[list[float], dict[str, float]]
"""Of each iteration the gradient norm; the scales by the parameter's name."""


@dataclass
class AuthorsState:
    """What the authors' optimizer keeps of one tensor."""

    norm: float
    scale: float = 1.0
    first: dict[bool, float] = field(default_factory=lambda: {True: 0.0, False: 0.0})
    steps: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    second: float = 0.0


class AuthorsAdam:
    """RescaleAdam: Adam of one scale for each tensor.

    Args:
        groups: least scale, and the tensors that have it.
    """

    def __init__(self, groups: list[tuple[float, list[nn.Parameter]]]) -> None:
        self.groups = groups
        self.states: dict[nn.Parameter, AuthorsState] = {}

    def zero_grad(self) -> None:
        """Forget the derivatives."""
        for _, parameters in self.groups:
            for p in parameters:
                p.grad = None

    @torch.no_grad()
    def step(self, *, constraint: bool) -> None:
        """Scale the tensors by the derivatives for them, of the gradient norm (`constraint`) or of the loss."""
        for floor, parameters in self.groups:
            for p in parameters:
                if p.grad is None:
                    continue
                if p not in self.states:
                    self.states[p] = AuthorsState(p.norm().item())
                state = self.states[p]
                norm = p.data.norm().item()
                if state.norm == 0 or norm == 0:
                    continue
                slope = torch.sum(p.grad * p.data).item() * state.norm / norm
                slope = max(min(slope, CLIP), -CLIP)
                state.steps[constraint] += 1
                state.first[constraint] = state.first[constraint] * BETAS[0] + slope * (1 - BETAS[0])
                state.second = state.second * BETAS[1] + slope * slope * (1 - BETAS[1])
                size = TAU / (1 - BETAS[0] ** state.steps[constraint])
                root = math.sqrt(state.second / (1 - BETAS[1] ** sum(state.steps.values()))) + EPS
                state.scale = max(state.scale - size * state.first[constraint] / root, floor)
                p.data.mul_(state.scale * state.norm / norm)


def authors_parameters(model: nn.Module) -> list[tuple[nn.Module, str, nn.Parameter]]:
    """Return the module, name and tensor of each parameter, in the modules' order; a multiplier is their `Scale`."""
    return [(module, name, p) for module in model.modules() for name, p in module.named_parameters(recurse=False)]


def authors_gradinit(model: nn.Module, batches: Batches, iterations: int, gamma: float) -> Done:
    """Tune a model in place as the authors' loop does."""
    places = authors_parameters(model)
    parameters = [p for _, _, p in places]
    names = {p: name for name, p in model.named_parameters()}
    optimizer = AuthorsAdam(
        [
            (FLOOR, [p for p, name in names.items() if "bias" not in name]),
            (0.0, [p for p, name in names.items() if "bias" in name]),
        ]
    )
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.training, module.track_running_stats = True, False
    draw = iter(batches)
    norms = []
    for _ in range(iterations):
        a, b = next(draw), next(draw)
        loss = functional.cross_entropy(model(torch.cat([a[0], b[0]])), torch.cat([a[1], b[1]]))
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        squares: Any = sum([g.square().sum() for g in gradients])
        norm = squares.sqrt()
        step = [g / norm for g in gradients]
        norms.append(norm.item())
        if norm.item() > gamma:
            optimizer.zero_grad()
            norm.backward()
            optimizer.step(constraint=True)
        else:
            for (module, name, p), part in zip(places, step, strict=True):
                delattr(module, name)
                setattr(module, name, p - (ETA * part).data)
            c = next(draw)
            after = functional.cross_entropy(model(torch.cat([a[0], c[0]])), torch.cat([a[1], c[1]]))
            for module, name, p in places:
                delattr(module, name)
                module.register_parameter(name, p)
            optimizer.zero_grad()
            (after / ETA).backward()
            optimizer.step(constraint=False)
    return norms, {names[p]: state.scale for p, state in optimizer.states.items() if state.norm > 0}


def initbench_gradinit(model: nn.Module, batches: Batches, iterations: int, gamma: float) -> Done:
    """Do the same with initbench."""
    options = {"tau": TAU, "eta": ETA, "gamma": gamma, "floor": FLOOR, "clip": CLIP, "optimizer": "sgd"}
    record = initbench.initialize(model, "gradinit", base=None, iterations=iterations, batches=batches, **options)
    return [float(entry["gradient_norm"] or "nan") for entry in record.history], record.conditions["scales"]


def same_algorithm(start: nn.Module, batches: Batches) -> None:
    """Check that both sides do the same in iterations of each kind and of both in turn, on a few small images.

    In float64: where a scale hardly matters, its derivative in float32 is half rounding, which Adam makes a step of.
    """
    start = deepcopy(start).double()
    batches = [(inputs[:FEW, :, :SMALL, :SMALL].double(), targets[:FEW]) for inputs, targets in batches]
    norms, _ = initbench_gradinit(deepcopy(start), batches, CHECKED, min(KINDS.values()))
    between = median(norms)
    for gamma in (*KINDS.values(), between):
        ours, reference = deepcopy(start), deepcopy(start)
        norms, scales = initbench_gradinit(ours, batches, CHECKED, gamma)
        expected_norms, expected_scales = authors_gradinit(reference, batches, CHECKED, gamma)
        if gamma == between and len({norm > gamma for norm in norms}) < 2:
            raise AssertionError(f"the iterations were all of one kind: {norms}")
        torch.testing.assert_close(norms, expected_norms, rtol=1e-6, atol=0)
        torch.testing.assert_close(scales, expected_scales, rtol=1e-6, atol=0)
        for tensor, expected in zip(ours.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(tensor, expected, rtol=1e-6, atol=0)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for each network and kind of iteration."""
    torch.manual_seed(0)
    networks, half = ([NETWORKS[0] | {"depth": 10}], 2) if quick else (NETWORKS, HALF)
    count = 3 * max(ITERATIONS, CHECKED)
    batches = [(torch.randn(half, 3, 32, 32), torch.randint(10, (half,))) for _ in range(count)]
    rows = []
    for network in networks:
        start = initbench.create_model(**network)
        initbench.initialize(start, "kaiming")
        same_algorithm(start, batches)
        for kind, gamma in KINDS.items():

            def ours(start: nn.Module = start, gamma: float = gamma) -> None:
                initbench_gradinit(deepcopy(start), batches, ITERATIONS, gamma)

            def authors(start: nn.Module = start, gamma: float = gamma) -> None:
                authors_gradinit(deepcopy(start), batches, ITERATIONS, gamma)

            pairs = timing.paired(ours, authors, runs)
            case = "{name}-{depth}-{width}, norm {norm}".format_map(network) + f", batch {2 * half}, descending {kind}"
            rows.append(timing.Row.of_pairs(case, pairs, BOUND, per=ITERATIONS))
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=11, threads=1)
