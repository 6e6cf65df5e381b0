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

    from initbench.data.dataset import Samples
    from initbench.models.batches import Batch

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


def untuned(depth: int, seed: int, *, classifier_std: float | None = None) -> nn.Module:
    """Return a VGG of a quarter of the width with BatchNorm and biases, from Kaiming's law (fan out).

    With `classifier_std` the classifier's weight is drawn anew from N(0, classifier_std²), and its bias is 0.
    """
    sizes = {"input_shape": (3, 32, 32), "num_classes": 10}
    model = create_model("vgg", depth=depth, width=0.25, norm="batch", conv_bias=True, **sizes)
    initialize(model, "kaiming", mode="fan_out", seed=seed)
    if classifier_std is not None:
        [classifier] = [module for module in model.modules() if isinstance(module, nn.Linear)]
        nn.init.normal_(classifier.weight, std=classifier_std, generator=torch.Generator().manual_seed(seed))
        nn.init.zeros_(classifier.bias)
    return model


def tuned(model: nn.Module, train: Samples, seed: int, **options: float) -> dict[str, float]:
    """Tune a network by 390 iterations of GradInit, and return the scale of each tensor; one of zeros has none."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    initialize(
        model,
        "gradinit",
        base=None,
        iterations=390,
        batch_size=SIZE // 2,  # of each half-batch
        seed=seed,
        input_shape=(SIZE, 3, 32, 32),
        num_classes=10,
        real_batches=lambda size: batches_of(train, seed, size),
        **options,
    )
    after = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return {
        name: ((after[name] * value).sum() / value.square().sum()).item()
        for name, value in before.items()
        if value.any()
    }


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


@law("gradinit-b-full-overlap-is-greedy", evidence="at initialization", by_command=True)
def full_overlap_is_greedy() -> Finding:
    """VGG-11, no bound on the gradient, tau 4e-3; 20 draws of a batch and a fresh one for each seed.

    The falls under Kaiming's law, before GradInit and on the same batches, are a control that decides nothing.
    """
    train = images()
    falls: dict[str, list[list[float]]] = {"same_batch": [], "fresh_batch": [], "same_batch_under_kaiming": []}
    for seed in range(5):
        draws = batches_of(train, 1000 + seed)
        pairs = [(next(draws), next(draws)) for _ in range(20)]
        model = untuned(11, seed).train()
        falls["same_batch_under_kaiming"].append([fall(model, one, one) for one, _ in pairs])
        model = untuned(11, seed)
        tuned(model, train, seed, overlap=1.0, tau=4e-3, gamma=float("inf"))
        model.train()
        falls["same_batch"].append([fall(model, one, one) for one, _ in pairs])
        falls["fresh_batch"].append([fall(model, one, other) for one, other in pairs])
    same, fresh, control = ([max(row) for row in rows] for rows in falls.values())
    above = sum(value > 0.5 for value in same)
    held = above >= 4 and max(fresh) <= 0.5
    measured = (
        f"largest fall of the loss in 20 draws: {100 * min(same):.0f} to {100 * max(same):.0f} % on the batch of the "
        f"step, above half at {of(above, 5)} seeds; {100 * min(fresh):.0f} to {100 * max(fresh):.0f} % on a fresh one "
        "(CIFAR-10, JPEG copies)"
    )
    note = f"Under Kaiming's law it is {100 * min(control):.0f} to {100 * max(control):.0f} % on the batch of the step."
    values = {f"fall_on_{name}": rows for name, rows in falls.items()}
    status = judged(held=held, not_held=above == 0)
    return Finding(status, measured, 5, "seeds", values, (min(same), max(same)), note)


@law("gradinit-f4-vgg-bn-scales-convolutions-up-and-end-down", evidence="at initialization", by_command=True)
def convolutions_up_and_end_down() -> Finding:
    """VGG-19, tau 0.1; of convolutions and BatchNorms the scales of their weights.

    The classifier starts as in the authors' code, from N(0, 0.01²) and without bias.
    """
    train, held, low = images(), 0, 0
    values: dict[str, list] = {"convolutions": [], "batch_norms": [], "classifier": []}
    for seed in range(5):
        model = untuned(19, seed, classifier_std=0.01)
        scales = tuned(model, train, seed, tau=0.1)
        modules = list(model.named_modules())
        convolutions = [scales[f"{name}.weight"] for name, m in modules if isinstance(m, nn.Conv2d)]
        norms = [scales[f"{name}.weight"] for name, m in modules if isinstance(m, nn.BatchNorm2d)]
        [classifier] = [scales[f"{name}.weight"] for name, m in modules if isinstance(m, nn.Linear)]
        for found, one in zip(values.values(), (convolutions, norms, classifier), strict=True):
            found.append(one)
        up = sum(s > 1 for s in convolutions)
        held += up >= 15 and sum(s > 1 for s in norms) >= 9 and max(*norms[-2:], classifier) < 0.5
        low += up < 8
    ups, norms_up = ([sum(s > 1 for s in row) for row in values[name]] for name in ("convolutions", "batch_norms"))
    ends = {
        "the last but one BatchNorm": [row[-2] for row in values["batch_norms"]],
        "the last": [row[-1] for row in values["batch_norms"]],
        "the classifier": values["classifier"],
    }
    measured = (
        f"above 1 end {min(ups)} to {max(ups)} of 16 convolutions and {min(norms_up)} to {max(norms_up)} of 16 "
        "BatchNorms; the scale of "
        + ", of ".join(f"{name} is {min(found):.3g} to {max(found):.3g}" for name, found in ends.items())
        + f"; all as claimed at {of(held, 5)} seeds (CIFAR-10, JPEG copies)"
    )
    values = {f"scales_of_{name}": found for name, found in values.items()}
    return Finding(judged(held=held >= 4, not_held=low >= 4), measured, 5, "seeds", values)
