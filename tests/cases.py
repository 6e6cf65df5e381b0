"""Small models and batches that several test files share."""

from __future__ import annotations

import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.data.dataset import Dataset, Split, Splits
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.tasks import Task
from initbench.training.run import split_totals

DISTRIBUTIONS = [
    "delta_orthogonal",
    "gaussian",
    "kaiming",
    "lecun",
    "looks_linear",
    "orthogonal",
    "pytorch_default",
    "truncated_normal",
    "xavier",
]
"""Initializers that draw every convolution and linear layer at random."""


class Theta(nn.Module):
    """A model whose output is its parameter vector, so that the loss is any function of it."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, _inputs):
        return self.theta


class Attention(nn.Module):
    """Self-attention over a sequence, mean over positions, classifier."""

    def __init__(self, features=4, classes=3) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(features, 2, batch_first=True)
        self.classifier = nn.Linear(features, classes)

    def forward(self, x):
        return self.classifier(self.attention(x, x, x, need_weights=False)[0].mean(1))


def conv_net() -> nn.Module:
    """A smooth convolutional net with biases, for images (2, 5, 5), one output."""
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 2, 3), nn.Softplus(), nn.Flatten(), nn.Linear(18, 1)
    )


def small(name: str, **arguments) -> nn.Module:
    """A depth-10 member of a family of image models, for images (3, 8, 8) and 10 classes."""
    return create_model(name, **{"depth": 10, "width": 1, "norm": "none", "input_shape": (3, 8, 8)} | arguments)


def randomize(model: nn.Module, scale: float = 0.5, seed: int = 0) -> nn.Module:
    """The model in float64 with all parameters ~ N(0, scale²)."""
    generator = torch.Generator().manual_seed(seed)
    model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    return model


def batch(shape, classes=10, seed=0, dtype=torch.float64):
    """Inputs ~ N(0, 1) and uniform targets."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return inputs, torch.randint(classes, (shape[0],), generator=generator)


def state(model: nn.Module) -> dict:
    """Copies of everything that an initializer or probe must not disturb."""
    return {
        "values": {name: t.detach().clone() for name, t in model.state_dict(keep_vars=True).items()},
        "identities": {name: id(p) for name, p in model.named_parameters(remove_duplicate=False)},
        "modes": {name: module.training for name, module in model.named_modules()},
        "requires_grad": {name: p.requires_grad for name, p in model.named_parameters()},
        "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "rng": torch.get_rng_state(),
    }


def assert_same_state(first: dict, second: dict, *, values: bool = True) -> None:
    """Bitwise equality of two `state`s; without `values` parameters may differ and buffers may not."""
    for key in ("identities", "modes", "requires_grad"):
        assert first[key] == second[key], key
    assert torch.equal(first["rng"], second["rng"])
    assert first["values"].keys() == second["values"].keys()
    for name, value in first["values"].items():
        if values or name not in first["identities"]:
            assert torch.equal(value, second["values"][name]), name
    for name, gradient in first["gradients"].items():
        other = second["gradients"][name]
        assert (gradient is None) == (other is None), name
        assert gradient is None or torch.equal(gradient, other), name


def random_dataset(shape, classes, sizes):
    """Random images and labels; sizes of the training, validation and test splits."""
    random = torch.Generator().manual_seed(3)
    splits = [
        Split(torch.randn(n, *shape, generator=random), torch.randint(classes, (n,), generator=random)) for n in sizes
    ]
    return Dataset("random", "classification", Inputs(shape), classes, Splits(*splits))


def evaluate(model, split, task, batch_size, **options) -> dict[str, float]:
    """A task's metrics of a model on a split, as a training run takes them."""
    return task.values(split_totals(model, split, task, batch_size, **options), len(split))


class LeastSquares(Task):
    """A number for each sample; the mean of the squared differences."""

    metrics = (Metric("squared_error", "lower", primary=True),)

    def loss(self, outputs, targets):
        return (outputs.squeeze(1) - targets).square().mean()

    def totals(self, outputs, targets):
        return {"squared_error": (outputs.squeeze(1) - targets).square().sum()}

    def values(self, totals, samples):
        return {"squared_error": totals["squared_error"] / samples}

    def constant_predictor(self, targets, outputs):
        return targets.mean().expand(outputs)

    def random_targets(self, outputs, samples, generator):
        return torch.randn(samples, generator=generator)
