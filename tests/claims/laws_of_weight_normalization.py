"""What the reviews of weight normalization's initialization ask of it, and what follows from it."""

from __future__ import annotations

import itertools
import math

import torch
from law import Finding, held_or_not, judged, law
from measured_nets import digits_batch, mean_and_error, of, random_batch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.parametrizations import weight_norm

from initbench import initialize


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


@law("weightnorm-init-keeps-norms-over-depth", slow=True)
def keeps_norms() -> Finding:
    """100 layers: the first maps 500 to 300 features."""
    found: dict[str, list[float]] = {"forward": [], "backward": [], "scale 1": []}
    for seed in range(20):
        model = normalized_chain(list(itertools.islice(itertools.cycle((500, 300)), 101)))
        initialize(model, "weight_norm", gain="forward", seed=seed)
        found["forward"].append(energies(model, seed)[0])
        initialize(model, "weight_norm", gain="backward", seed=seed)
        found["backward"].append(energies(model, seed)[1])
        set_gains(model, 1.0)
        found["scale 1"].append(max(energies(model, seed)))
    medians = {name: torch.tensor(values, dtype=torch.float64).median().item() for name, values in found.items()}
    held = all(0.1 <= medians[name] <= 10 for name in ("forward", "backward")) and medians["scale 1"] < 1e-20
    measured = "median squared-norm ratio " + ", ".join(f"{value:.3g} ({name})" for name, value in medians.items())
    return Finding(held_or_not(held), measured, 20)


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


@law("weightnorm-infinite-width-not-needed", slow=True)
def infinite_width_not_needed() -> Finding:
    """Layers of constant width, where both scales are √2; the nets of 100 layers have 500 draws."""
    generator = torch.Generator().manual_seed(0)
    furthest, medians = 0.0, {}
    for width in (2, 4, 16, 64, 256):
        mean, error = mean_and_error(layer_ratios((100_000,), width, generator))
        furthest = max(furthest, abs(mean - 1) / error)
        medians[width] = layer_ratios((500, 100), width, generator).log().sum(1).median().item()
    distances = [abs(value) for value in medians.values()]
    # Two widths at which the typical net is dead are both infinitely far, and neither is farther than the other.
    apart = all(narrow > wide for narrow, wide in itertools.pairwise(distances))
    measured = (
        f"mean ratio of one layer within {furthest:.2f} standard errors of 1 at every width; median log ratio of 100 "
        "layers " + ", ".join(f"{value:.2f} (width {width})" for width, value in medians.items())
    )
    return Finding(judged(held=furthest <= 3 and apart, not_held=furthest > 3), measured, 100_000)


class WeightNormalizedBlock(nn.Module):
    """x + W₂·ReLU(W₁·x)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = weight_norm(nn.Linear(width, width)), weight_norm(nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(self.first(x).relu())


def library_growth(blocks: int, seed: int) -> float:
    """Return the squared-norm ratio of a stage of width 64 under the library's initializer."""
    model = nn.Sequential(*(WeightNormalizedBlock(64) for _ in range(blocks))).double()
    initialize(model, "weight_norm", seed=seed)
    x = random_batch((1, 64), seed, torch.float64)[0]
    with torch.no_grad():
        return (model(x).square().sum() / x.square().sum()).item()


def drawn_growth(blocks: int, scale: float, seed: int) -> float:
    """Return the same for one input, with κ = `scale` of each branch's last layer, without the matrices.

    A random orthogonal matrix takes a vector to a uniform one of its norm, and those of the layers are independent.
    """
    generator = torch.Generator().manual_seed(seed)
    x = nn.functional.normalize(torch.randn(64, generator=generator, dtype=torch.float64), dim=0)
    for _ in range(blocks):
        u, w = (nn.functional.normalize(v, dim=0) for v in torch.randn(2, 64, generator=generator, dtype=torch.float64))
        hidden = (math.sqrt(2) * x.norm() * u).relu()
        x = x + math.sqrt(scale) * hidden.norm() * w
    return x.square().sum().item()


@law("weightnorm-residual-growth-bounded", slow=True)
def residual_growth() -> Finding:
    """Up to 100 blocks by the library's initializer, beyond by the law of its layers, for one input each."""
    depths = (10, 100, 1000, 10_000)
    medians = {}
    for blocks in depths:
        draws = [library_growth(blocks, s) if blocks <= 100 else drawn_growth(blocks, 1 / blocks, s) for s in range(20)]
        medians[blocks] = torch.tensor(draws, dtype=torch.float64).median().item()
    expected = {blocks: (1 + 1 / blocks) ** blocks for blocks in depths}
    unscaled = torch.tensor([drawn_growth(100, 1.0, seed) for seed in range(20)], dtype=torch.float64).median().item()
    near = all(abs(medians[b] / expected[b] - 1) <= 0.3 for b in depths)
    measured = (
        "median ratio "
        + ", ".join(f"{medians[b]:.3f} (B = {b}; formula {expected[b]:.3f})" for b in depths)
        + f"; with scale 1 {unscaled:.2g} after 100 blocks"
    )
    not_held = any(value > 5 or value < 1 for value in medians.values())
    return Finding(judged(held=near and unscaled > 1e6, not_held=not_held), measured, 20)


@law("weightnorm-widening-layers-cannot-have-orthogonal-rows")
def widening_layers() -> Finding:
    """One layer with ReLU under the forward scale, for one random input each; orthogonal is a cosine below 1e-10."""
    cosines, means, spreads = {}, {}, {}
    for inputs, outputs in ((32, 64), (64, 64), (64, 32)):
        model = normalized_chain([inputs, outputs])
        largest, ratios = 0.0, []
        for seed in range(100):
            initialize(model, "weight_norm", seed=seed)
            rows = nn.functional.normalize(model[0].weight.detach(), dim=1)
            largest = max(largest, (rows @ rows.T - torch.eye(outputs, dtype=torch.float64)).abs().max().item())
            x = random_batch((1, inputs), seed, torch.float64)[0]
            ratios.append((model(x).square().sum() / x.square().sum()).item())
        shape = f"{inputs} to {outputs}"
        cosines[shape] = largest
        values = torch.tensor(ratios, dtype=torch.float64)
        mean, error = mean_and_error(values)
        means[shape], spreads[shape] = (mean - 1) / error, values.std().item()
    widening, *others = cosines
    held = cosines[widening] > 1e-10 and all(cosines[shape] < 1e-10 for shape in others)
    held = held and all(abs(departure) <= 3 for departure in means.values())
    measured = "; ".join(
        f"{shape}: largest cosine {cosines[shape]:.2g}, mean ratio {means[shape]:+.2f} standard errors from 1 "
        f"(deviation {spreads[shape]:.2f})"
        for shape in cosines
    )
    return Finding(held_or_not(held), measured, 100)


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


@law("weightnorm-gradients-of-weights-follow", slow=True)
def gradients_of_weights() -> Finding:
    """The factor is the largest norm over the least, judged by the median over draws in each of four cases.

    Widths 64 throughout, and 128 and 32 in turn; the gradient of the weights is that of g and v together.
    """
    plans = {"constant": [64] * 51, "alternating": [64, *itertools.islice(itertools.cycle((128, 32)), 50)]}
    times, parts = [], []
    for plan, widths in plans.items():
        for gain in ("forward", "backward"):
            spreads = torch.tensor([gradient_spreads(widths, gain, seed) for seed in range(20)], dtype=torch.float64)
            times.append((spreads[:, 1] / spreads[:, 0]).median().item())
            before, after = spreads.median(0).values.tolist()
            parts.append(f"{plan}, {gain}: {before:.2f} and {after:.2f}")
    measured = "factors of pre-activations and of weights over layers " + "; ".join(parts)
    status = judged(held=max(times) <= 2, not_held=max(times) > 10)
    return Finding(status, measured, 20, (min(times), max(times)), "The interval is that of the second over the first.")


@law("weightnorm-forward-backward-differ-with-width")
def forward_and_backward() -> Finding:
    """The part without training: whether the two starts are bitwise equal at constant width, and only there."""
    plans = {"constant": [64] * 20, "alternating": [64, *([128, 32] * 9), 128], "growing": [64, *range(32, 127, 5)]}
    equal = {}
    for plan, widths in plans.items():
        model = normalized_chain(widths)
        same = []
        for seed in range(5):
            states = []
            for gain in ("forward", "backward"):
                initialize(model, "weight_norm", gain=gain, seed=seed)
                states.append([p.detach().clone() for p in model.parameters()])
            same.append(all(map(torch.equal, *states)))
        equal[plan] = sum(same)
    measured = "bitwise equal starts: " + ", ".join(
        f"{of(count, 5)} draws ({plan} width)" for plan, count in equal.items()
    )
    note = "Whether they differ in error where the width varies needs training, which no law has."
    return Finding(judged(held=False, not_held=False), measured, 5, note=note)
