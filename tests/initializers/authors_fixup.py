"""The residual network for CIFAR of Fixup's authors, written in their manner: its scalars are bare parameters."""

from __future__ import annotations

import math
import re

import torch
from authors import numbers
from torch import nn
from torch.nn.functional import pad


def scalar(value=0.0):
    return nn.Parameter(torch.full((1,), value))


class Block(nn.Module):
    """Their basic block; the shortcut is every second pixel with as many channels of zeros, or the identity."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bias1a, self.bias1b, self.bias2a, self.bias2b = scalar(), scalar(), scalar(), scalar()
        self.scale = scalar(1.0)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.halves = stride == 2

    def forward(self, x):
        shifted = x + self.bias1a
        branch = (self.conv1(shifted) + self.bias1b).relu()
        branch = self.conv2(branch + self.bias2a) * self.scale + self.bias2b
        if self.halves:
            x = pad(shifted[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
        return (branch + x).relu()


class Network(nn.Module):
    """Of 6n + 2 layers, with their names of parameters."""

    def __init__(self, depth):
        super().__init__()
        self.conv1, self.bias1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), scalar()
        for stage in (1, 2, 3):
            channels = 8 * 2**stage
            first = Block(16, 16, 1) if stage == 1 else Block(channels // 2, channels, 2)
            others = [Block(channels, channels, 1) for _ in range((depth - 2) // 6 - 1)]
            setattr(self, f"layer{stage}", nn.Sequential(first, *others))
        self.bias2, self.fc = scalar(), nn.Linear(64, 10)

    def forward(self, x):
        x = (self.conv1(x) + self.bias1).relu()
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)) + self.bias2)


_OURS = {
    "conv1.weight": "stem.weight",
    "bias1": "bias1.bias",
    "bias2": "bias2.bias",
    "fc.weight": "classifier.weight",
    "fc.bias": "classifier.bias",
}
_OURS_IN_BLOCKS = {
    "bias1a": "layers.0.bias_a.bias",
    "conv1.weight": "layers.0.convolution.weight",
    "bias1b": "layers.0.bias_b.bias",
    "bias2a": "layers.1.bias_a.bias",
    "conv2.weight": "layers.1.convolution.weight",
    "scale": "multiplier.scale",
    "bias2b": "bias.bias",
}


def our_name(name):
    """Return what a parameter of theirs is called in our network."""
    block = re.fullmatch(r"layer(\d)\.(\d+)\.(.*)", name)
    if block is None:
        return _OURS[name]
    return f"groups.{int(block[1]) - 1}.{block[2]}.{_OURS_IN_BLOCKS[block[3]]}"


def kind(name):
    """Return what a parameter of theirs is, whatever the block."""
    return re.sub(r"^layer\d\.\d+", "block", name)


@torch.no_grad()
def set_to_numbers(parameters, depth):
    """Set parameters, by their names in the authors' network, so that nothing is zero and the signal keeps its size."""
    for name, parameter in parameters.items():
        values = numbers(name, tuple(parameter.shape))
        if parameter.dim() == 4:
            values = values * math.sqrt(2 / (9 * len(parameter) * (depth - 2) // 2))
        else:
            values = 0.1 * values + name.endswith("scale")
        parameter.copy_(values)
