"""MetaInit and each of its variants against an oracle written from the definition with torch.func."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from cases import Attention, batch, randomize, small
from torch import nn
from torch.func import functional_call, grad
from torch.nn.functional import cross_entropy

from initbench.architectures.blocks import BetaSwish
from initbench.initializers.initialize import initialize

BATCHES = [batch((4, 3, 4, 4), seed=1000 + index) for index in range(50)]


def quotient(loss, values, eps, norm, method):
    """GQ of a loss of named tensors."""
    g = grad(loss)(values)
    if method == "exact":
        hg = grad(lambda values: sum(v.square().sum() for v in grad(loss)(values).values()) / 2)(values)
        changed = {name: g[name] - hg[name] for name in g}
    else:
        changed = grad(loss)({name: values[name] - g[name] for name in g})
    residual = torch.cat([(changed[n] / (g[n] + eps * (2.0 * (g[n] >= 0) - 1)) - 1).flatten() for n in g])
    return residual.abs().mean() if norm == "l1" else residual.square().sum().sqrt() / len(residual)


def oracle(
    model, batches, *, optimizer="signsgd", norm="l1", method="exact", lr=0.1, momentum=0.9, eps=1e-5, clip=None
):
    """Every tuned weight is side · size · u with a fixed unit direction u; the optimizer moves the sizes.

    Returns the GQ of each step, side · size at the end, and how often each side changed.
    """
    theta = {name: p.detach().clone() for name, p in model.named_parameters()}
    names = [name for name, value in theta.items() if value.dim() >= 2]
    unit = {name: theta[name] / theta[name].norm() for name in names}
    size = nn.Parameter(torch.stack([theta[name].norm() for name in names]))
    side, velocity, flips = torch.ones_like(size), torch.zeros_like(size), torch.zeros_like(size)
    adam = torch.optim.Adam([size], lr=lr)
    history = []
    for inputs, targets in batches:

        def loss(values, inputs=inputs, targets=targets):
            return cross_entropy(functional_call(model, values, (inputs,)), targets)

        def objective(size, loss=loss, side=side):
            weights = {name: s * unit[name] for name, s in zip(names, (side * size).unbind(), strict=True)}
            return quotient(loss, theta | weights, eps, norm, method)

        history.append(objective(size.detach()).item())
        size.grad = grad(objective)(size.detach())
        if clip is not None:
            size.grad.clamp_(-clip, clip)
        with torch.no_grad():
            if optimizer == "adam":
                adam.step()
            elif optimizer == "sgd":
                velocity = momentum * velocity - lr * size.grad
                size += velocity
            else:
                velocity = momentum * velocity - lr * size.grad.sign()
                size += velocity
            flips += size < 0
            side = torch.where(size < 0, -side, side)
            size.abs_()
    end = dict(zip(names, (side * size).tolist(), strict=True))
    return history, end, dict(zip(names, flips.int().tolist(), strict=True))


class BetaSwishWrittenOut(nn.Module):
    """The library's has derivatives of its own, which torch.func does not take."""

    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, x):
        return x * torch.sigmoid(self.beta * x)


class BatchNormWrittenOut(nn.Module):
    """PyTorch's has no third derivative on the statistics of the batch."""

    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps

    def forward(self, x):
        centred = x - x.mean((0, 2, 3), keepdim=True)
        deviation = (centred.square().mean((0, 2, 3), keepdim=True) + self.eps).sqrt()
        return centred / deviation * self.weight[:, None, None] + self.bias[:, None, None]


def reference_of(model, mode):
    """A copy with dropout off that torch.func can differentiate."""
    reference = deepcopy(model).eval()
    for module in list(reference.modules()):
        for name, child in module.named_children():
            if isinstance(child, BetaSwish):
                setattr(module, name, BetaSwishWrittenOut(child.beta))
            if isinstance(child, nn.BatchNorm2d) and mode == "train":
                setattr(module, name, BatchNormWrittenOut(child))
    return reference


def check(model, batches, *, mode="eval", **variant):
    """Tune the model and compare with the oracle: the quotients, the weights, the record; return its sign flips."""
    history, norms, flips = oracle(reference_of(model, mode), batches, **variant)
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    record = initialize(model, "metainit", base=None, steps=len(batches), batches=batches, mode=mode, **variant)
    # 1e-8: in float64 the two ways of computing differ by about 1e-12; a wrong sign would move a norm by .1.
    assert [step["gradient_quotient"] for step in record.history] == pytest.approx(history, rel=1e-8)
    for name, parameter in model.named_parameters():
        scale = norms[name] / weights[name].norm() if name in norms else 1.0
        assert torch.allclose(parameter, scale * weights[name], rtol=1e-8, atol=1e-12), name
    assert record.conditions["sign_flips"] == flips
    assert {name: end for name, (_, end) in record.conditions["norms"].items()} == pytest.approx(norms, rel=1e-8)
    return sum(flips.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "start"),
    [
        ("plain", {"activation": "beta_swish"}, {"name": "delta_orthogonal"}),
        pytest.param("wrn", {"activation": "beta_swish"}, {"name": "kaiming"}, marks=pytest.mark.slow),
        pytest.param(
            "wrn",
            {"activation": "swish", "norm": "batch"},
            {"name": "gaussian", "std": 0.003},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_listing_equals_the_oracle(name, arguments, start):
    model = small(name, **arguments).double()
    initialize(model, **start)
    flips = check(model, BATCHES)
    if start["name"] == "gaussian":
        assert flips > 0  # the case is there for its flips


def conv_net(norm):
    """Three layers with biases, or with BatchNorm, whose running statistics are not those of a new one, and dropout."""
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.SiLU(), nn.Conv2d(4, 5, 3, padding=1, stride=2), nn.SiLU()]
    if norm == "batch":
        layers[1:1] = [nn.BatchNorm2d(4)]
        layers[4:4] = [nn.BatchNorm2d(5), nn.Dropout(0.3)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(20, 10)).double()
    initialize(model, "kaiming")
    generator = torch.Generator().manual_seed(5)
    for module in model:
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
            nn.init.normal_(module.weight, 1, 0.2, generator=generator)
    return model


# With eps 1e-5 a rounding error grows tenfold a step under Adam, which uses more of a derivative than its sign.
SMOOTH = {"eps": 0.1}


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("optimizer", ["signsgd", "adam", "sgd"])
@pytest.mark.parametrize(
    ("layers", "mode"),
    [("none", "eval"), pytest.param("batch", "eval", marks=pytest.mark.slow), ("batch", "train")],
)
def test_each_variant_equals_the_oracle(layers, mode, optimizer, norm, method):
    check(conv_net(layers), BATCHES[:20], mode=mode, optimizer=optimizer, norm=norm, method=method, **SMOOTH)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_each_derivative_is_clipped_by_itself(optimizer):
    """At .02 some of the four derivatives are clipped and some are not, so that a clip of their length would show."""
    model = conv_net("none")
    unclipped = deepcopy(model)
    check(model, BATCHES[:20], optimizer=optimizer, clip=0.02, **SMOOTH)
    check(unclipped, BATCHES[:20], optimizer=optimizer, **SMOOTH)
    assert not torch.allclose(model[0].weight, unclipped[0].weight, rtol=1e-3)


def test_adam_goes_on_through_a_sign_flip():
    assert check(conv_net("none"), BATCHES[:20], optimizer="adam", lr=2.0, **SMOOTH) > 0


def test_attention_is_tuned_through_its_second_derivative():
    """The fused kernels of attention have none; the answer is checked with attention written out."""

    class WrittenOut(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.attention, self.classifier = model.attention, model.classifier

        def forward(self, x):
            projected = nn.functional.linear(x, self.attention.in_proj_weight, self.attention.in_proj_bias)
            q, k, v = (t.unflatten(-1, (2, 2)).transpose(1, 2) for t in projected.chunk(3, -1))
            weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(2), -1)
            return self.classifier(self.attention.out_proj((weights @ v).transpose(1, 2).flatten(2)).mean(1))

    model = randomize(Attention())
    batches = [batch((8, 3, 4), 3)] * 10
    history, norms, _ = oracle(WrittenOut(model), batches)
    record = initialize(model, "metainit", base=None, steps=10, batches=batches)
    assert [step["gradient_quotient"] for step in record.history] == pytest.approx(history, rel=1e-8)
    assert {n: end for n, (_, end) in record.conditions["norms"].items()} == pytest.approx(norms, rel=1e-8)
