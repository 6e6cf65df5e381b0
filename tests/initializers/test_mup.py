"""µP: factors by role, equality with the standard parametrization at the base width, and an oracle of its rules."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from small_gpt import gpt, next_token_loss, tokens
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.training.optimizer import Multipliers, make_optimizer, make_parameter_groups
from initbench.training.recipe import Recipe

INPUTS, CLASSES = 32, 10


def perceptron(width=256):
    return nn.Sequential(
        nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES)
    ).double()


def mup(model, optimizer="adam", shape=(1, INPUTS), **arguments):
    """Initialize a model by µP; its inputs are numbers if it has no embedding."""
    tokens = torch.zeros(1, 6, dtype=torch.int64)
    inputs = tokens if any(isinstance(module, nn.Embedding) for module in model.modules()) else torch.zeros(shape)
    inputs = inputs if inputs.dtype == torch.int64 else inputs.to(next(model.parameters()))
    return initialize(model, "mup", inputs=inputs, training_optimizer=(optimizer, 0.1), **arguments)


def multipliers(record):
    return record.learning_rate_multipliers, record.weight_decay_multipliers, record.epsilon_multipliers


def test_factors_of_adam_at_four_times_the_base():
    record = mup(perceptron(), base_width=64)
    rates, decays, epsilons = multipliers(record)
    assert rates == {"2.weight": 0.25, "4.weight": 0.25}
    assert decays == {"2.weight": 4.0, "4.weight": 16.0}  # added to the gradient
    assert epsilons == {"4.weight": 4.0}
    assert record.conditions == {
        "width": 256,
        "width_ratio": 4,
        "roles": {
            "0.weight": "input",
            "0.bias": "vector",
            "2.weight": "hidden",
            "2.bias": "vector",
            "4.weight": "output",
            "4.bias": "fixed",
        },
    }


def test_factors_of_sgd_at_four_times_the_base():
    rates, decays, epsilons = multipliers(mup(perceptron(), "sgd", base_width=64))
    assert rates == {"0.weight": 4.0, "0.bias": 4.0, "2.bias": 4.0, "4.weight": 0.25}
    assert decays == {name: 1 / rate for name, rate in rates.items()}  # rate × decay is as in the base
    assert epsilons == {}


@pytest.mark.parametrize(
    ("arguments", "base_std"),
    [
        ({}, lambda fan_in: fan_in**-0.5),
        ({"gain": 2.0}, lambda fan_in: 2 * fan_in**-0.5),
        ({"std": 0.3}, lambda _: 0.3),
    ],
)
def test_the_standard_deviations(arguments, base_std):
    """Before it is folded, a head has the deviation of the base; 1/m folded in, 1/m of it."""
    record = mup(perceptron(), base_width=64, **arguments)
    stds = {name: events[0]["std"] for name, events in record.tensors.items() if events[0]["event"] == "drawn"}
    expected = {"0.weight": base_std(INPUTS), "2.weight": base_std(64) / math.sqrt(4), "4.weight": base_std(64) / 4}
    assert stds == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize(("arguments", "standard"), [({}, ("lecun", {})), ({"std": 0.2}, ("gaussian", {"std": 0.2}))])
@pytest.mark.parametrize("make", [perceptron, lambda: gpt(tied=False, width=16)])
def test_at_the_base_width_it_is_the_standard_parametrization_bit_for_bit(make, arguments, standard, optimizer):
    ours, theirs = make(), make()
    width = 16 if hasattr(ours, "wte") else 256
    record = mup(ours, optimizer, base_width=width, attention_heads="wider", **arguments)
    initialize(theirs, standard[0], **standard[1])
    assert multipliers(record) == ({}, {}, {})
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


class Oracle:
    """The network with the explicit multiplier 1/m at its head, trained by the paper's rules in their original form.

    Tables 3 and 8 with the factors of `MuSGD` and `MuAdam`: Adam divides the rate of hidden weights by m (and with
    AdamW multiplies their decay by m); SGD multiplies the rate of tensors with one growing size by m and divides their
    decay by it.
    """

    def __init__(self, folded, ratio, recipe):
        self.ratio, self.recipe = ratio, recipe
        self.theta = {name: p.detach().clone() for name, p in folded.named_parameters()}
        self.theta["4.weight"] *= ratio
        self.first = {name: torch.zeros_like(p) for name, p in self.theta.items()}
        self.second = {name: torch.zeros_like(p) for name, p in self.theta.items()}
        self.steps = 0

    def loss(self, theta, inputs, targets):
        hidden = functional.linear(inputs, theta["0.weight"], theta["0.bias"]).relu()
        hidden = functional.linear(hidden, theta["2.weight"], theta["2.bias"]).relu()
        logits = functional.linear(hidden / self.ratio, theta["4.weight"], theta["4.bias"])
        return functional.cross_entropy(logits, targets)

    def step(self, inputs, targets):
        leaves = {name: p.requires_grad_() for name, p in self.theta.items()}
        loss = self.loss(leaves, inputs, targets)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        self.steps += 1
        self.theta = {
            name: self.updated(name, p.detach(), g) for (name, p), g in zip(leaves.items(), gradients, strict=True)
        }
        return loss.item()

    def updated(self, name, p, g):
        m, lr, decay = self.ratio, self.recipe.lr, self.recipe.weight_decay
        if self.recipe.optimizer == "sgd":
            grows = m if name in {"0.weight", "0.bias", "2.bias", "4.weight"} else 1
            self.first[name] = 0.9 * self.first[name] + g + decay / grows * p
            return p - lr * grows * self.first[name]
        shrinks = m if name == "2.weight" else 1
        self.first[name] = 0.9 * self.first[name] + 0.1 * g
        self.second[name] = 0.999 * self.second[name] + 0.001 * g**2
        step = self.first[name] / (1 - 0.9**self.steps)
        step = step / ((self.second[name] / (1 - 0.999**self.steps)).sqrt() + 1e-8)
        return p * (1 - lr / shrinks * decay * shrinks) - lr / shrinks * step


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(optimizer="sgd", lr=0.1),
        Recipe(optimizer="sgd", lr=0.1, weight_decay=0.01),
        Recipe(optimizer="adam", lr=1e-3),
        Recipe(optimizer="adamw", lr=1e-3, weight_decay=0.1),
    ],
    ids=lambda recipe: f"{recipe.optimizer}-{recipe.weight_decay}",
)
def test_folded_it_trains_as_with_the_multiplier_in_the_forward_pass(recipe):
    """In float64; 1e-12 is 10³ times its resolution, for sums in another order over 20 steps."""
    model = perceptron()
    record = mup(model, recipe.optimizer, base_width=64)
    oracle = Oracle(model, 4, recipe)
    optimizer = make_optimizer(make_parameter_groups(model, recipe, Multipliers(*multipliers(record))), recipe)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        inputs = torch.randn(16, INPUTS, dtype=torch.float64, generator=generator)
        targets = torch.randint(CLASSES, (16,), generator=generator)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(oracle.step(inputs, targets), abs=1e-12)


def test_zero_readout_and_query():
    model = gpt(tied=False, width=16)
    record = mup(model, base_width=8, attention_heads="more", zero_readout=True, zero_query=True)
    zero = {name for name, p in model.named_parameters() if p.dim() > 1 and not p.any()}
    assert zero == {"lm_head.weight", "h.0.attn.c_q.weight", "h.1.attn.c_q.weight"}
    assert record.learning_rate_multipliers["h.0.attn.c_q.weight"] == 0.5


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_wider_heads_divide_the_scores_by_their_size(kind, monkeypatch):
    """The factor 1/√m of the queries makes q·k/√d of √d_base·q·k/d, at every step (float64, sums in another order)."""
    recipe = Recipe(optimizer=kind, lr=1e-3 if kind == "adamw" else 0.1, weight_decay=0.1)
    models = {heads: gpt(tied=False, width=32).double() for heads in ("more", "wider")}  # 2 heads of 16, in the base 4
    losses = {"more": [], "wider": []}
    inputs, targets = tokens()
    attention = functional.scaled_dot_product_attention
    for heads, model in models.items():
        scale = math.sqrt(4) / 16 if heads == "more" else None
        scaled = partial(attention, scale=scale)
        monkeypatch.setattr(functional, "scaled_dot_product_attention", scaled)
        with monkeypatch.context() as unscaled:
            unscaled.setattr(functional, "scaled_dot_product_attention", attention)
            record = mup(model, kind, base_width=8, attention_heads=heads)
        optimizer = make_optimizer(make_parameter_groups(model, recipe, Multipliers(*multipliers(record))), recipe)
        for _ in range(10):
            optimizer.zero_grad()
            loss = next_token_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses[heads].append(loss.item())
    assert losses["wider"] == pytest.approx(losses["more"], abs=1e-12)
    assert losses["wider"][-1] < losses["wider"][0]


def test_depthwise_convolutions_do_not_grow_in_their_inputs():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, groups=16), nn.Conv2d(16, 16, 1), nn.Flatten(), nn.Linear(256, 4)
    )
    record = mup(model, shape=(1, 3, 8, 8), base_width=64)
    roles = {name: role for name, role in record.conditions["roles"].items() if name.endswith("weight")}
    assert roles == {"0.weight": "input", "1.weight": "input", "2.weight": "hidden", "4.weight": "output"}


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, INPUTS), nn.Linear(INPUTS, 2)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.head(self.b(self.a(x).relu()).relu())


class ScaledEmbedding(nn.Module):
    """A network that multiplies its embeddings, by a factor that it may name as fairseq or Hugging Face do."""

    def __init__(self, width, factor, named=None):
        super().__init__()
        self.factor, self.embed_tokens = factor, nn.Embedding(5, width)
        self.hidden, self.head = nn.Linear(width, width), nn.Linear(width, 5)
        if named is not None:
            (self if named == "beside" else self.embed_tokens).embed_scale = factor

    def forward(self, tokens):
        return self.head(self.hidden(self.factor * self.embed_tokens(tokens)).tanh())


@pytest.mark.parametrize("named", ["beside", "within"])
@pytest.mark.parametrize(("kind", "factor"), [("adamw", 1 / 2), ("sgd", 1.0)])
def test_embeddings_multiplied_by_the_root_of_the_width_train_as_with_the_factor_of_the_base(kind, factor, named):
    """In float64, up to rounding over 5 steps."""
    recipe = Recipe(optimizer=kind, lr=1e-3 if kind == "adamw" else 0.1, weight_decay=0.1)
    models = ScaledEmbedding(64, math.sqrt(64), named).double(), ScaledEmbedding(64, math.sqrt(16)).double()
    records = [mup(model, kind, base_width=16, embedding_std=0.5) for model in models]
    outputs = []
    for model, record in zip(models, records, strict=True):
        optimizer = make_optimizer(make_parameter_groups(model, recipe, Multipliers(*multipliers(record))), recipe)
        inputs, targets = tokens(vocabulary=5)
        for _ in range(5):
            optimizer.zero_grad()
            next_token_loss(model(inputs), targets).backward()
            optimizer.step()
        outputs.append(model(inputs))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    rate, decay, epsilon = (of.get("embed_tokens.weight", 1.0) for of in multipliers(records[0]))
    assert (rate, decay, epsilon) == (factor, 1 / factor, 1 / factor)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.rnn, self.head = nn.Linear(INPUTS, 8), nn.LSTM(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.rnn(self.a(x))[0])


class Products(nn.Module):
    """An attention without a softmax."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(INPUTS, 16), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x):
        x = self.a(x)
        return self.head((self.b(x) @ x.T) @ x)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.first, self.second = nn.Linear(INPUTS, 8), nn.Linear(8, 2), nn.Linear(INPUTS, 2)

    def forward(self, x):
        return torch.cat([self.first(self.a(x)), self.second(x)], 1)


def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(
        nn.Embedding(5, 16), nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(16, 5)
    )


def of_widths(hidden):
    return nn.Sequential(nn.Linear(INPUTS, hidden), nn.ReLU(), nn.Linear(hidden, 256), nn.ReLU(), nn.Linear(256, 2))


REFUSED = {
    "larger": (perceptron, {"base_width": 512}, "base_width 512 is larger than the network's width, 256"),
    "no divisor": (perceptron, {"base_width": 100}, "base_width 100 is no divisor of the network's width, 256"),
    "sizes": (lambda: of_widths(30), {}, "2.weight has 30 inputs, no multiple of width / base_width, which is 4"),
    "tied head": (gpt, {"base_width": 4}, "lm_head.weight is shared by input and output layers; untie it"),
    "tied layers": (Tied, {"base_width": 16}, "b.weight is shared by hidden and input layers; untie it"),
    "widths": (TwoHeads, {"base_width": 4}, "the width is unknown: the heads have 8 and 32 inputs"),
    "heads": (
        lambda: gpt(tied=False),
        {"base_width": 4},
        "attention_heads must say whether the width grows by more or",
    ),
    "fused": (
        transformer,
        {"base_width": 16, "zero_query": True},
        "no layer of 1.layers.0.self_attn computes queries alone",
    ),
    "wider fused": (
        transformer,
        {"base_width": 8, "attention_heads": "wider"},
        "no layer of 1.layers.0.self_attn computes queries alone",
    ),
    "embeddings": (
        lambda: ScaledEmbedding(8, 3.0, "beside"),
        {"base_width": 4},
        "embed_scale of ScaledEmbedding is 3, neither 1 nor the square root of the embedding's 8 features, so how it",
    ),
    "groups": (
        lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, groups=4), nn.Flatten(), nn.Linear(256, 4)),
        {"shape": (1, 3, 8, 8)},
        "it is unknown whether the groups of 1.weight grow in number or in size",
    ),
    "weight norm": (
        lambda: nn.Sequential(nn.Linear(INPUTS, 8), weight_norm(nn.Linear(8, 8)), nn.Linear(8, 2)),
        {"base_width": 4},
        "1.parametrizations.weight.original1 is no plain weight of a layer, so its role is unknown",
    ),
    "recurrent": (Recurrent, {"base_width": 4}, "rnn.weight_ih_l0 is no plain weight of a layer"),
    "attention": (Products, {"base_width": 8}, "the attentions cannot be determined: the model multiplies two results"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_refuses(case):
    make, arguments, message = REFUSED[case]
    model = make()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(InitializationError) as refused:
        mup(model, **{"base_width": 64} | arguments)
    assert str(refused.value).startswith(f"mup: {message}")
    assert "\n" not in str(refused.value)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"base_width": 0}, "base_width"),
        ({"std": 0.0}, "std"),
        ({"gain": -1.0}, "gain"),
        ({"std": 0.1, "gain": 2.0}, "gain"),
        ({"embedding_std": math.nan}, "embedding_std"),
    ],
)
def test_the_argument_that_it_refuses(arguments, argument):
    with pytest.raises(ArgumentError) as refused:
        mup(perceptron(), **arguments)
    assert refused.value.argument == argument
