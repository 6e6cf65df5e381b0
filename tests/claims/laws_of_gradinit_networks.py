"""What GradInit's appendix says of the networks themselves: their sizes, and their gradients before any tuning."""

from __future__ import annotations

import torch
from law import Finding, judged, law
from measured_nets import of
from torch.nn.functional import cross_entropy

from initbench import create_model, initialize
from initbench.data.load import load_dataset

PRINTED = {
    "VGG-19 with BN": ("20.04", "vgg", {"depth": 19, "norm": "batch", "conv_bias": True}),
    "WRN-28-10 with BN": ("36.49", "wrn", {"depth": 28, "width": 10, "norm": "batch", "conv_bias": True}),
    "FixUpResNet-110": ("1.72", "resnet", {"depth": 110, "norm": "none", "scheme": "fixup"}),
    "DenseNet-100 without BN": ("0.75", "densenet", {"depth": 100, "norm": "none", "conv_bias": True}),
    "DenseNet-100 with BN": ("0.77", "densenet", {"depth": 100, "norm": "batch"}),
}
"""Millions of parameters as Tables 8 and 10 print them, and the networks in the form of the authors' code."""


@law("gradinit-parameter-counts", evidence="identity")
def parameter_counts() -> Finding:
    """For 3×32×32 images and 10 classes; convolutions have biases where the authors' code has them."""
    counts = {}
    for name, (_, architecture, arguments) in PRINTED.items():
        with torch.device("meta"):
            model = create_model(architecture, input_shape=(3, 32, 32), num_classes=10, **arguments)
        counts[name] = sum(parameter.numel() for parameter in model.parameters())
    wrong = [name for name, count in counts.items() if f"{count / 1e6:.2f}" != PRINTED[name][0]]
    measured = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    printed = [millions for millions, *_ in PRINTED.values()]
    values = {"network": list(counts), "parameters": list(counts.values()), "printed_millions": printed}
    return Finding(judged(held=not wrong, not_held=bool(wrong)), measured, len(counts), "networks", values)


def deviations(norm: str, seed: int, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    """Return the deviation over batches of each convolution's gradient, averaged over its entries, from first to last.

    VGG-19 in the form of the authors' code, from Kaiming's law (fan out), in train mode.
    """
    model = create_model("vgg", depth=19, norm=norm, conv_bias=True, input_shape=(3, 32, 32), num_classes=10)
    initialize(model, "kaiming", mode="fan_out", seed=seed)
    model.train()
    weights = [parameter for parameter in model.parameters() if parameter.dim() == 4]
    sums = [torch.zeros_like(weight, dtype=torch.float64, requires_grad=False) for weight in weights]
    squares = [torch.zeros_like(total) for total in sums]
    for inputs, targets in batches:
        gradients = torch.autograd.grad(cross_entropy(model(inputs), targets), weights)
        for gradient, total, square in zip(gradients, sums, squares, strict=True):
            total.add_(gradient.double())
            square.add_(gradient.double().square())
    n = len(batches)
    variances = [(square - total.square() / n) / (n - 1) for total, square in zip(sums, squares, strict=True)]
    return [variance.clamp(min=0).sqrt().mean().item() for variance in variances]


@law("gradinit-f4-bn-raises-gradient-ratio-over-depth", evidence="at initialization", by_command=True)
def batch_norm_raises_the_ratio() -> Finding:
    """On the JPEG copies of CIFAR-10, standardized; both networks see the same 20 batches of 128."""
    train = load_dataset("image_folder", {"root": "cifar10-jpeg", "image_size": 32, "classes": 10}).splits.train
    values: dict[str, list[list[float]]] = {"batch": [], "none": []}
    for seed in range(5):
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[: 20 * 128]
        batches = [train.take(chosen) for chosen in order.split(128)]
        for norm, found in values.items():
            found.append(deviations(norm, seed, batches))
    ratios = {norm: [row[0] / row[-1] for row in found] for norm, found in values.items()}
    larger = sum(a > b for a, b in zip(ratios["batch"], ratios["none"], strict=True))
    measured = (
        f"the first convolution's deviation is {min(ratios['batch']):.3g} to {max(ratios['batch']):.3g} times the "
        f"last one's with BatchNorm, {min(ratios['none']):.3g} to {max(ratios['none']):.3g} without; larger with it at "
        f"{of(larger, 5)} seeds (CIFAR-10, JPEG copies)"
    )
    values = {"deviations_with_batch_norm": values["batch"], "deviations_without": values["none"]}
    return Finding(judged(held=larger == 5, not_held=larger <= 1), measured, 5, "seeds", values)
