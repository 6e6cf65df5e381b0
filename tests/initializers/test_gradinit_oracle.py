"""GradInit against an oracle written from its definition with torch.func."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from cases import Attention, batch, randomize
from gradinit_cases import half_batches, joined, net
from small_gpt import gpt, next_token_loss, tokens
from torch import nn
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from initbench.initializers.initialize import initialize


def averaged(mean, square, count, d, betas):
    return betas[0] * mean + (1 - betas[0]) * d, betas[1] * square + (1 - betas[1]) * d * d, count + 1


def oracle(
    model,
    draw,
    iterations,
    *,
    tau,
    gamma,
    eta,
    optimizer="sgd",
    second_order=False,
    overlap=0.5,
    clip=1.0,
    betas=(0.9, 0.999),
    second_moment="shared",
    norm_ceiling=None,
    loss_fn=cross_entropy,
):
    """One number per tensor, its Adam written out, derivatives by torch.func; returns the history and the scales."""
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    scale = {name: torch.ones((), dtype=w.dtype) for name, w in start.items() if w.abs().max() > 0}
    averages = {name: {"gradient norm": (0.0, 0.0, 0), "loss": (0.0, 0.0, 0), "both": (0.0, 0.0, 0)} for name in scale}
    norms = [f"{name}.weight" for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d | nn.LayerNorm)]
    most = dict.fromkeys(norms, norm_ceiling)
    clip = clip or math.inf
    history = []

    def weights(scale):
        return {name: w * scale[name] if name in scale else w for name, w in start.items()}

    def loss(values, data):
        return loss_fn(functional_call(model, values, (data[0],)), data[1])

    def length(g):
        flat = torch.cat([v.flatten() for v in g.values()])
        return flat.square().sum().sqrt() if optimizer == "sgd" else flat.abs().sum()

    for _ in range(iterations):
        a, b = next(draw), next(draw)
        both = joined(a, b)

        def norm(scale, both=both):
            return length(grad(loss)(weights(scale), both))

        if norm(scale) > gamma:
            branch, objective = "gradient norm", norm
        else:
            other = both if overlap == 1 else joined(a if overlap else next(draw), next(draw))

            def objective(scale, both=both, other=other):
                values = weights(scale)
                g = grad(loss)(values, both)
                step = {n: v / length(g) if optimizer == "sgd" else v.sign() for n, v in g.items()}
                step = step if second_order else {n: v.detach() for n, v in step.items()}
                return loss({n: values[n] - eta * step[n] for n in values}, other) / eta

            branch = "loss"
        history.append((branch, objective(scale).item()))
        slope = grad(objective)(scale)
        for name, kept in averages.items():
            d = max(-clip, min(clip, slope[name].item()))
            kept[branch], kept["both"] = averaged(*kept[branch], d, betas), averaged(*kept["both"], d, betas)
            mean, _, count = kept[branch]
            _, square, seen = kept["both" if second_moment == "shared" else branch]
            root = math.sqrt(square / (1 - betas[1] ** seen))
            least = 0.0 if name.endswith("bias") else 0.01
            if scale[name] != 0:  # the authors' code passes over tensors of norm 0
                moved = scale[name] - tau * mean / (1 - betas[0] ** count) / (root + 1e-8)
                scale[name] = torch.clamp(moved, min=least, max=most.get(name))
    return history, {name: s.item() for name, s in scale.items()}


CASES = [
    # γ small: the gradient norm is descended; γ large: the loss after a step; γ between: now one and now the other.
    {"gamma": 1e-3, "expected": ["gradient norm"]},
    {"gamma": 1e6, "expected": ["loss"]},
    {"gamma": 1e6, "second_order": True, "expected": ["loss"]},
    {"gamma": 1e6, "overlap": 0, "expected": ["loss"]},
    {"gamma": 1e6, "overlap": 1, "expected": ["loss"]},
    {"gamma": 1e-3, "optimizer": "adam", "expected": ["gradient norm"]},
    {"gamma": 1e6, "optimizer": "adam", "eta": 1e-3, "expected": ["loss"]},
    {"gamma": 1e6, "optimizer": "adam", "eta": 1e-3, "second_order": True, "expected": ["loss"]},
    {"gamma": None, "expected": ["gradient norm", "loss"]},
    {"gamma": None, "second_moment": "own", "expected": ["gradient norm", "loss"]},
    {"gamma": 1e-3, "betas": (0.8, 0.98), "expected": ["gradient norm"]},
    {"gamma": 1e6, "norm_ceiling": 1.05, "expected": ["loss"]},
    {"gamma": 1e-3, "optimizer": "adam", "clip": None, "expected": ["gradient norm"]},
]


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(f"{k}={v}" for k, v in case.items()))
def test_it_equals_the_oracle(norm, case):
    options = {"tau": 0.05, "eta": 0.1, "gamma": 0.55} | {
        k: v for k, v in case.items() if k != "expected" and (k, v) != ("gamma", None)
    }
    model = net(norm, gain=2.0)
    reference = net(norm, gain=2.0).eval()
    for module in reference.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()
            module.track_running_stats, module.running_mean, module.running_var = False, None, None
    history, scales = oracle(reference, half_batches(), 30, **options)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    record = initialize(model, "gradinit", base=None, iterations=30, batches=half_batches(), **options)
    assert sorted({branch for branch, _ in history}) == case["expected"]
    assert [bool(step["constrained"]) for step in record.history] == [
        branch == "gradient norm" for branch, _ in history
    ]
    # 1e-8: the two ways of computing differ by about 1e-12 in float64, and 30 steps of Adam magnify that little.
    assert [step["objective"] for step in record.history] == pytest.approx([v for _, v in history], rel=1e-8)
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-8)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, scales.get(name, 1.0) * start[name], rtol=1e-8, atol=1e-14), name


def test_a_gradient_that_jumps_from_far_below_gamma_to_above_is_descended():
    """Where it was far below it is taken without second derivatives at first; that must show in the cost alone."""
    # Of the inputs of each iteration: of small ones the net sees its biases alone, and all samples pull the same way.
    sizes = [1.0, 0.01, 1.0, 1.0]

    def draw():
        numbers = half_batches()
        for factor in sizes:
            for _ in range(3 if factor == 1 else 2):  # the loss is descended with a third half-batch
                inputs, targets = next(numbers)
                yield inputs * factor, targets

    options = {"tau": 0.05, "eta": 0.1, "gamma": 3.4}
    history, scales = oracle(net("none", 2.0), draw(), 4, **options)
    assert [branch for branch, _ in history] == ["loss", "gradient norm", "loss", "loss"]
    record = initialize(net("none", 2.0), "gradinit", base=None, iterations=4, batches=draw(), **options)
    assert record.history[0]["gradient_norm"] < options["gamma"] / 2  # far below
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-8)
    # Two of each where the loss is descended; 1 and 2 where the gradient is, and one more of each for the wrong guess.
    assert record.cost == {"forward": 3 * 2 + 1 + 1, "backward": 3 * 2 + 2 + 1}


def test_the_gradient_norm_is_descended_through_attention():
    """By its second derivative, which of the kernels of attention the one made of other operations alone has."""

    def draw():
        for index in itertools.count():
            yield batch((6, 3, 4), classes=3, seed=index)

    model = randomize(Attention())
    with sdpa_kernel(SDPBackend.MATH):
        history, scales = oracle(model, draw(), 10, tau=0.05, gamma=1e-3, eta=0.1)
    assert {branch for branch, _ in history} == {"gradient norm"}
    record = initialize(model, "gradinit", base=None, iterations=10, tau=0.05, gamma=1e-3, batches=draw())
    assert [step["objective"] for step in record.history] == pytest.approx([v for _, v in history], rel=1e-8)
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-8)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_form_for_transformers_on_gpt(optimizer, tied):
    """Dropout is off, and a tied head, whose weight is the embedding's, has no scale of its own."""

    def draw():
        return (tokens(2, seed=index) for index in itertools.count())

    def network(dropout):
        return randomize(gpt(depth=1, tied=tied, dropout=dropout, norm="post"), 0.3)

    form = {"betas": (0.9, 0.98), "second_moment": "own", "norm_ceiling": 1.05, "clip": None, "optimizer": optimizer}
    form |= {"tau": 0.05} | ({"eta": 0.15, "gamma": 0.5} if optimizer == "sgd" else {"eta": 1e-2, "gamma": 5.0})
    model, reference = network(dropout=0.3), network(dropout=0.0)
    with sdpa_kernel(SDPBackend.MATH):
        history, scales = oracle(reference, draw(), 12, loss_fn=next_token_loss, **form)
    assert {branch for branch, _ in history} == {"gradient norm", "loss"}
    record = initialize(model, "gradinit", base=None, iterations=12, batches=draw(), loss_fn=next_token_loss, **form)
    assert [step["objective"] for step in record.history] == pytest.approx([v for _, v in history], rel=1e-8)
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-7)
    assert set(scales) == {name for name, _ in model.named_parameters()}
