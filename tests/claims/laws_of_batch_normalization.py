"""What the appendix of GradInit and the response of SkipInit's authors say of batch normalization itself."""

from __future__ import annotations

import torch
from law import Finding, held_or_not, judged, law
from measured_nets import digits_batch, mean_and_error, random_batch, slope
from torch import Tensor, nn
from torch.nn.functional import batch_norm

SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)


def output_and_deviations(layer: nn.Module, norm: nn.Module, x: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return BatchNorm's output for weights times a scale, and the deviations of the gradients of x and of the weight.

    The first gradient is that of BatchNorm's input, for one fixed random gradient of its output.
    """
    weight = (scale * layer.weight.detach()).requires_grad_()
    hidden = torch.func.functional_call(layer, {"weight": weight}, (x,))
    output = norm(hidden)
    cotangent = random_batch(tuple(output.shape), 99, torch.float64)[0]
    gradients = torch.autograd.grad(output, (hidden, weight), cotangent)
    return output.detach(), torch.stack([g.std() for g in gradients])


def departures(eps: float, seed: int, convolution: bool) -> tuple[float, list[float]]:
    """Return how far outputs move over all scales, and for each scale how far deviation × scale does, relatively."""
    torch.manual_seed(seed)
    x = digits_batch(128, seed, torch.float64)[0]
    if convolution:
        layer, norm = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16, eps)
    else:
        layer, norm, x = nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32, eps), x.flatten(1)
    layer, norm = layer.double(), norm.double()
    output, deviations = output_and_deviations(layer, norm, x, 1.0)
    moved, errors = 0.0, []
    for scale in SCALES:
        other, scaled = output_and_deviations(layer, norm, x, scale)
        moved = max(moved, (other - output).abs().max().item())
        errors.append((scaled * scale / deviations - 1).abs().max().item())
    return moved, errors


@law("gradinit-c-bn-gradient-inverse-to-weight-scale", evidence="identity")
def gradient_inverse_to_scale() -> Finding:
    """Linear layer and convolution under PyTorch's default start, five seeds; the largest departure of either.

    Epsilon moves outputs by epsilon / (2 a² variance) of themselves. At a = 0.1 and a channel of variance 0.001 that is
    below the tolerance for 1e-15 and above it for 1e-12.
    """
    cases = [(seed, convolution) for seed in range(5, 10) for convolution in (False, True)]
    found = [departures(1e-15, *case) for case in cases]
    outputs, products = max(moved for moved, _ in found), max(max(errors) for _, errors in found)
    usual = torch.tensor([departures(1e-5, *case)[1] for case in cases]).amax(0).tolist()
    by_scale = [f"{error:.1e} at a = {scale:g}" for scale, error in zip(SCALES, usual, strict=True)]
    note = f"With epsilon 1e-5 the products depart by {', '.join(by_scale)}."
    measured = f"outputs agree to {outputs:.1e}, gradient deviation times a to a relative {products:.1e}"
    values: dict[str, list] = {"scale": list(SCALES)}
    for (_, convolution), (moved, errors) in zip(cases, found, strict=True):
        layer = "convolution" if convolution else "linear"
        values.setdefault(f"output_departure_{layer}", []).append(moved)
        values.setdefault(f"gradient_times_scale_departure_{layer}", []).append(errors)
    return Finding(held_or_not(outputs < 1e-8 and products < 1e-6), measured, 5, "seeds", values, note=note)


@law("gradinit-c-bn-magnifies-variance-below-threshold", evidence="identity", slow=True)
def magnified_below_threshold() -> Finding:
    """Each draw is a feature with a batch of its own, whose variance is exactly the one that is asked for."""
    draws, eps = 100_000, 1e-5
    short, thresholds, ratios = [], [], {}
    values: dict[str, list] = {}
    for n in (4, 16, 128):
        generator = torch.Generator().manual_seed(n)
        shape = (n, draws)
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        x = (x - x.mean(0)) / x.std(0, correction=0)
        cotangent = torch.randn(shape, generator=generator, dtype=torch.float64)
        for variance in (0.01, 0.1, 0.3, 0.7, (n - 1.5) / n, 1.0, 2.0, 4.0):
            hidden = (x * variance**0.5).requires_grad_()
            (g,) = torch.autograd.grad(batch_norm(hidden, None, None, training=True, eps=eps), hidden, cotangent)
            ratio, error = mean_and_error(g.square().mean(0) / cotangent.square().mean())
            row = {"batch_size": n, "input_variance": variance, "variance_ratio": ratio, "standard_error": error}
            for key, value in row.items():
                values.setdefault(key, []).append(value)
            bound = n * (n - 1) / (n**2 * (variance + eps))
            short.append((bound - ratio) / error)
            thresholds.append(ratio > 1 or variance >= (n - 1) / n)
            ratios[n] = ratio * (variance + eps)
    exact = ", ".join(
        f"{r:.4f} for n = {n} (bound {(n - 1) / n:.4f}, (n-2)/n {(n - 2) / n:.4f})" for n, r in ratios.items()
    )
    measured = f"variance ratio times input variance: {exact}; up to {max(short):.3g} standard errors below the bound"
    note = "Magnification stands, below an input variance of (n-2)/n."
    held = max(short) <= 3 and all(thresholds)
    status = judged(held=held, not_held=max(short) > 3)
    return Finding(status, measured, draws, "draws", values, note=note)


def normalized(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Return the batch-normalized outputs of a layer of 1024 units with Gaussian weights, (batch, 1024)."""
    weight = torch.randn(1024, inputs.shape[1], generator=generator, dtype=torch.float64)
    return batch_norm(inputs @ weight.T, None, None, training=True, eps=1e-12)


def kolmogorov_distance(values: Tensor) -> float:
    """Return the largest difference of the values' distribution function from the normal one."""
    ordered = values.flatten().sort().values
    steps = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    normal = torch.special.ndtr(ordered)
    return max((steps[1:] - normal).abs().max().item(), (steps[:-1] - normal).abs().max().item())


@law("skipinit-normalized-activation-gaussian-for-large-batch", evidence="at initialization", slow=True)
def normalized_activation_is_gaussian() -> Finding:
    """The distance falls with batch size where the slope of its logarithm against that of the batch is negative.

    64 inputs in both cases, all units and 20 draws of weights and batch together; the fourth moment of a draw is its
    mean over the units, which see the same batch.
    """
    sizes, draws = (4, 16, 64, 256, 1024), 20
    distances: dict[str, list[float]] = {"Gaussian inputs": [], "digits": []}
    moments: list[list[float]] = []
    worst = 0.0
    for size in sizes:
        outputs: dict[str, list[Tensor]] = {name: [] for name in distances}
        for seed in range(draws):
            generator = torch.Generator().manual_seed(seed)
            gaussian = torch.randn(size, 64, generator=generator, dtype=torch.float64)
            outputs["Gaussian inputs"].append(normalized(gaussian, generator))
            outputs["digits"].append(normalized(digits_batch(size, seed, torch.float64)[0].flatten(1), generator))
        fourth = torch.stack([v.pow(4).mean() for v in outputs["Gaussian inputs"]])
        moments.append(fourth.tolist())
        mean, error = mean_and_error(fourth)
        worst = max(worst, abs(mean - 3 * (size - 1) / (size + 1)) / error)
        for name, found in distances.items():
            found.append(kolmogorov_distance(torch.stack(outputs[name])))
    logs = torch.tensor(sizes).log()
    slopes = {name: slope(logs, torch.tensor(found).log()) for name, found in distances.items()}
    last = {name: found[-1] for name, found in distances.items()}
    measured = "; ".join(
        f"{name}: distance {found[0]:.4f} at batch 4 to {found[-1]:.4f} at 1024 (slope {slopes[name]:.2f})"
        for name, found in distances.items()
    )
    measured += f"; the fourth moment is within {worst:.2f} standard errors"
    falls = max(slopes.values()) < 0
    held = falls and max(last.values()) < 0.02 and worst <= 3
    values = {
        "batch_size": list(sizes),
        "distance_for_gaussian_inputs": distances["Gaussian inputs"],
        "distance_for_digits": distances["digits"],
        "fourth_moments_for_gaussian_inputs": moments,
    }
    return Finding(judged(held=held, not_held=not falls), measured, draws, "draws", values)
