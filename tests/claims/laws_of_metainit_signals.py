"""What the MetaInit paper says of how signals shrink and grow with depth (section 4.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from law import Confirmation, Finding, held_or_not, judged, law
from measured_nets import explained, random_batch, slope
from torch import Tensor, nn

from initbench import initialize
from initbench.architectures.blocks import BetaSwish, make_activation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@law("metainit-beta-swish-halves-signal-per-layer", evidence="identity")
def beta_swish_halves() -> Finding:
    """The gradient is that of the input for a random gradient of the output; one draw of each depth."""
    depths = list(range(4, 29, 4))
    forward, backward = [], []
    for depth in depths:
        layers = [m for _ in range(depth) for m in (nn.Conv2d(16, 16, 3, padding=1, bias=False), BetaSwish())]
        model = nn.Sequential(*layers).double()
        initialize(model, "delta_orthogonal", seed=depth)
        x = random_batch((8, 16, 8, 8), depth, torch.float64)[0].requires_grad_()
        output = model(x)
        cotangent = random_batch(tuple(output.shape), depth + 1, torch.float64)[0]
        (gradient,) = torch.autograd.grad(output, x, cotangent)
        forward.append(math.log2(output.norm().item() / x.norm().item()))
        backward.append(math.log2(gradient.norm().item() / cotangent.norm().item()))
    slopes = slope(depths, forward), slope(depths, backward)
    off = max(abs(s + 1) for s in slopes)
    measured = (
        f"log2 of the activation norm falls by {-slopes[0]:.4f} a layer, of the gradient norm by {-slopes[1]:.4f}"
    )
    values = {"depth": depths, "log2_of_activation_norm_ratio": forward, "log2_of_gradient_norm_ratio": backward}
    return Finding(judged(held=off <= 0.05, not_held=off > 0.2), measured, len(depths), "depths", values)


class Branch(nn.Module):
    """W₂·ReLU(W₁·ReLU(x)), which keeps the mean square of its input under a Kaiming start."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(width, width, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x.relu()).relu())


@torch.no_grad()
def variances(branches: nn.ModuleList, x: Tensor, scale: float) -> list[float]:
    """Return the variance of the activations before the first block and after each, x + scale · branch(x)."""
    result = [x.var().item()]
    for branch in branches:
        x = x + scale * branch(x)
        result.append(x.var().item())
    return result


@law(
    "metainit-residual-needs-downscaling-by-depth",
    evidence="at initialization",
    slow=True,
    confirmation=Confirmation("width 128, seeds 100 to 119", {"width": 128, "seeds": range(100, 120)}),
)
def residual_needs_downscaling(width: int = 64, seeds: Sequence[int] = range(20)) -> Finding:
    """Linear growth is judged in each draw of the deepest net, the ratio from before the first block to after the last.

    Branches are as in a pre-activation network.
    """
    depths = (4, 16, 64, 256)
    slopes: dict[float, list[float]] = {1.0: [], 0.5: []}
    straight: dict[float, list[float]] = {1.0: [], 0.5: []}
    ratios: dict[tuple[str, int], list[float]] = {}
    for seed in seeds:
        every = nn.ModuleList(Branch(width) for _ in range(max(depths))).double()
        initialize(every, "kaiming", seed=seed)
        x = random_batch((32, width), seed, torch.float64)[0]
        for scale, found in slopes.items():
            logs = torch.tensor(variances(every, x, scale), dtype=torch.float64).log()
            found.append(slope(list(range(len(logs))), logs))
            straight[scale].append(explained(list(range(len(logs))), logs))
        for depth in depths:
            for name, scale in (("1/sqrt(L)", depth**-0.5), ("1/L", 1 / depth)):
                profile = variances(every[:depth], x, scale)
                ratios.setdefault((name, depth), []).append(profile[-1] / profile[0])
    medians = {key: torch.tensor(values).median().item() for key, values in ratios.items()}
    squares = straight[1.0] + straight[0.5]
    lowest = {scale: min(found) for scale, found in slopes.items()}
    largest = {name: max(v for (n, _), v in medians.items() if n == name) for name in ("1/sqrt(L)", "1/L")}
    measured = (
        f"log variance rises by at least {lowest[1.0]:.3f} (scale 1) and {lowest[0.5]:.3f} (scale 1/2) a block, R2 at "
        f"least {min(squares):.4f}; the largest median ratio over depths is "
        f"{largest['1/sqrt(L)']:.2f} for 1/sqrt(L) and {largest['1/L']:.2f} for 1/L"
    )
    held = min(squares) > 0.99 and min(lowest.values()) > 0.1 and max(medians.values()) < 3
    values = {f"slope_for_scale_{scale:g}": found for scale, found in slopes.items()}
    values |= {f"r_squared_for_scale_{scale:g}": found for scale, found in straight.items()}
    values |= {f"variance_ratio_for_scale_{name}_at_{depth}_blocks": found for (name, depth), found in ratios.items()}
    return Finding(held_or_not(held), measured, len(seeds), "draws", values)


def deviation_ratio(activation: nn.Module, std: float) -> float:
    """Return the root mean square of an activation of N(0, std²) over that of its input, by the trapezoidal rule."""
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    mean_square = torch.trapezoid(activation(std * z).square() * density, z)
    return math.sqrt(mean_square) / std


def hermite_ratio(activation: nn.Module, std: float) -> float:
    """Return the same by the Gauss-Hermite rule of 200 nodes."""
    nodes, weights = (torch.from_numpy(array) for array in np.polynomial.hermite_e.hermegauss(200))
    mean_square = (weights * activation(std * nodes).square()).sum() / weights.sum()
    return math.sqrt(mean_square) / std


@law(
    "metainit-activation-downscale-factors",
    evidence="identity",
    confirmation=Confirmation(
        "deviations 0.02, 0.05, 0.2, 0.5 and 0.8 by the Gauss-Hermite rule of 200 nodes",
        {"stds": (0.02, 0.05, 0.2, 0.5, 0.8), "ratio": hermite_ratio},
    ),
)
def activation_factors(
    stds: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0),
    ratio: Callable[[nn.Module, float], float] = deviation_ratio,
) -> Finding:
    """ReLU's is 0.7071 to four digits."""
    relu = [ratio(make_activation("relu"), std) for std in stds]
    swish = [ratio(make_activation("swish"), std) for std in stds]
    held = all(abs(r - 0.7071) < 5e-5 for r in relu) and all(0.4 <= s <= 0.6 for s in swish)
    measured = (
        f"ReLU {min(relu):.4f} to {max(relu):.4f}; Swish {min(swish):.4f} to {max(swish):.4f}, rising with the input"
    )
    values = {"deviation": list(stds), "ratio_of_relu": relu, "ratio_of_swish": swish}
    return Finding(held_or_not(held), measured, len(stds), "deviations", values, (min(swish), max(swish)))
