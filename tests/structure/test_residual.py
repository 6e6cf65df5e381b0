"""Residual branches, found in models that were written without a thought of us."""

from __future__ import annotations

import pytest
import timm
import torch
import torchvision
from branches import residual_branches
from torch import nn

from initbench.architectures.create import create_model
from initbench.structure.residual import ResidualBranch

SIZES = {"vit_tiny_patch16_224": 224, "mixer_s32_224": 224, "beit_base_patch16_224": 224}

# Name in timm → branches, and for the first of them: block, inner layers, end, gates, where a multiplier can follow.
TIMM = {
    "resnet18": (8, "layer1.0", ["conv1"], "conv2", [], "bn2"),
    "resnet50": (16, "layer1.0", ["conv1", "conv2"], "conv3", [], "bn3"),
    # The two layers of squeeze and excitation compute a gate, and are none of the branch's three.
    "seresnet50": (16, "layer1.0", ["conv1", "conv2"], "conv3", [], "se"),
    "vit_tiny_patch16_224": (24, "blocks.0", ["attn.qkv"], "attn.proj", [], "drop_path1"),
    "convnext_atto": (12, "stages.0.blocks.0", ["conv_dw", "mlp.fc1"], "mlp.fc2", ["gamma"], "drop_path"),
    # Blocks without a skip connection, such as those that halve the image, have no branch.
    "mobilenetv3_small_050": (7, "blocks.1.1", ["conv_pw", "conv_dw"], "conv_pwl", [], "drop_path"),
    # One module drops both branches of a block, so that nothing can be put behind it; the last layer is alone.
    "mixer_s32_224": (16, "blocks.0", ["mlp_tokens.fc1"], "mlp_tokens.fc2", [], "mlp_tokens.fc2"),
    # Its attention uses the weights of the layers in a function, without calling them.
    "beit_base_patch16_224": (24, "blocks.0", ["attn.qkv"], "attn.proj", ["gamma_1"], "drop_path1"),
    # The parts of a split that are added to each other come from no common tensor.
    "res2net50_26w_4s": (16, "layer1.0", ["conv1", "convs.0", "convs.1", "convs.2"], "conv3", [], "bn3"),
}


@pytest.mark.parametrize("name", TIMM)
def test_models_of_timm(name):
    with torch.device("meta"):  # no numbers are needed
        model = timm.create_model(name)
        branches = residual_branches(model, (3, SIZES.get(name, 64), SIZES.get(name, 64)))
    number, block, inner, end, gates, output = TIMM[name]
    assert len(branches) == number
    names = [f"{block}.{layer}" for layer in inner]
    expected = (block, tuple(names), (f"{block}.{end}",), tuple(f"{block}.{gate}" for gate in gates))
    assert (branches[0].block, branches[0].inner, branches[0].ends, branches[0].gates) == expected
    assert branches[0].output == f"{block}.{output}"
    assert all(branch.depth == (2 if len(branch.inner) == 1 else 3) for branch in branches if "res2" not in name)


def test_models_of_torchvision():
    with torch.device("meta"):
        attention = torchvision.models.vit_b_16()
        nothing = torchvision.models.densenet121()  # its layers are stacked, not added
        first = residual_branches(attention, (3, 224, 224))[0]
        assert residual_branches(nothing, (3, 64, 64)) == []
    layer = "encoder.layers.encoder_layer_0"
    # The projections of queries, keys and values are one parameter of the attention, which is a layer of its own.
    assert first == ResidualBranch(
        layer, (f"{layer}.self_attention",), (f"{layer}.self_attention.out_proj",), 2, (), f"{layer}.dropout"
    )


@pytest.mark.parametrize("scheme", ["standard", "fixup", "skipinit", "weight_norm"])
@pytest.mark.parametrize(("name", "depth", "layers"), [("wrn", 16, "conv{}"), ("resnet", 14, "layers.{}.convolution")])
def test_our_own_networks(name, depth, layers, scheme):
    model = create_model(name, depth=depth, width=2, norm="none", scheme=scheme)
    branches = residual_branches(model)
    assert len(branches) == 6
    first = 0 if name == "resnet" else 1
    for branch in branches:
        assert branch.inner == (f"{branch.block}.{layers.format(first)}",)
        assert branch.ends == (f"{branch.block}.{layers.format(first + 1)}",)
        has_multiplier = scheme in {"fixup", "skipinit"} or (name == "wrn" and scheme == "standard")
        assert branch.gates == ((f"{branch.block}.multiplier.scale",) if has_multiplier else ())
    assert [branch.stage for branch in branches] == [f"groups.{group}" for group in (0, 0, 1, 1, 2, 2)]


class Sum(nn.Module):
    """Adds the outputs of its parts, where None is the identity."""

    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(part or nn.Identity() for part in parts)

    def forward(self, x):
        first, *others = (part(x) for part in self.parts)
        for other in others:
            first = first + other
        return first


def layers(number):
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(number)))


def test_a_skip_over_blocks_has_what_is_beside_the_blocks():
    """As in networks for super-resolution: the blocks' own layers are theirs alone."""
    blocks = nn.Sequential(Sum(None, layers(2)), Sum(None, layers(2)), nn.Linear(4, 4))
    assert [(branch.ends, branch.inner, branch.depth) for branch in residual_branches(Sum(None, blocks), (4,))] == [
        (("parts.1.0.parts.1.1",), ("parts.1.0.parts.1.0",), 2),
        (("parts.1.1.parts.1.1",), ("parts.1.1.parts.1.0",), 2),
        (("parts.1.2",), (), 1),
    ]


class Branches(nn.Module):
    """Adds what is no residual branch: a parameter, a size, another input."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(4))
        self.linear = layers(2)

    def forward(self, x, mask=None):
        y = self.linear(x) + self.position
        if mask is not None:  # an argument with a default keeps it
            y = y + mask
        return y + (x.shape[0] + x.shape[1])


def test_what_is_added_but_no_shortcut():
    assert residual_branches(Branches(), (4,)) == []


class Gated(nn.Module):
    """A branch whose input is multiplied by a gate of two layers before its own layer."""

    def __init__(self):
        super().__init__()
        self.gate, self.linear = layers(2), nn.Linear(4, 4)

    def forward(self, x):
        return x + self.linear(x * self.gate(x).sigmoid())


def test_a_gate_of_the_blocks_own_input_is_none_of_the_branch():
    [branch] = residual_branches(Gated(), (4,))
    assert (branch.inner, branch.ends, branch.depth) == ((), ("linear",), 1)


@pytest.mark.slow
def test_the_deepest_network_of_its_paper():
    """1202 layers (He et al., 2016, section 4.2): two to a block, beside the first and the last."""
    with torch.device("meta"):
        model = create_model("resnet", depth=1202)
        assert len(residual_branches(model)) == (1202 - 2) / 2


class Parallel(nn.Module):
    """Adds an attention and then a branch of its own input, as Cohere's models and PaLM do."""

    def __init__(self):
        super().__init__()
        self.norm, self.attention, self.layers = nn.LayerNorm(4), nn.MultiheadAttention(4, 2), layers(2)

    def forward(self, x):
        y = self.norm(x)
        return x + self.attention(y, y, y, need_weights=False)[0] + self.layers(y)


def test_a_branch_beside_an_attention():
    """What the stream got before is no second network."""
    found = residual_branches(
        nn.Sequential(nn.Linear(4, 4), Parallel(), nn.Conv1d(3, 3, 3, padding=1), Parallel()), (3, 4)
    )
    assert [(branch.ends, branch.depth) for branch in found] == [
        ((f"{block}.{end}",), 2) for block in (1, 3) for end in ("attention.out_proj", "layers.1")
    ]
    # A convolution over positions is passed, a layer that gives the stream is not.
    assert [branch.follows for branch in found] == [
        ("0",),
        ("1.attention.out_proj",),
        ("1.layers.1",),
        ("3.attention.out_proj",),
    ]
