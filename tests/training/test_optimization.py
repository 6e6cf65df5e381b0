"""Optimizers, schedules, clipping and parameter groups against recursions written by hand in float64."""

from __future__ import annotations

import math

import pytest
import torch

from initbench.architectures.create import create_model
from initbench.data.dataset import Dataset, Split, Splits
from initbench.inputs import Inputs
from initbench.training.loop import train
from initbench.training.optimizer import Multipliers, make_optimizer
from initbench.training.recipe import Recipe

N, FEATURES, CLASSES = 24, 5, 3
SLOW_BIAS = {"classifier.bias": 0.1}


def problem(seed=0):
    """A linear classifier on random data, trained on all of it at once: the order of the samples cannot matter."""
    random = torch.Generator().manual_seed(seed)

    def split(n):
        inputs = torch.randn(n, 1, 1, FEATURES, dtype=torch.float64, generator=random)
        return Split(inputs, torch.randint(CLASSES, (n,), generator=random))

    splits = Splits(split(N), split(4), split(4))
    dataset = Dataset("random", "classification", Inputs((1, 1, FEATURES)), CLASSES, splits)
    return create_model("mlp", depth=1, input_shape=(1, 1, FEATURES), num_classes=CLASSES).double(), dataset


def gradient(weight, bias, split):
    """Of the mean cross-entropy of a linear classifier: (softmax − one-hot)ᵀ x / N."""
    x = split.inputs.reshape(-1, FEATURES)
    difference = (x @ weight.T + bias).softmax(1) - torch.eye(CLASSES, dtype=torch.float64)[split.targets]
    return [difference.T @ x / len(x), difference.mean(0)]


def run(recipe, multipliers=None):
    """Train, and return the trained weight and bias, the initial ones and the training split."""
    model, dataset = problem()
    layer = model.classifier
    initial = [layer.weight.detach().clone(), layer.bias.detach().clone()]
    result = train(model, dataset, recipe, 0, declared=Multipliers(multipliers or {}))
    assert not result.diverged
    return [layer.weight.detach(), layer.bias.detach()], initial, dataset.train, result


def cosine(t, total):
    return (1 + math.cos(math.pi * t / total)) / 2


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_sgd_with_momentum_weight_decay_clipping_and_cosine(nesterov, clip):
    recipe = Recipe(epochs=9, batch_size=N, lr=0.7, momentum=0.9, nesterov=nesterov, weight_decay=0.01, clip_norm=clip)
    trained, theta, data, _ = run(recipe)
    velocity = [torch.zeros_like(p) for p in theta]
    for t in range(9):
        g = gradient(*theta, data)
        norm = math.sqrt(sum((x**2).sum().item() for x in g))
        if clip is not None:
            assert norm > clip  # else nothing is tested
            g = [x * clip / (norm + 1e-6) for x in g]  # PyTorch's guard against 0
        g = [x + 0.01 * p for x, p in zip(g, theta, strict=True)]  # after clipping, which is of the loss alone
        velocity = [0.9 * v + x for v, x in zip(velocity, g, strict=True)]
        update = [x + 0.9 * v for x, v in zip(g, velocity, strict=True)] if nesterov else velocity
        theta = [p - 0.7 * cosine(t, 9) * u for p, u in zip(theta, update, strict=True)]
    torch.testing.assert_close(trained, theta, rtol=1e-11, atol=1e-12)


def test_adam_with_weight_decay_and_steps():
    recipe = Recipe(
        epochs=6,
        batch_size=N,
        optimizer="adam",
        lr=0.05,
        betas=(0.8, 0.95),
        weight_decay=0.1,
        schedule="step",
        milestones=(2, 5),
        step_factor=0.5,
    )
    trained, theta, data, _ = run(recipe)
    m, v = ([torch.zeros_like(p) for p in theta] for _ in range(2))
    for t, lr in enumerate([0.05, 0.05, 0.025, 0.025, 0.025, 0.0125], start=1):
        g = [x + 0.1 * p for x, p in zip(gradient(*theta, data), theta, strict=True)]
        m = [0.8 * a + 0.2 * x for a, x in zip(m, g, strict=True)]
        v = [0.95 * a + 0.05 * x**2 for a, x in zip(v, g, strict=True)]
        theta = [
            p - lr * (a / (1 - 0.8**t)) / ((b / (1 - 0.95**t)).sqrt() + 1e-8)
            for p, a, b in zip(theta, m, v, strict=True)
        ]
    torch.testing.assert_close(trained, theta, rtol=1e-11, atol=1e-12)


def test_adamw_decays_the_weights_and_not_the_gradient():
    """Loshchilov & Hutter (2019), algorithm 2: θ ← θ − η(α m̂ / (√v̂ + ε) + λθ), where PyTorch takes λ times the rate."""
    recipe = Recipe(
        epochs=6, batch_size=N, optimizer="adamw", lr=0.05, betas=(0.8, 0.95), weight_decay=0.3, schedule="linear"
    )
    trained, theta, data, _ = run(recipe)
    m, v = ([torch.zeros_like(p) for p in theta] for _ in range(2))
    for t in range(1, 7):
        lr = 0.05 * (1 - (t - 1) / 6)
        g = gradient(*theta, data)
        m = [0.8 * a + 0.2 * x for a, x in zip(m, g, strict=True)]
        v = [0.95 * a + 0.05 * x**2 for a, x in zip(v, g, strict=True)]
        theta = [
            p - lr * ((a / (1 - 0.8**t)) / ((b / (1 - 0.95**t)).sqrt() + 1e-8) + 0.3 * p)
            for p, a, b in zip(theta, m, v, strict=True)
        ]
    torch.testing.assert_close(trained, theta, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9])
def test_signsgd_steps_by_the_sign_of_the_averaged_gradient(momentum, clip):
    """Bernstein et al. (2018), algorithms 1 and 2; weight decay is decoupled, as a sign has no size to be changed."""
    if momentum == 0:
        clip = None
    recipe = Recipe(
        epochs=12, batch_size=N, optimizer="signsgd", lr=0.05, momentum=momentum, weight_decay=0.1, clip_norm=clip
    )
    trained, theta, data, _ = run(recipe)
    m = [torch.zeros_like(p) for p in theta]
    crossed = 0
    for t in range(12):
        lr = 0.05 * cosine(t, 12)
        g = gradient(*theta, data)
        norm = math.sqrt(sum((x**2).sum().item() for x in g))
        if clip is not None:
            g = [x * min(1, clip / (norm + 1e-6)) for x in g]
        m = [momentum * a + (1 - momentum) * x for a, x in zip(m, g, strict=True)]
        crossed += sum((a.sign() != x.sign()).sum().item() for a, x in zip(m, g, strict=True))
        theta = [p - lr * (0.1 * p + a.sign()) for p, a in zip(theta, m, strict=True)]
    assert (crossed > 0) == (momentum > 0)  # else the average and the gradient cannot be told apart
    torch.testing.assert_close(trained, theta, rtol=1e-11, atol=1e-12)


def test_signsgd_keeps_each_parameter_groups_share_and_leaves_what_has_no_gradient():
    recipe = Recipe(epochs=1, batch_size=N, optimizer="signsgd", lr=0.4, schedule="constant")
    trained, theta, _, _ = run(recipe, SLOW_BIAS)
    for after, before, lr in zip(trained, theta, (0.4, 0.04), strict=True):
        torch.testing.assert_close((after - before).abs(), torch.full_like(before, lr), rtol=1e-11, atol=0)
    still = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    still.grad = torch.tensor([0.0, -2.0, 0.0], dtype=torch.float64)
    make_optimizer([{"params": [still]}], recipe).step()
    assert still.tolist() == [1.0, 1.4, 1.0]  # sign(0) = 0


def test_each_parameter_group_keeps_its_share_of_the_learning_rate():
    recipe = Recipe(epochs=5, batch_size=N, lr=0.4, momentum=0.0)
    groups = [0.4, 0.04]
    trained, theta, data, result = run(recipe, SLOW_BIAS)
    for t in range(5):
        g = gradient(*theta, data)
        theta = [p - lr * cosine(t, 5) * x for p, x, lr in zip(theta, g, groups, strict=True)]
    torch.testing.assert_close(trained, theta, rtol=1e-11, atol=1e-12)
    assert [entry["lr"] for entry in result.history] == pytest.approx([0.4 * cosine(t, 5) for t in range(5)])


def test_warm_up_reaches_every_parameter_group():
    recipe = Recipe(epochs=8, batch_size=N, lr=0.4, momentum=0.0, warmup_epochs=3)
    groups = [0.4, 0.04]
    trained, theta, data, result = run(recipe, SLOW_BIAS)
    factors = [1 / 3, 2 / 3, 1.0, *(cosine(t, 5) for t in range(5))]
    for factor in factors:
        g = gradient(*theta, data)
        theta = [p - lr * factor * x for p, x, lr in zip(theta, g, groups, strict=True)]
    torch.testing.assert_close(trained, theta, rtol=1e-11, atol=1e-12)
    assert [entry["lr"] for entry in result.history] == pytest.approx([0.4 * factor for factor in factors])
