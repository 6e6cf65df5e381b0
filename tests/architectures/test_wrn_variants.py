"""Where norms stand in a wide residual network, and by what its sums and branches are multiplied.

De & Smith (NeurIPS 2020) show in their response to the reviewers that none of these trains at a depth of 1000.
"""

from __future__ import annotations

import math

import pytest
import torch
from branches import residual_branches
from cases import randomize
from torch import nn
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarMultiplier
from initbench.errors import ArgumentError

VARIANTS = [
    {"norm_placement": "final"},
    {"norm_placement": "branch_and_merge"},
    {"norm_placement": "branch_and_merge", "branch_factor": 0.25},
    {"sum_factor": 0.5},
    {"branch_factor": 0.25},
    {"sum_factor": 0.5, "branch_factor": 0.25},
    {"norm": "none", "sum_factor": 0.5},
    {"norm": "none", "sum_factor": 0.5, "multiplier": False},
    {"norm": "none", "multiplier": False},
    {"projection_of": "input"},
    {"projection_of": "input", "stride_in": "second"},
]


def build(**arguments):
    return create_model("wrn", **{"depth": 10, "width": 2, "input_shape": (3, 8, 8)} | arguments)


def oracle(
    state,
    x,
    norm="batch",
    norm_placement="branch",
    sum_factor=1.0,
    branch_factor=1.0,
    multiplier=True,
    projection_of="activated",
    stride_in="first",
):
    """The network in training mode as a function of its weights."""

    def normalized(name, y):
        variance, mean = torch.var_mean(y, (0, 2, 3), correction=0, keepdim=True)
        scale, shift = (state[f"{name}.{part}"][:, None, None] for part in ("weight", "bias"))
        return (y - mean) / (variance + 1e-5).sqrt() * scale + shift

    def of_branch(name, y):
        return normalized(name, y) if norm == "batch" and norm_placement != "final" else y

    y = functional.conv2d(x, state["stem.weight"], padding=1)
    for group in range(3):
        block = f"groups.{group}.0."
        stride = 1 if group == 0 else 2
        activated = of_branch(block + "norm1", y).relu()
        first, second = (stride, 1) if stride_in == "first" else (1, stride)
        branch = functional.conv2d(activated, state[block + "conv1.weight"], stride=first, padding=1)
        branch = of_branch(block + "norm2", branch).relu()
        branch = functional.conv2d(branch, state[block + "conv2.weight"], stride=second, padding=1)
        if norm == "none" and multiplier:
            branch = state[block + "multiplier.scale"] * branch
        projected = activated if projection_of == "activated" else y
        shortcut = functional.conv2d(projected, state[block + "projection.weight"], stride=stride)
        y = sum_factor * (shortcut + branch_factor * branch)
        if norm_placement == "branch_and_merge":
            y = normalized(block + "merge_norm", y)
    y = (normalized("norm", y) if norm == "batch" else y).relu().mean((2, 3))
    return y @ state["classifier.weight"].T + state["classifier.bias"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_network_is_the_written_out_function(variant):
    model = randomize(build(**variant), 0.3)
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x), oracle(model.state_dict(), x, **variant), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("variant", "norms", "multipliers"),
    [
        ({}, 7, 0),
        ({"norm_placement": "final"}, 1, 0),
        ({"norm_placement": "branch_and_merge"}, 10, 0),
        ({"norm": "none"}, 0, 3),
        ({"norm": "none", "multiplier": False}, 0, 0),
    ],
)
def test_how_many_norms_and_multipliers_there_are(variant, norms, multipliers):
    modules = list(build(**variant).modules())
    assert sum(isinstance(module, nn.BatchNorm2d) for module in modules) == norms
    assert sum(isinstance(module, ScalarMultiplier) for module in modules) == multipliers


def test_names_of_layers_and_what_is_drawn_are_the_same_in_all():
    """What variants share is drawn by the same names, bit by bit; factors add no parameter."""
    plain = dict(build().named_parameters())
    for variant in VARIANTS:
        own = dict(build(**variant).named_parameters())
        weights = {name for name, parameter in plain.items() if parameter.dim() > 1}
        assert {name for name, parameter in own.items() if parameter.dim() > 1} == weights
        assert all(torch.equal(own[name], plain[name]) for name in weights)
        if not {"norm", "norm_placement"} & variant.keys():
            assert own.keys() == plain.keys()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_branches_are_found(variant):
    found = residual_branches(build(depth=16, **variant))
    assert [branch.block for branch in found] == [f"groups.{group}.{index}" for group in range(3) for index in (0, 1)]
    for branch in found:
        assert branch.inner == (f"{branch.block}.conv1",)
        assert branch.ends == (f"{branch.block}.conv2",)


def test_what_becomes_of_the_signal_of_deep_networks():
    """The claims that the variants are for, of the variance on the skips of a group of 16 blocks at initialization.

    With BatchNorm on branches it grows by the same each block; a factor of √½ on sums keeps it from growing, so that
    branches and skips have equal shares at every depth; without any norm and without a factor it doubles.
    """
    variances = {}
    x = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    for name, variant in {
        "normalized": {},
        "divided": {"sum_factor": math.sqrt(0.5)},
        "bare": {"norm": "none", "multiplier": False},
        "bare, divided": {"norm": "none", "multiplier": False, "sum_factor": math.sqrt(0.5)},
    }.items():
        model = build(depth=100, width=1, **variant)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(1)
            for module in model.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, generator=generator)
            y = model.groups[0][0](model.stem(x))
            seen = [y.var().item()]
            for block in model.groups[0][1:]:
                y = block(y)
                seen.append(y.var().item())
        variances[name] = seen
    assert 5 < variances["normalized"][15] / variances["normalized"][0] < 40  # linear: 16
    assert 0.5 < variances["divided"][15] / variances["divided"][7] < 2  # constant
    assert variances["bare"][15] / variances["bare"][0] > 1e3  # geometric: about 2^15
    assert 0.05 < variances["bare, divided"][15] / variances["bare, divided"][0] < 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"norm": "none", "norm_placement": "final"},
            "norm_placement must be branch for norm none, got final",
        ),
        (
            {"norm": "none", "norm_placement": "branch_and_merge"},
            "norm_placement must be branch for norm none, got branch_and_merge",
        ),
        ({"sum_factor": 0.0}, "sum_factor must be above 0, got 0.0"),
        ({"branch_factor": -1.0}, "branch_factor must be above 0, got -1.0"),
        (
            {"norm_placement": "branch_and_merge", "sum_factor": 0.5},
            "sum_factor must be 1 for norm_placement branch_and_merge, whose norm undoes it, got 0.5",
        ),
        ({"multiplier": False}, "multiplier must be true for norm batch: only branches without a norm have one"),
        ({"norm_placement": "last"}, "norm_placement must be one of branch, final, branch_and_merge; got 'last'"),
    ],
)
def test_what_means_nothing_is_refused(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        build(**arguments)
    assert str(refusal.value) == message
