"""What the MetaInit paper says of tuning bad norms: Figures 3 and 4, section 4.1."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import torch
from law import Confirmation, Finding, judged, law
from measured_nets import chain, of, random_batch
from torch import nn

from initbench import create_model, gradient_quotient, initialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from measured_nets import Batch

WIDTHS = [48] + [48] * 10 + [56] * 9 + [64] * 8 + [10]
"""28 linear layers."""
NARROWING = Confirmation(
    "a linear MLP of 28 layers that narrows with depth, 40 inputs and widths 64, 48, 32 and 10; seeds 100 to 109",
    {"widths": [40] + [64] * 10 + [48] * 9 + [32] * 8 + [10], "seeds": range(100, 110)},
)
"""It was chosen before anything was measured on it."""


def xavier_norm(inputs: int, outputs: int) -> float:
    """Return the norm that Xavier's law gives a weight."""
    return math.sqrt(2 * inputs * outputs / (inputs + outputs))


def kaiming_norm(_inputs: int, outputs: int) -> float:
    """Return the norm that Kaiming's law (fan_in, ReLU) gives a weight."""
    return math.sqrt(2 * outputs)


def distance(model: nn.Module, reference: Callable[[int, int], float]) -> float:
    """Return the mean over layers of |log(norm / reference norm)|."""
    weights = [p.detach() for p in model.parameters()]
    logs = [abs(math.log(w.norm().item() / reference(w.shape[1], w.shape[0]))) for w in weights]
    return sum(logs) / len(logs)


def untuned(widths: list[int], activation: type[nn.Module] | None, std: float, seed: int) -> nn.Module:
    """Return a net from Gaussian(0, std²)."""
    model = chain(widths, activation)
    initialize(model, "gaussian", std=std, seed=seed)
    return model


def tune(model: nn.Module, seed: int, **options) -> float:
    """Tune a net by MetaInit at momentum 0.5, and return the median of its 8 last GQs."""
    arguments = {"base": None, "momentum": 0.5, "num_classes": 10} | options
    record = initialize(model, "metainit", seed=seed, **arguments)
    last = torch.tensor([row["gradient_quotient"] for row in record.history[-8:]], dtype=torch.float64)
    return last.median().item()


def linear_recovery(std: float, widths: list[int], seeds: Sequence[int]) -> Finding:
    """Judge the recovery of the linear net from one start."""
    before, distances, quotients = [], [], []
    for seed in seeds:
        model = untuned(widths, None, std, seed)
        before.append(distance(model, xavier_norm))
        quotients.append(tune(model, seed, steps=1000, input_shape=(128, widths[0])))
        distances.append(distance(model, xavier_norm))
    close = sum(d < 0.3 and q < 0.6 for d, q in zip(distances, quotients, strict=True))
    far = sum(not d <= 0.7 for d in distances)  # so is one that is not finite
    measured = (
        f"mean |log(norm / Xavier norm)| {before[0]:.2f} before, {min(distances):.3f} to {max(distances):.3f} after; "
        f"GQ {min(quotients):.3f} to {max(quotients):.3f}; {of(close, len(seeds))} draws recovered"
    )
    values = {"distance_before": before, "distance_after": distances, "gradient_quotient_after": quotients}
    status = judged(held=close >= 9, not_held=far >= 5)
    return Finding(status, measured, len(seeds), "draws", values, (min(distances), max(distances)))


@law("metainit-f3-plain-too-small-recovers", evidence="at initialization", by_command=True, confirmation=NARROWING)
def recovers_from_too_small(widths: list[int] = WIDTHS, seeds: Sequence[int] = range(10)) -> Finding:
    """The MLP of widths 48 to 64 at batch 128; GQ is the median of the last 8 steps, each on a fresh batch."""
    return linear_recovery(0.02, widths, seeds)


@law("metainit-f3-plain-too-large-recovers", evidence="at initialization", by_command=True, confirmation=NARROWING)
def recovers_from_too_large(widths: list[int] = WIDTHS, seeds: Sequence[int] = range(10)) -> Finding:
    """As from the small start."""
    return linear_recovery(0.3, widths, seeds)


def residual_distance(factor: float, seed: int, dtype: torch.dtype = torch.float32) -> float:
    """Return the distance from the reference's norms at which MetaInit ends if it starts from `factor` times its draw.

    A stem, 13 linear blocks of two layers, a classifier, of width 48; the reference has Fixup's law, none of it 0. Its
    multipliers are 1 and its biases 0.
    """
    options = {"depth": 13, "width": 48, "activation": "linear", "norm": "none", "bias": False}
    sizes = {"input_shape": (1, 1, 48), "num_classes": 10}
    reference = create_model("residual_mlp", scheme="fixup", **options, **sizes)
    initialize(reference, "fixup", nonzero=True, seed=seed)
    known = [p.detach().to(dtype) for p in reference.parameters() if p.dim() == 2]
    model = create_model("residual_mlp", **options, **sizes).to(dtype)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), known, strict=True):
            parameter.copy_(factor * value)
    arguments = {"base": None, "momentum": 0.5, "steps": 1000, "num_classes": 10}
    initialize(model, "metainit", seed=seed, input_shape=(128, 1, 1, 48), **arguments)
    logs = [abs(math.log(p.norm() / value.norm())) for p, value in zip(model.parameters(), known, strict=True)]
    return sum(logs) / len(logs)


@law("metainit-f3-residual-recovers", evidence="at initialization", by_command=True)
def residual_recovers() -> Finding:
    """From 1/5 and 5 times the reference. Smaller factors in float64 are a control that decides nothing."""
    distances = {factor: [residual_distance(factor, seed) for seed in range(10)] for factor in (0.2, 5.0)}
    nearer = {
        factor: [residual_distance(factor, seed, torch.float64) for seed in range(3)]
        for factor in (1 / 3, 2 / 3, 1.5, 3.0)
    }
    close = {factor: sum(d < 0.3 for d in found) for factor, found in distances.items()}
    far = [sum(not d <= 0.7 for d in found) for found in distances.values()]  # so is one that is not finite
    measured = "mean |log(norm / reference norm)| " + "; ".join(
        f"from {factor:g} times the reference {abs(math.log(factor)):.2f} before, {min(found):.3f} to {max(found):.3f} "
        f"after, {of(close[factor], 10)} draws recovered"
        for factor, found in distances.items()
    )
    every = [value for found in distances.values() for value in found]
    values = {f"distance_after_from_{factor:g}_times": found for factor, found in distances.items()}
    values |= {f"distance_after_in_float64_from_{factor:.3g}_times": found for factor, found in nearer.items()}
    note = "In float64, 3 draws: " + "; ".join(
        f"from {factor:.2g} times {abs(math.log(factor)):.2f} before, {min(found):.2f} to {max(found):.2f} after"
        for factor, found in nearer.items()
    )
    status = judged(held=min(close.values()) >= 9, not_held=max(far) >= 5)
    return Finding(status, measured, 10, "draws", values, (min(every), max(every)), f"{note}.")


RATES = [10 ** (-4 + 1.5 * k) for k in range(5)]
"""Five over six decades."""


def final_quotient(std: float, seed: int, **options) -> float:
    """Return the quotient at which MetaInit ends from Gaussian(0, std²); the net has recovered if it is below 0.6."""
    return tune(untuned(WIDTHS, None, std, seed), seed, steps=1000, input_shape=(128, 48), **options)


@law("metainit-sign-steps-robust-where-gradient-steps-fail", evidence="at initialization", by_command=True)
def sign_steps_are_robust() -> Finding:
    """The MLP of widths 48 to 64 at batch 128; a rate of SGD is left after two seeds of a start at which it failed."""
    values = {f"signsgd_from_{std:g}": [final_quotient(std, seed) for seed in range(5)] for std in (0.02, 0.3)}
    sign = {std: sum(q < 0.6 for q in found) for std, found in zip((0.02, 0.3), values.values(), strict=True)}
    plain: dict[float, int] = {}
    for rate in RATES:
        least = 5
        for std in (0.02, 0.3):
            failed = 0
            found = values[f"sgd_of_rate_{rate:.2g}_from_{std:g}"] = []
            for seed in range(5):
                found.append(final_quotient(std, seed, optimizer="sgd", lr=rate))
                failed += not found[-1] < 0.6
                if failed == 2:
                    break
            # With two failures at most 3 of 5 recover: neither "all" nor "4 or more".
            least = min(least, 5 - failed)
        plain[rate] = least
    measured = (
        f"signSGD recovers {of(sign[0.02], 5)} from 0.02 and {of(sign[0.3], 5)} from 0.3; SGD from both at most "
        + ", ".join(f"{of(count, 5)} (rate {rate:.2g})" for rate, count in plain.items())
    )
    held = min(sign.values()) == 5 and max(plain.values()) < 5
    return Finding(judged(held=held, not_held=max(plain.values()) >= 4), measured, 5, "seeds", values)


@law("metainit-norms-differ-from-known-ones-when-nonlinear", evidence="at initialization", by_command=True)
def norms_differ_when_nonlinear() -> Finding:
    """28 layers of width 32, 500 steps of batch 64 from deviations 0.02 and 0.3; either net at either start counts."""
    nets = {"linear": (None, xavier_norm), "ReLU": (nn.ReLU, kaiming_norm), "tanh": (nn.Tanh, xavier_norm)}
    found: dict[tuple[str, float], list[float]] = {}
    for (name, (activation, reference)), std, seed in itertools.product(nets.items(), (0.02, 0.3), range(5)):
        model = untuned([32] * 28 + [10], activation, std, seed)
        tune(model, seed, steps=500, input_shape=(64, 32))
        found.setdefault((name, std), []).append(distance(model, reference))
    leads = {
        (name, std): [a - b for a, b in zip(found[name, std], found["linear", std], strict=True)]
        for name, std in itertools.product(("ReLU", "tanh"), (0.02, 0.3))
    }
    held = all(lead >= 0.1 for values in leads.values() for lead in values)
    not_held = any(sum(lead <= 0 for lead in values) >= 4 for values in leads.values())
    measured = "distances from the reference norms, mean of 5: " + "; ".join(
        f"{name} from {std:g}: {sum(values) / 5:.3f}" for (name, std), values in found.items()
    )
    least = [min(values) for values in leads.values()]
    note = f"The least lead over the linear net is {min(least):+.3f}."
    values = {f"distance_of_{name}_from_{std:g}": found[name, std] for name, std in found}
    return Finding(judged(held=held, not_held=not_held), measured, 5, "seeds", values, note=note)


def exploding_net(seed: int) -> nn.Sequential:
    """Return the linear MLP with the gain per layer that deviation 0.1 gives the convolutions of the paper's network.

    A deviation of 0.1 is a gain of 0.1 √fan_in: of 27 for the stem, 144, 288 and 576 in the groups, and 64 for the
    classifier.
    """
    model = chain(WIDTHS, None)
    fans = [27] + [144] * 9 + [288] * 9 + [576] * 8 + [64]
    initialize(model, "lecun", seed=seed)  # gain 1
    with torch.no_grad():
        for layer, fan in zip(model, fans, strict=True):
            layer.weight.mul_(0.1 * math.sqrt(fan))
    return model


def first_step_below(level: float, norm: str, seed: int, steps: int) -> int | None:
    """Return the first step of a tuning run whose batch has an L1 quotient of at most the level before that step."""
    model, quotients = exploding_net(seed), []

    def batches() -> Iterator[Batch]:
        for step in itertools.count():
            batch = random_batch((128, 48), 10_000 * (seed + 1) + step)
            if norm == "l2":
                with torch.no_grad():
                    quotients.append(gradient_quotient(model, *batch).item())
            yield batch

    options = {"base": None, "momentum": 0.5, "norm": norm, "batches": batches()}
    record = initialize(model, "metainit", steps=steps, seed=seed, **options)
    values = quotients if norm == "l2" else [row["gradient_quotient"] for row in record.history]
    return next((step for step, value in enumerate(values[:steps]) if value <= level), None)


@law("metainit-f4-l1-faster-than-l2", evidence="at initialization", by_command=True)
def l1_is_faster() -> Finding:
    """Both runs see the same batches of 128; the L2 run ends where the L1 run has reached 0.6."""
    steps = 500
    values: dict[str, list[int | None]] = {"step_of_l1": [], "step_of_l2": []}
    l1_first = l2_first = 0
    for seed in range(10):
        l1 = first_step_below(0.6, "l1", seed, steps)
        l2 = first_step_below(0.6, "l2", seed, steps if l1 is None else l1 + 1)
        values["step_of_l1"].append(l1)
        values["step_of_l2"].append(l2)
        l1_first += l1 is not None and l2 is None
        l2_first += l2 is not None and (l1 is None or l2 < l1)
    known = [step for step in values["step_of_l1"] if step is not None]
    span = f"{min(known)} to {max(known)}" if known else "none"
    measured = (
        f"L1 reaches 0.6 within {steps} steps in {of(len(known), 10)} draws (step {span}), before L2 in "
        f"{of(l1_first, 10)}; L2 does before L1 in {of(l2_first, 10)}"
    )
    return Finding(judged(held=l1_first >= 9, not_held=l2_first >= 5), measured, 10, "draws", values)
