"""Networks whose faults are known because they were built in: by each name, its builder and the right verdicts."""

from __future__ import annotations

import math

import torch
from torch import nn

from initbench.inputs import Inputs

WIDTH = 64
VECTORS, IMAGES, TOKENS = Inputs((WIDTH,)), Inputs((3, 8, 8)), Inputs((16,), vocabulary=64)


def normal(model, gain=1.0, bias=0.0, mean=0.0):
    """Weights N(0, gain²/fan_in), biases N(mean, bias²)."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.normal_(module.weight, 0, gain / math.sqrt(module.weight[0].numel()))
            if module.bias is not None:
                nn.init.normal_(module.bias, mean, bias) if bias else nn.init.constant_(module.bias, mean)
    return model


def plain(depth, gain, activation=nn.ReLU, norm=None, outputs=10, **law):
    """Linear, norm if any, activation; then a head with variance 1/fan_in."""
    parts = []
    for _ in range(depth):
        parts += [nn.Linear(WIDTH, WIDTH), *([norm(WIDTH)] if norm else []), activation()]
    return nn.Sequential(normal(nn.Sequential(*parts), gain, **law), normal(nn.Linear(WIDTH, outputs)))


class Residual(nn.Module):
    """x + scale · conv(relu(conv(relu(x)))), with BatchNorm before the ReLUs if wanted."""

    def __init__(self, blocks, scale=1.0, *, norm=False, mean=0.0):
        super().__init__()
        self.stem = normal(nn.Conv2d(3, 16, 3, padding=1))
        self.branches = nn.ModuleList(normal(self.branch(norm), math.sqrt(2), mean=mean) for _ in range(blocks))
        self.head = normal(nn.Linear(16 * 64, 10))
        self.scale = scale
        if not scale:
            self.scale = 1.0
            for branch in self.branches:
                nn.init.zeros_(branch[-1].weight)

    @staticmethod
    def branch(norm):
        parts = []
        for _ in range(2):
            parts += [*([nn.BatchNorm2d(16)] if norm else []), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
        return nn.Sequential(*parts)

    def forward(self, x):
        x = self.stem(x)
        for branch in self.branches:
            x = x + self.scale * branch(x)
        return self.head(x.flatten(1))


class Text(nn.Module):
    """Embedding, Transformer layers, head; the head is tied to the embedding if wanted."""

    def __init__(self, layers, *, norm_first, embedding=0.02, head=0.02, tied=False, mean=0.0):
        super().__init__()
        self.embedding = nn.Embedding(64, WIDTH)
        nn.init.normal_(self.embedding.weight, 0, embedding)
        self.positions = nn.Parameter(0.02 * torch.randn(16, WIDTH))
        options = {"batch_first": True, "norm_first": norm_first}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 128, **options) for _ in range(layers))
        for layer in self.layers:
            nn.init.constant_(layer.linear1.bias, mean)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 64, bias=False)
        nn.init.normal_(self.head.weight, 0, head)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Recurrent(nn.Module):
    """Embedding, stacked GRU, and two heads of unknown tasks."""

    def __init__(self, std):
        super().__init__()
        self.embedding = nn.Embedding(64, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, 4, batch_first=True)
        self.tags, self.value = nn.Linear(WIDTH, 12), nn.Linear(WIDTH, 1)
        if std:
            for parameter in self.gru.parameters():
                nn.init.normal_(parameter, 0, std)
        else:
            for name, parameter in self.gru.named_parameters():
                nn.init.orthogonal_(parameter) if "weight" in name else nn.init.zeros_(parameter)

    def forward(self, tokens):
        states, _ = self.gru(self.embedding(tokens))
        return {"tags": self.tags(states), "value": self.value(states[:, -1])}


class TwoHeads(nn.Module):
    """A plain trunk with two outputs."""

    def __init__(self, gain):
        super().__init__()
        self.trunk = plain(16, gain, outputs=WIDTH)
        self.first, self.second = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, 5)

    def forward(self, x):
        features = self.trunk(x)
        return self.first(features), self.second(features)


def with_nan():
    model = plain(4, math.sqrt(2))
    with torch.no_grad():
        model[0][2].weight[0, 0] = math.nan
    return model


RELU = math.sqrt(2)
SMALL = {"vanishing", "collapsed"}  # a signal that vanishes beside biases no longer depends on the input
PLANTED = {
    "plain, gain too small": (lambda: plain(24, 0.5 * RELU), VECTORS, {"vanishing"}),
    "plain, gain slightly too small": (lambda: plain(24, 0.6 * RELU), VECTORS, {"vanishing"}),
    "plain, gain too large": (lambda: plain(24, 2 * RELU), VECTORS, {"exploding"}),
    "two heads, gain too large": (lambda: TwoHeads(2.2 * RELU), VECTORS, {"exploding"}),
    "plain, dead": (lambda: plain(4, RELU, mean=-12.0), VECTORS, {"dead"}),
    "post-norm, dead": (lambda: Text(2, norm_first=False, mean=-12.0), TOKENS, {"dead"}),
    "plain tanh, chaotic": (lambda: plain(24, 3.0, nn.Tanh), VECTORS, {"chaotic", "exploding"}),
    "plain tanh, chaotic and wide": (lambda: plain(16, 4.0, nn.Tanh), VECTORS, {"chaotic", "exploding"}),
    "plain tanh, ordered": (lambda: plain(40, 0.8, nn.Tanh, bias=0.3), VECTORS, SMALL),
    "plain ReLU by torch's default": (lambda: plain(30, 1 / math.sqrt(3), bias=0.07), VECTORS, SMALL),
    "plain, Kaiming": (lambda: plain(8, RELU), VECTORS, {"healthy"}),
    "plain tanh, critical": (lambda: plain(16, 1.0, nn.Tanh), VECTORS, {"healthy"}),
    "residual, no scale": (lambda: Residual(40), IMAGES, {"exploding"}),
    "plain, BatchNorm, deep": (lambda: plain(60, RELU, norm=nn.BatchNorm1d), VECTORS, {"exploding"}),
    "residual, zero ends": (lambda: Residual(20, 0.0), IMAGES, {"healthy"}),
    "residual, BatchNorm": (lambda: Residual(10, norm=True), IMAGES, {"healthy"}),
    "pre-norm, N(0, 1) tied to the head": (
        lambda: Text(2, norm_first=True, embedding=1.0, tied=True),
        TOKENS,
        {"loss_above_chance"},
    ),
    "pre-norm": (lambda: Text(4, norm_first=True), TOKENS, {"healthy"}),
    "post-norm": (lambda: Text(2, norm_first=False), TOKENS, {"healthy"}),
    "GRU, N(0, 0.02²), two heads": (lambda: Recurrent(0.02), TOKENS, SMALL),
}
"""Name → builder, inputs, the verdicts that are right."""
NAMES = list(PLANTED)
CHOSEN_ON, JUDGED_ONCE = NAMES[0::2], NAMES[1::2]
"""Thresholds were chosen on the networks at even positions; the others were judged once, afterwards."""


def planted(name, seed=0):
    build, inputs, right = PLANTED[name]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(), inputs, right
