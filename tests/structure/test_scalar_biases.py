"""Scalars as Fixup has them: bare parameters beside layers, or modules of their own."""

from __future__ import annotations

import torch
from torch import nn

from initbench import create_model, find_structure
from initbench.architectures.scalars import ScalarBias, ScalarMultiplier


class FixupBasicBlock(nn.Module):
    """As in the Fixup authors' code, github.com/hongyi-zhang/Fixup, whose scalars are bare parameters."""

    def __init__(self):
        super().__init__()
        self.bias1a, self.bias1b, self.bias2a, self.bias2b = (nn.Parameter(torch.zeros(1)) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(1))
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        identity = x
        out = self.conv1(x + self.bias1a)
        out = self.relu(out + self.bias1b)
        out = self.conv2(out + self.bias2a)
        out = out * self.scale + self.bias2b
        out += identity
        return self.relu(out)


def test_scalars_of_the_authors_of_fixup():
    found = find_structure(nn.Sequential(FixupBasicBlock(), FixupBasicBlock()), torch.ones(1, 4, 4, 4))
    assert [(branch.block, branch.ends, branch.gates) for branch in found.branches] == [
        (block, (f"{block}.conv2",), (f"{block}.scale",)) for block in "01"
    ]
    assert [branch.output for branch in found.branches] == [None, None]  # no module gives what is added

    names = [f"{block}.bias{number}" for block in "01" for number in ("1a", "1b", "2a", "2b")]
    assert found.scalar_biases == tuple(names)
    assert "scalar biases: 8 (0.bias1a, 0.bias1b, ...)" in str(found)


class StarReLU(nn.Module):
    """An activation with a shift (Yu et al., 2023), which may stand in front of a layer as Fixup's biases do."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(1)), nn.Parameter(torch.full((1,), -0.4))

    def forward(self, x):
        return self.scale * x.relu() ** 2 + self.shift


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return x + self.shift


def test_scalar_biases():
    """The shift of an activation is none, nor is a bias of several entries."""
    model = nn.Sequential(nn.Linear(4, 4), StarReLU(), ScalarBias(), ScalarMultiplier(), Shift())
    assert find_structure(model, torch.ones(1, 4)).scalar_biases == ("2.bias",)
    assert find_structure(create_model("resnet", depth=8), torch.zeros(1, 3, 8, 8)).scalar_biases == ()
