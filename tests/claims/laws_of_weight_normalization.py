"""What the reviews of weight normalization's initialization ask of it, and what follows from it."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING

import torch
from law import Confirmation, Finding, held_or_not, judged, law
from measured_nets import digits_batch, mean_and_error, of, random_batch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.parametrizations import weight_norm

from initbench import initialize

if TYPE_CHECKING:
    from collections.abc import Sequence


def normalized_chain(widths: list[int], *, last: bool = True) -> nn.Sequential:
    """Return weight-normalized linear layers in float64 with biases, a ReLU after each, the last one's if `last`."""
    layers = [m for a, b in itertools.pairwise(widths) for m in (weight_norm(nn.Linear(a, b)), nn.ReLU())]
    return nn.Sequential(*(layers if last else layers[:-1])).double()


def set_gains(model: nn.Module, gain: float) -> None:
    """Give every output of every weight-normalized layer one gain."""
    for name, parameter in model.named_parameters():
        if name.endswith("weight.original0"):
            nn.init.constant_(parameter, gain)


def energies(model: nn.Module, seed: int) -> tuple[float, float]:
    """Return squared-norm ratios, of outputs over inputs and of gradients at the inputs over those at the outputs."""
    x = random_batch((32, model[0].in_features), seed, torch.float64)[0].requires_grad_()
    output = model(x)
    cotangent = random_batch(tuple(output.shape), seed + 1000, torch.float64)[0]
    (gradient,) = torch.autograd.grad(output, x, cotangent)
    ratios = output.square().sum() / x.square().sum(), gradient.square().sum() / cotangent.square().sum()
    return ratios[0].item(), ratios[1].item()


@law(
    "weightnorm-init-keeps-norms-over-depth",
    evidence="at initialization",
    slow=True,
    confirmation=Confirmation(
        "120 layers of widths alternating 128 and 384, seeds 100 to 119",
        {"widths": (128, 384), "layers": 120, "seeds": range(100, 120)},
    ),
)
def keeps_norms(widths: tuple[int, int] = (500, 300), layers: int = 100, seeds: Sequence[int] = range(20)) -> Finding:
    """The first layer maps the first width to the second."""
    found: dict[str, list[float]] = {"forward": [], "backward": [], "scale 1": []}
    for seed in seeds:
        model = normalized_chain(list(itertools.islice(itertools.cycle(widths), layers + 1)))
        initialize(model, "weight_norm", gain="forward", seed=seed)
        found["forward"].append(energies(model, seed)[0])
        initialize(model, "weight_norm", gain="backward", seed=seed)
        found["backward"].append(energies(model, seed)[1])
        set_gains(model, 1.0)
        found["scale 1"].append(max(energies(model, seed)))
    medians = {name: torch.tensor(values, dtype=torch.float64).median().item() for name, values in found.items()}
    held = all(0.1 <= medians[name] <= 10 for name in ("forward", "backward")) and medians["scale 1"] < 1e-20
    measured = "median squared-norm ratio " + ", ".join(f"{value:.3g} ({name})" for name, value in medians.items())
    values = {
        "forward_ratio_for_forward_scale": found["forward"],
        "backward_ratio_for_backward_scale": found["backward"],
        "larger_ratio_for_scale_1": found["scale 1"],
    }
    return Finding(held_or_not(held), measured, len(seeds), "draws", values)


def layer_ratios(shape: tuple[int, ...], width: int, generator: torch.Generator) -> Tensor:
    """Return squared-norm ratios of independent layers ReLU(√2 W x) whose rows are uniform on the sphere.

    The product of such a row with any x is ‖x‖ times one entry of a uniform unit vector, z / √(z² + χ²) for a normal z
    and the squares of the other entries, whatever x is. So the ratios of the layers of a net are independent too.
    """
    ratios = torch.zeros(shape, dtype=torch.float64)
    others = torch.distributions.Gamma(torch.tensor((width - 1) / 2, dtype=torch.float64), 0.5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        for _ in range(width):
            z = torch.randn(shape, generator=generator, dtype=torch.float64)
            ratios += 2 * (z.clamp(min=0).square() / (z.square() + others.sample(shape)))
    return ratios


@law("weightnorm-infinite-width-not-needed", evidence="at initialization", slow=True)
def infinite_width_not_needed() -> Finding:
    """Layers of constant width, where both scales are √2; the nets of 100 layers have 500 draws.

    A net is dead if its output is exactly zero. The typical net moves away from the mean as width falls if the share of
    dead nets never falls, and the median log ratio moves away from 0 over the widths at which it is finite. Of two
    widths whose median nets are dead, the narrower must have more dead nets after 10 layers.
    """
    generator = torch.Generator().manual_seed(100)
    widths, nets = (2, 4, 16, 64, 256), 500
    values: dict[str, list] = {"width": list(widths), "mean_ratio_of_one_layer": [], "standard_error_of_mean_ratio": []}
    logs: list[Tensor] = []
    for width in widths:
        mean, error = mean_and_error(layer_ratios((100_000,), width, generator))
        values["mean_ratio_of_one_layer"].append(mean)
        values["standard_error_of_mean_ratio"].append(error)
        logs.append(layer_ratios((nets, 100), width, generator).log().cumsum(1))
    means_and_errors = zip(values["mean_ratio_of_one_layer"], values["standard_error_of_mean_ratio"], strict=True)
    furthest = max(abs(mean - 1) / error for mean, error in means_and_errors)
    early, dead = ([int(log[:, layer].isinf().sum()) for log in logs] for layer in (9, 99))
    medians = [log[:, -1].median().item() for log in logs]
    values |= {"nets": [nets], "dead_after_10_layers": early, "dead_after_100_layers": dead}
    values["log_ratio_of_100_layers"] = [log[:, -1].tolist() for log in logs]
    finite = [abs(median) for median in medians if math.isfinite(median)]
    apart = all(narrow >= wide for narrow, wide in itertools.pairwise(dead))
    apart = apart and all(narrow > wide for narrow, wide in itertools.pairwise(finite))
    apart = apart and all(
        early[i] > early[i + 1]
        for i in range(len(widths) - 1)
        if not math.isfinite(medians[i]) and not math.isfinite(medians[i + 1])
    )
    measured = (
        f"mean ratio of one layer within {furthest:.2f} standard errors of 1 at every width; median log ratio of 100 "
        "layers "
        + ", ".join(f"{median:.2f} (width {width})" for width, median in zip(widths, medians, strict=True))
        + f"; dead of {nets} nets after 10 layers {', '.join(map(str, early))}, after 100 {', '.join(map(str, dead))}"
    )
    return Finding(judged(held=furthest <= 3 and apart, not_held=furthest > 3), measured, 100_000, "draws", values)


class WeightNormalizedBlock(nn.Module):
    """x + W₂·ReLU(W₁·x)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = weight_norm(nn.Linear(width, width)), weight_norm(nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(self.first(x).relu())


def library_growth(blocks: int, width: int, seed: int) -> float:
    """Return the squared-norm ratio of a stage under the library's initializer."""
    model = nn.Sequential(*(WeightNormalizedBlock(width) for _ in range(blocks))).double()
    initialize(model, "weight_norm", seed=seed)
    x = random_batch((1, width), seed, torch.float64)[0]
    with torch.no_grad():
        return (model(x).square().sum() / x.square().sum()).item()


def drawn_growth(blocks: int, scale: float, width: int, seed: int) -> float:
    """Return the same for one input, with κ = `scale` of each branch's last layer, without the matrices.

    A random orthogonal matrix takes a vector to a uniform one of its norm, and those of the layers are independent.
    """
    generator = torch.Generator().manual_seed(seed)
    x = nn.functional.normalize(torch.randn(width, generator=generator, dtype=torch.float64), dim=0)
    for _ in range(blocks):
        pair = torch.randn(2, width, generator=generator, dtype=torch.float64)
        u, w = (nn.functional.normalize(v, dim=0) for v in pair)
        hidden = (math.sqrt(2) * x.norm() * u).relu()
        x = x + math.sqrt(scale) * hidden.norm() * w
    return x.square().sum().item()


@law(
    "weightnorm-residual-growth-bounded",
    evidence="at initialization",
    slow=True,
    confirmation=Confirmation("width 32, seeds 100 to 119", {"width": 32, "seeds": range(100, 120)}),
)
def residual_growth(width: int = 64, seeds: Sequence[int] = range(20)) -> Finding:
    """Up to 100 blocks by the library's initializer, beyond by the law of its layers, for one input each."""
    depths = (10, 100, 1000, 10_000)
    values, medians = {}, {}
    for blocks in depths:
        values[f"ratio_of_{blocks}_blocks"] = draws = [
            library_growth(blocks, width, seed) if blocks <= 100 else drawn_growth(blocks, 1 / blocks, width, seed)
            for seed in seeds
        ]
        medians[blocks] = torch.tensor(draws, dtype=torch.float64).median().item()
    expected = {blocks: (1 + 1 / blocks) ** blocks for blocks in depths}
    values["ratio_of_100_blocks_of_scale_1"] = draws = [drawn_growth(100, 1.0, width, seed) for seed in seeds]
    unscaled = torch.tensor(draws, dtype=torch.float64).median().item()
    near = all(abs(medians[b] / expected[b] - 1) <= 0.3 for b in depths)
    measured = (
        "median ratio "
        + ", ".join(f"{medians[b]:.3f} (B = {b}; formula {expected[b]:.3f})" for b in depths)
        + f"; with scale 1 {unscaled:.2g} after 100 blocks"
    )
    not_held = any(value > 5 or value < 1 for value in medians.values())
    status = judged(held=near and unscaled > 1e6, not_held=not_held)
    return Finding(status, measured, len(seeds), "draws", values)


@law("weightnorm-widening-layers-cannot-have-orthogonal-rows", evidence="identity")
def widening_layers() -> Finding:
    """One layer with ReLU under the forward scale, for one random input each; orthogonal is a cosine below 1e-10."""
    cosines, means, spreads = {}, {}, {}
    values: dict[str, list[float]] = {}
    for inputs, outputs in ((32, 64), (64, 64), (64, 32)):
        model = normalized_chain([inputs, outputs])
        largest, ratios = [], []
        for seed in range(100):
            initialize(model, "weight_norm", seed=seed)
            rows = nn.functional.normalize(model[0].weight.detach(), dim=1)
            largest.append((rows @ rows.T - torch.eye(outputs, dtype=torch.float64)).abs().max().item())
            x = random_batch((1, inputs), seed, torch.float64)[0]
            ratios.append((model(x).square().sum() / x.square().sum()).item())
        shape = f"{inputs} to {outputs}"
        cosines[shape] = max(largest)
        key = shape.replace(" ", "_")
        values |= {f"largest_cosine_{key}": largest, f"squared_norm_ratio_{key}": ratios}
        mean, error = mean_and_error(torch.tensor(ratios, dtype=torch.float64))
        means[shape], spreads[shape] = (mean - 1) / error, statistics.stdev(ratios)
    widening, *others = cosines
    held = cosines[widening] > 1e-10 and all(cosines[shape] < 1e-10 for shape in others)
    held = held and all(abs(departure) <= 3 for departure in means.values())
    measured = "; ".join(
        f"{shape}: largest cosine {cosines[shape]:.2g}, mean ratio {means[shape]:+.2f} standard errors from 1 "
        f"(deviation {spreads[shape]:.2f})"
        for shape in cosines
    )
    return Finding(held_or_not(held), measured, 100, "draws", values)


def gradient_spreads(widths: list[int], gain: str, seed: int) -> tuple[float, float]:
    """Return the largest over the least norm of a layer, of the gradients of pre-activations and of weights, g and v.

    All layers but the first, whose input is an image, and the classifier, which has no weight normalization.
    """
    model = normalized_chain(widths)
    model.append(nn.Linear(widths[-1], 10).double())
    initialize(model, "weight_norm", gain=gain, seed=seed)
    images, targets = digits_batch(64, seed, torch.float64)
    x, hidden = images.flatten(1), []
    for layer in model:
        x = layer(x)
        if isinstance(layer, nn.Linear):
            hidden.append(x)
    weights = [
        list(layer.parametrizations.weight.parameters()) for layer in model[:-1] if hasattr(layer, "parametrizations")
    ]
    loss = cross_entropy(x, targets)
    before = torch.stack([g.norm() for g in torch.autograd.grad(loss, hidden[1:-1], retain_graph=True)])
    pairs = [torch.autograd.grad(loss, pair, retain_graph=True) for pair in weights[1:]]
    after = torch.stack([torch.cat([g.flatten() for g in pair]).norm() for pair in pairs])
    return (before.max() / before.min()).item(), (after.max() / after.min()).item()


@law("weightnorm-gradients-of-weights-follow", evidence="at initialization", slow=True)
def gradients_of_weights() -> Finding:
    """The factor is the largest norm over the least, judged by the median over draws in each of four cases.

    Widths 64 throughout, and 128 and 32 in turn; the gradient of the weights is that of g and v together.
    """
    plans = {"constant": [64] * 51, "alternating": [64, *itertools.islice(itertools.cycle((128, 32)), 50)]}
    times, parts = [], []
    values: dict[str, list[float]] = {}
    for plan, widths in plans.items():
        for gain in ("forward", "backward"):
            spreads = torch.tensor([gradient_spreads(widths, gain, seed) for seed in range(20)], dtype=torch.float64)
            times.append((spreads[:, 1] / spreads[:, 0]).median().item())
            values[f"factor_of_pre_activations_{plan}_{gain}"] = spreads[:, 0].tolist()
            values[f"factor_of_weights_{plan}_{gain}"] = spreads[:, 1].tolist()
            before, after = spreads.median(0).values.tolist()
            parts.append(f"{plan}, {gain}: {before:.2f} and {after:.2f}")
    measured = "factors of pre-activations and of weights over layers " + "; ".join(parts)
    status = judged(held=max(times) <= 2, not_held=max(times) > 10)
    note = "The interval is that of the second over the first."
    return Finding(status, measured, 20, "draws", values, (min(times), max(times)), note)


@law("weightnorm-forward-backward-differ-with-width", evidence="identity")
def forward_and_backward() -> Finding:
    """The part without training: the starts are bitwise equal at constant width and differ where the width varies."""
    growing = list(range(32, 127, 5))
    plans = {
        "constant": [64] * 20,
        "alternating": [64, *([128, 32] * 9), 128],
        "growing": [64, *growing],
        "shrinking": [64, *reversed(growing)],
    }
    equal = {}
    for plan, widths in plans.items():
        model = normalized_chain(widths)
        same = []
        for seed in range(5, 10):
            states = []
            for gain in ("forward", "backward"):
                initialize(model, "weight_norm", gain=gain, seed=seed)
                states.append([p.detach().clone() for p in model.parameters()])
            same.append(all(map(torch.equal, *states)))
        equal[plan] = same
    measured = "bitwise equal starts: " + ", ".join(
        f"{of(sum(same), 5)} draws ({plan} width)" for plan, same in equal.items()
    )
    held = all(equal["constant"]) and not any(any(same) for plan, same in equal.items() if plan != "constant")
    note = "Whether they differ in error where the width varies needs training, which no law has."
    values = {f"equal_at_{plan}_width": same for plan, same in equal.items()}
    return Finding(held_or_not(held), measured, 5, "seeds", values, note=note, part="the starts")
