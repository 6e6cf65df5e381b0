"""What section 2 of the MetaInit paper says of the gradient quotient itself."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import torch
from dense_hessians import gradient_and_hessian
from law import Confirmation, Finding, held_or_not, judged, law
from measured_nets import chain, conv_net, digits_batch, gradient, of, random_batch, slope
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from initbench import gradient_quotient, initialize

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_DAMPING = 1e-300
"""As ε0: no entry of a gradient changes by it, and the library asks for more than 0."""
STARTS = {
    "kaiming": {},
    "xavier": {},
    "orthogonal": {},
    "pytorch_default": {},
    "gaussian": {"std": 0.2},
}


class Parameters(nn.Module):
    """A network whose output is its parameter vector, so that the loss is any function of it."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, _inputs: Tensor) -> Tensor:
        return self.theta


def quotient_of(loss, *theta: float, eps: float = 1e-5) -> float:
    """Return GQ of a function of a parameter vector at a point."""
    nothing = torch.zeros(1)
    return gradient_quotient(Parameters(*theta), nothing, nothing, lambda output, _: loss(output), eps=eps).item()


@law(
    "metainit-gq-linear-loss-zero",
    evidence="identity",
    confirmation=Confirmation(
        "six parameters: c = (0.7, 3, -1.5, 0.4, -1, 2), another matrix and another point",
        {
            "c": (0.7, 3.0, -1.5, 0.4, -1.0, 2.0),
            "a": [[1.5 if i == j else 0.2 * (-1) ** (i + j) / (1 + abs(i - j)) for j in range(6)] for i in range(6)],
            "theta": (0.5, 1.0, -0.5, 1.5, 0.2, -1.0),
        },
    ),
)
def linear_loss(
    c: Sequence[float] = (1.0, -2.0, 0.5),
    a: Sequence[Sequence[float]] = ((2.0, 0.3, 0.1), (0.3, 0.5, -0.2), (0.1, -0.2, 1.0)),
    theta: Sequence[float] = (1.0, -1.0, 0.5),
) -> Finding:
    """In proportion: the slope of log GQ against log s is 1 ± 0.05 while GQ is far above its floor (s ≥ 1e-3)."""
    linear, matrix = torch.tensor(c, dtype=torch.float64), torch.tensor(a, dtype=torch.float64)
    scales = [10.0**-k for k in range(13)]
    found = [quotient_of(lambda t, s=s: linear @ t + s * (t @ matrix @ t) / 2, *theta) for s in scales]
    falls = slope([-1.0, -2.0, -3.0], torch.tensor(found[1:4]).log10())
    floor = (1e-5 / (linear.abs() + 1e-5)).mean().item()
    ends = abs(found[-1] / floor - 1) < 1e-5
    measured = f"falls as s^{falls:.3f}; {found[-1]:.5e} at s = 1e-12, where eps alone gives {floor:.5e}"
    values = {"c": list(c), "s": scales, "quotient": found}
    status = judged(held=abs(falls - 1) < 0.05 and ends, not_held=not ends)
    return Finding(status, measured, len(scales), "values of s", values)


class HalfDead(nn.Module):
    """Two layers, half of whose hidden units are off for all inputs."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.dead, self.alive = nn.Linear(inputs, units), nn.Linear(inputs, units)
        self.out = nn.Linear(2 * units, 3)
        nn.init.constant_(self.dead.bias, -1e3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([self.dead(x), self.alive(x)], 1).relu())


@law(
    "metainit-gq-vanished-gradient-one",
    evidence="identity",
    confirmation=Confirmation(
        "a quadratic of five coordinates, 9 dead of 18 units on 12 inputs, seed 100",
        {"diagonal": (0.3, 1.0, 4.0, 7.0, 0.05), "inputs": 12, "units": 9, "seed": 100},
    ),
)
def vanished_gradient(
    diagonal: Sequence[float] = (0.1, 0.5, 2.0), inputs: int = 6, units: int = 5, seed: int = 0
) -> Finding:
    """Every coordinate of a stationary point, and every weight of units that are off for all inputs, adds exactly 1."""
    a = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    stationary = quotient_of(lambda t: t @ a @ t / 2, *[0.0] * len(diagonal))
    torch.manual_seed(seed)
    model = HalfDead(inputs, units).double()
    batch = random_batch((32, inputs), seed, torch.float64, classes=3)
    dead = gradient_quotient(model, *batch, parameters=model.dead.parameters()).item()
    alive = gradient_quotient(model, *batch, parameters=model.alive.parameters()).item()
    weights = sum(p.numel() for p in model.dead.parameters())
    measured = (
        f"{stationary!r} at a stationary point, {dead!r} over {weights} weights of dead units ({alive:.3g} over live "
        "ones)"
    )
    values = {
        "coordinates": [len(diagonal), weights],
        "quotient_at_stationary_point_minus_1": [stationary - 1],
        "quotient_over_dead_units_minus_1": [dead - 1],
        "quotient_over_live_units": [alive],
    }
    note = "All of these coordinates are below eps: where most are, the quotient says nothing of curvature."
    status = held_or_not(stationary == 1.0 and dead == 1.0)
    return Finding(status, measured, len(diagonal) + weights, "coordinates", values, note=note)


def quotient_at_step(model: nn.Module, batch: tuple[Tensor, Tensor], step: float, method: str) -> float:
    """Return GQ with a step of another size than 1, over the coordinates that have a gradient, at ε0 = 1e-12.

    The loss times the step has the gradient step · g and the Hessian step · H, so the quotient of that loss at ε0 times
    the step is |(g − step · Hg) / (g + ε) − 1|, and by finite differences |g(θ − step · g) / (g + ε) − 1|.
    """

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return step * cross_entropy(outputs, targets)

    with torch.no_grad():
        value = gradient_quotient(model, *batch, loss, eps=step * 1e-12, method=method).item()
    g = gradient(model, batch)
    without = int((g == 0).sum())  # each has added exactly 1
    return (value * len(g) - without) / (len(g) - without)


@law("metainit-gq-step-size-only-scales", evidence="at initialization", slow=True, digits=9)
def step_size() -> Finding:
    """The MLP has tanh, so that no coordinate is without gradient; "ranking" is judged per network and seed."""
    nets = {"MLP": lambda: nn.Sequential(nn.Flatten(), *chain([64, 32, 32, 10], nn.Tanh, bias=True)).double()}
    nets["WRN-10-1"] = lambda: conv_net("wrn", 10).double()
    starts = STARTS | {"gaussian": {"std": 0.1}}
    worst, changed, bent = 0.0, dict.fromkeys(nets, 0), []
    values: dict[str, list] = {
        "steps_of_exact_form": [0.01, 0.1, 1.0, 10.0],
        "steps_of_finite_difference": [0.01, 0.1, 1.0],
    }
    for net, build in nets.items():
        for seed in range(5):
            batch = digits_batch(32, seed, torch.float64)
            ranks = {step: [] for step in (0.01, 0.1, 1.0)}
            exacts = []
            for name, arguments in starts.items():
                model = build()
                initialize(model, name, seed=seed, **arguments)
                exact = [quotient_at_step(model, batch, step, "exact") / step for step in (0.01, 0.1, 1.0, 10.0)]
                worst = max(worst, max(exact) / min(exact) - 1)
                exacts.append(exact)
                for step, found in ranks.items():
                    found.append(quotient_at_step(model, batch, step, "finite_difference"))
                bent += [last / (100 * first) for first, last in zip(ranks[0.01], ranks[1.0], strict=True)]
            orders = {tuple(torch.tensor(found).argsort().tolist()) for found in ranks.values()}
            values.setdefault(f"exact_quotient_over_step_of_each_start_on_{net}", []).append(exacts)
            differences = [list(one) for one in zip(*ranks.values(), strict=True)]
            values.setdefault(f"finite_difference_of_each_start_on_{net}", []).append(differences)
            changed[net] += len(orders) > 1
    where = ", ".join(f"{of(count, 5)} seeds on {net}" for net, count in changed.items())
    measured = (
        f"exact quotients over the step differ by at most {worst:.1e}; the ranking of five starts by finite "
        f"differences changes at {where} between steps of 0.01 and 1"
    )
    note = f"The finite difference at a step of 1 is {min(bent):.2f} to {max(bent):.2f} times 100 times that at 0.01."
    held = worst < 0.01 and not any(changed.values())
    status = judged(held=held, not_held=max(changed.values()) >= 3)
    return Finding(status, measured, 5, "seeds", values, note=note)


WIDTHS = (6, 8, 8, 4)


def tanh_net(
    start: str, seed: int, arguments: dict, widths: Sequence[int] = WIDTHS
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Return a tanh network in float64 under an initializer, by default of 164 parameters, and 16 Gaussian inputs."""
    model = chain(list(widths), nn.Tanh, bias=True).double()
    initialize(model, start, seed=seed, **arguments)
    return model, random_batch((16, widths[0]), seed, torch.float64, classes=widths[-1])


@law(
    "metainit-gq-equals-mean-relative-hessian-gradient",
    evidence="identity",
    confirmation=Confirmation(
        "a quadratic of diagonal 0.3, 1, 4, 7 and an MLP of widths 10, 12, 12, 5, seeds 100 to 109",
        {"diagonal": (0.3, 1.0, 4.0, 7.0), "widths": (10, 12, 12, 5), "seeds": range(100, 110)},
    ),
)
def mean_relative_hessian_gradient(
    diagonal: Sequence[float] = (0.1, 0.5, 2.0), widths: Sequence[int] = WIDTHS, seeds: Sequence[int] = range(10)
) -> Finding:
    """Equation (2) from the dense Hessian's eigenvalues and eigenvectors, over 10 draws of a Kaiming start."""
    a = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    point = [(-1.0) ** k * (k + 1) for k in range(len(diagonal))]
    quadratic = quotient_of(lambda t: t @ a @ t / 2, *point, eps=NO_DAMPING)
    differences = [quadratic / math.fsum(diagonal) * len(diagonal) - 1]
    for seed in seeds:
        model, batch = tanh_net("kaiming", seed, {}, widths)
        g, hessian = gradient_and_hessian(model, batch)
        eigenvalues, vectors = torch.linalg.eigh(hessian)
        c = vectors.T @ g
        expected = ((vectors @ (eigenvalues * c)).abs() / (vectors @ c).abs()).mean().item()
        differences.append(gradient_quotient(model, *batch, eps=NO_DAMPING).item() / expected - 1)
    worst = max(map(abs, differences))
    measured = (
        f"a diagonal quadratic gives {quadratic:.10f} ({math.fsum(diagonal):g} / {len(diagonal)}); largest relative "
        f"difference {worst:.1e}"
    )
    values = {"relative_difference_on_quadratic": differences[:1], "relative_difference_on_mlp": differences[1:]}
    return Finding(held_or_not(worst < 1e-8), measured, len(seeds), "draws", values)


@law("metainit-response-quotient-bounded-by-eigenvalues", evidence="identity")
def bounded_by_eigenvalues() -> Finding:
    """The rank correlation is over all 100 networks, 20 draws of each of five starts."""
    quotients, bounds = [], []
    for start, arguments in STARTS.items():
        for seed in range(20):
            model, batch = tanh_net(start, seed, arguments)
            g, hessian = gradient_and_hessian(model, batch)
            eigenvalues, vectors = torch.linalg.eigh(hessian)
            weights = vectors.abs() @ (eigenvalues * (vectors.T @ g)).abs()
            bounds.append((weights / g.abs()).mean().item())
            quotients.append(gradient_quotient(model, *batch, eps=NO_DAMPING).item())
    ratios = [bound / quotient for bound, quotient in zip(bounds, quotients, strict=True)]
    correlation = float(spearmanr(bounds, quotients).statistic)
    measured = (
        f"the bound is {min(ratios):.3g} to {max(ratios):.3g} times the quotient "
        f"(median {statistics.median(ratios):.3g}); rank correlation {correlation:.3f}"
    )
    below = min(ratios) < 1 - 1e-10
    status = judged(held=not below and correlation >= 0.8, not_held=below or correlation < 0.3)
    values = {"quotient": quotients, "bound": bounds}
    return Finding(status, measured, len(ratios), "networks", values, (min(ratios), max(ratios)))
