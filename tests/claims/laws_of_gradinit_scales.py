"""What GradInit's appendix says of the scales that it learns on networks with BatchNorm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from law import Finding, judged, law
from measured_nets import of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from initbench import create_model, initialize
from initbench.data.load import load_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.batches import Batch
    from initbench.data.dataset import Samples

SIZE = 128  # of a batch, as in the authors' code


def images() -> Samples:
    """Return the training images of the JPEG copies of CIFAR-10, standardized, without crops and flips."""
    return load_dataset("image_folder", {"root": "cifar10-jpeg", "image_size": 32, "classes": 10}).splits.train


def batches_of(train: Samples, seed: int, size: int = SIZE) -> Iterator[Batch]:
    """Yield batches in a new order for each pass, without end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for chosen in torch.randperm(len(train), generator=generator).split(size):
            if len(chosen) == size:
                yield train.take(chosen)


def tuned(train: Samples, depth: int, seed: int, **options: float) -> tuple[nn.Module, dict[str, float]]:
    """Return a VGG of a quarter of the width after 390 iterations of GradInit, and the scale of each tensor.

    It has BatchNorm and biases, and starts from Kaiming's law (fan out). What is zero has no scale.
    """
    sizes = {"input_shape": (3, 32, 32), "num_classes": 10}
    model = create_model("vgg", depth=depth, width=0.25, norm="batch", conv_bias=True, **sizes)
    base = {"name": "kaiming", "mode": "fan_out"}
    start = create_model("vgg", depth=depth, width=0.25, norm="batch", conv_bias=True, **sizes)
    initialize(start, "kaiming", mode="fan_out", seed=seed)
    before = {name: parameter.detach() for name, parameter in start.named_parameters()}
    initialize(
        model,
        "gradinit",
        base=base,
        iterations=390,
        batch_size=SIZE // 2,  # of each half-batch
        seed=seed,
        input_shape=(SIZE, 3, 32, 32),
        num_classes=10,
        real_batches=lambda size: batches_of(train, seed, size),
        **options,
    )
    after = {name: parameter.detach() for name, parameter in model.named_parameters()}
    scales = {
        name: ((after[name] * value).sum() / value.square().sum()).item()
        for name, value in before.items()
        if value.any()
    }
    return model, scales


def fall(model: nn.Module, stepped: Batch, measured: Batch) -> float:
    """Return the share of its loss on a batch that a network loses by a step of 0.1 along the gradient of a batch."""
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(_loss(model, stepped), weights)
    norm = torch.sqrt(sum((gradient.square().sum() for gradient in gradients), torch.zeros(())))
    before = _loss(model, measured).item()
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.sub_(0.1 * gradient / norm)
        after = _loss(model, measured).item()
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.add_(0.1 * gradient / norm)
    return 1 - after / before


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    inputs, targets = batch
    return cross_entropy(model(inputs), targets)


@law("gradinit-b-full-overlap-is-greedy", by_command=True)
def full_overlap_is_greedy() -> Finding:
    """VGG-11, no bound on the gradient, tau 4e-3; 20 draws of a batch and a fresh one for each seed."""
    train = images()
    same: list[float] = []
    fresh: list[float] = []
    for seed in range(5):
        model, _ = tuned(train, 11, seed, overlap=1.0, tau=4e-3, gamma=float("inf"))
        model.train()
        draws = batches_of(train, 1000 + seed)
        pairs = [(next(draws), next(draws)) for _ in range(20)]
        same.append(max(fall(model, one, one) for one, _ in pairs))
        fresh.append(max(fall(model, one, other) for one, other in pairs))
    above = sum(value > 0.5 for value in same)
    held = above >= 4 and max(fresh) <= 0.5
    measured = (
        f"largest fall of the loss in 20 draws: {100 * min(same):.0f} to {100 * max(same):.0f} % on the batch of the "
        f"step, above half at {of(above, 5)} seeds; {100 * min(fresh):.0f} to {100 * max(fresh):.0f} % on a fresh one "
        "(CIFAR-10, JPEG copies)"
    )
    return Finding(judged(held=held, not_held=above == 0), measured, 5, (min(same), max(same)))


@law("gradinit-f4-vgg-bn-scales-convolutions-up-and-end-down", by_command=True)
def convolutions_up_and_end_down() -> Finding:
    """VGG-19, tau 0.1; of convolutions and BatchNorms the scales of their weights."""
    train, held, low = images(), 0, 0
    counts: list[tuple[int, int, float]] = []
    for seed in range(5):
        model, scales = tuned(train, 19, seed, tau=0.1)
        modules = list(model.named_modules())
        convolutions = [scales[f"{name}.weight"] for name, m in modules if isinstance(m, nn.Conv2d)]
        norms = [scales[f"{name}.weight"] for name, m in modules if isinstance(m, nn.BatchNorm2d)]
        [classifier] = [scales[f"{name}.weight"] for name, m in modules if isinstance(m, nn.Linear)]
        up, norms_up = sum(s > 1 for s in convolutions), sum(s > 1 for s in norms)
        end = max(*norms[-2:], classifier)
        counts.append((up, norms_up, end))
        held += up >= 15 and norms_up >= 9 and end < 0.5
        low += up < 8
    ups, norms_ups, ends = zip(*counts, strict=True)
    measured = (
        f"above 1 end {min(ups)} to {max(ups)} of 16 convolutions and {min(norms_ups)} to {max(norms_ups)} of 16 "
        f"BatchNorms; the largest scale of the last two BatchNorms and the classifier is {min(ends):.2f} to "
        f"{max(ends):.2f}; all as claimed at {of(held, 5)} seeds (CIFAR-10, JPEG copies)"
    )
    return Finding(judged(held=held >= 4, not_held=low >= 4), measured, 5)
