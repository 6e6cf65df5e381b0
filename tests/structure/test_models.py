"""The structures of models that others wrote, against what their source says."""

from __future__ import annotations

import pytest
import timm
import torch
import torchvision
from torchvision.models import SwinTransformer, VisionTransformer

from initbench import Attention, find_structure


def structure(make, size):
    with torch.device("meta"):  # no numbers are needed
        return find_structure(make(), torch.zeros(1, 3, size, size))


def of_timm(name, size, **options):
    return structure(lambda: timm.create_model(name, **options), size)


def names(found):
    return [layer.name for layer in found.layers]


def branches(found):
    """What a test states of each branch: block, ends, gates and shortcut."""
    return [(branch.block, branch.ends, branch.gates, branch.shortcut) for branch in found.branches]


def branch(block, end, gate=None, shortcut=()):
    gates = () if gate is None else (f"{block}.{gate}",)
    return block, (f"{block}.{end}",), gates, tuple(f"{block}.{name}" for name in shortcut)


def fused(module, projection="qkv", output="proj"):
    layer = (f"{module}.{projection}",)
    return Attention(module, layer, layer, layer, (f"{module}.{output}",))


def residual_blocks(depths):
    return [(stage, index) for stage, depth in enumerate(depths) for index in range(depth)]


@pytest.mark.parametrize(
    ("name", "depths", "layers", "first_stage"),
    [("resnet18", (2, 2, 2, 2), ["conv1", "conv2"], 1), ("resnet50", (3, 4, 6, 3), ["conv1", "conv2", "conv3"], 0)],
)
def test_resnets(name, depths, layers, first_stage):
    found = of_timm(name, 64)
    expected, order = [], ["conv1"]
    for stage, index in residual_blocks(depths):
        block = f"layer{stage + 1}.{index}"
        projection = ["downsample.0"] if index == 0 and stage >= first_stage else []
        expected.append(branch(block, layers[-1], None, projection))
        order += [f"{block}.{layer}" for layer in [*layers, *projection]]
    assert branches(found) == expected
    assert names(found) == [*order, "fc"]
    assert found.heads == ("fc",)
    assert found.norms[0] == "bn1"
    assert len(found.norms) == len(found.layers) - 1
    assert found.depth == 2 + len(layers) * sum(depths)
    assert (found.attention, found.unused, found.unknown) == ((), (), {})


@pytest.mark.parametrize(
    ("name", "depths", "layers", "gate"),
    [
        ("nf_resnet26", (2, 2, 2, 2), ["conv1", "conv2", "conv3"], None),
        ("dm_nfnet_f0", (1, 2, 6, 3), ["conv1", "conv2", "conv2b", "conv3"], "skipinit_gain"),
    ],
)
def test_networks_without_norms(name, depths, layers, gate):
    """Their convolutions standardize their weights; squeeze and excitation is no layer of a branch."""
    found = of_timm(name, 64)
    blocks = [(f"stages.{stage}.{index}", index) for stage, index in residual_blocks(depths)]
    assert branches(found) == [branch(b, "conv3", gate, [] if index else ["downsample.conv"]) for b, index in blocks]
    assert [found.inner for found in found.branches] == [tuple(f"{b}.{c}" for c in layers[:-1]) for b, _ in blocks]
    assert (found.heads, found.norms, found.unknown) == (("head.fc",), (), {})


def test_convnext():
    found = of_timm("convnext_atto", 64)
    blocks = [f"stages.{stage}.blocks.{index}" for stage, index in residual_blocks((2, 2, 6, 2))]
    order = ["stem.0"]
    for block in blocks:
        if block.endswith(".0") and not block.startswith("stages.0"):
            order.append(f"{block[:8]}.downsample.1")
        order += [f"{block}.{layer}" for layer in ("conv_dw", "mlp.fc1", "mlp.fc2")]
    assert branches(found) == [branch(block, "mlp.fc2", "gamma") for block in blocks]
    assert names(found) == [*order, "head.fc"]
    assert found.heads == ("head.fc",)
    assert found.norms[:3] == ("stem.1", "stages.0.blocks.0.norm", "stages.0.blocks.1.norm")


def test_cait():
    """Its attention mixes heads; its last blocks attend with the class token alone, which is a stream of its own."""
    found = of_timm("cait_xxs24_224", 32, img_size=32, depth=2)
    expected, order = [], ["patch_embed.proj"]
    for stack, projections in (("blocks", ["qkv", "proj_l", "proj_w"]), ("blocks_token_only", ["q", "k", "v"])):
        for block in (f"{stack}.0", f"{stack}.1"):
            expected += [branch(block, "attn.proj", "gamma_1"), branch(block, "mlp.fc2", "gamma_2")]
            order += [f"{block}.attn.{name}" for name in [*projections, "proj"]]
            order += [f"{block}.mlp.fc1", f"{block}.mlp.fc2"]
    assert branches(found) == expected
    assert names(found) == [*order, "head"]
    assert found.heads == ("head",)
    of_class = [f"blocks_token_only.{index}.attn" for index in (0, 1)]
    assert found.attention == (
        *(fused(f"blocks.{index}.attn") for index in (0, 1)),
        *(Attention(m, (f"{m}.q",), (f"{m}.k",), (f"{m}.v",), (f"{m}.proj",)) for m in of_class),
    )
    assert [attention.fused for attention in found.attention] == [True, True, False, False]


@pytest.mark.parametrize(
    ("name", "gates", "heads"),
    [
        ("deit3_small_patch16_224", ("ls1.gamma", "ls2.gamma"), ("head",)),
        ("deit_tiny_distilled_patch16_224", (None, None), ("head", "head_dist")),
        ("beit_base_patch16_224", ("gamma_1", "gamma_2"), ("head",)),
    ],
)
def test_vision_transformers(name, gates, heads):
    found = of_timm(name, 32, img_size=32, depth=2)
    blocks = ["blocks.0", "blocks.1"]
    layers = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    ends = ("attn.proj", "mlp.fc2")
    assert branches(found) == [branch(b, end, gate) for b in blocks for end, gate in zip(ends, gates, strict=True)]
    assert names(found) == ["patch_embed.proj", *(f"{b}.{layer}" for b in blocks for layer in layers), *heads]
    assert found.heads == heads
    assert found.attention == tuple(fused(f"{block}.attn") for block in blocks)
    assert len(found.norms) == 5
    assert found.unknown == {}


def test_levit():
    """The blocks that halve the image have an attention that is no residual branch: its queries are fewer."""
    found = of_timm("levit_128s", 224)
    expected, attentions = [], []
    for stage, depth in enumerate((2, 3, 4)):
        if stage > 0:
            down = f"stages.{stage}.downsample"
            kv, attn = (f"{down}.attn_downsample.kv.linear",), f"{down}.attn_downsample"
            attentions.append(Attention(attn, (f"{attn}.q.ln.linear",), kv, kv, (f"{attn}.proj.ln.linear",)))
            expected.append(branch(down, "mlp.ln2.linear"))
        for block in (f"stages.{stage}.blocks.{index}" for index in range(depth)):
            attentions.append(fused(f"{block}.attn", "qkv.linear", "proj.ln.linear"))
            expected += [branch(block, "attn.proj.ln.linear"), branch(block, "mlp.ln2.linear")]
    assert branches(found) == expected
    assert found.attention == tuple(attentions)
    assert found.heads == ("head.linear", "head_dist.linear")
    assert names(found)[:5] == [*(f"stem.conv{i}.linear" for i in (1, 2, 3, 4)), "stages.0.blocks.0.attn.qkv.linear"]


def test_ghostnet():
    """A shortcut is a depthwise and a pointwise convolution where the size changes; a ghost's halves are stacked."""
    found = of_timm("ghostnet_100", 64)
    numbers = (1, 1, 1, 1, 1, 1, 5, 1, 4)
    changed = {"blocks.1.0", "blocks.3.0", "blocks.5.0", "blocks.6.3", "blocks.7.0"}
    blocks = [f"blocks.{stage}.{index}" for stage, index in residual_blocks(numbers)]
    ends = ("ghost2.primary_conv.0", "ghost2.cheap_operation.0")
    assert branches(found) == [
        (
            block,
            tuple(f"{block}.{end}" for end in ends),
            (),
            (f"{block}.shortcut.0", f"{block}.shortcut.2") if block in changed else (),
        )
        for block in blocks
    ]
    halved = {"blocks.1.0", "blocks.3.0", "blocks.5.0", "blocks.7.0"}  # one more convolution, of stride 2
    assert [found.depth for found in found.branches] == [5 if block in halved else 4 for block in blocks]
    assert found.heads == ("classifier",)


def test_a_network_with_relative_positions():
    """Queries are multiplied by vectors of positions, which are added to the scores."""
    found = of_timm("botnet26t_256", 256)
    blocks = [f"stages.{stage}.{index}" for stage, index in residual_blocks((2, 2, 2, 2))]
    assert [(branch.block, branch.ends, branch.depth) for branch in found.branches] == [
        (block, (f"{block}.conv3_1x1.conv",), 3) for block in blocks
    ]
    attending = ["stages.2.1", "stages.3.0", "stages.3.1"]
    expected = [fused(f"{block}.self_attn", output="qkv") for block in attending]
    assert [a.module for a in found.attention] == [a.module for a in expected]
    assert [a.query for a in found.attention] == [a.query for a in expected]
    assert [a.output for a in found.attention] == [(f"{block}.conv3_1x1.conv",) for block in attending]
    assert found.unknown == {}


def test_mobilenet():
    """Blocks without a skip connection have no branch."""
    found = of_timm("mobilenetv3_small_050", 64)
    blocks = [f"blocks.{number}" for number in ("1.1", "2.1", "2.2", "3.0", "3.1", "4.1", "4.2")]
    assert branches(found) == [branch(block, "conv_pwl") for block in blocks]
    assert all(found.inner == (f"{b}.conv_pw", f"{b}.conv_dw") for b, found in zip(blocks, found.branches, strict=True))
    assert found.heads == ("classifier",)


def test_mixers():
    found = of_timm("mixer_s32_224", 64, img_size=64)
    blocks = [f"blocks.{index}" for index in range(8)]
    assert branches(found) == [branch(b, end) for b in blocks for end in ("mlp_tokens.fc2", "mlp_channels.fc2")]
    layers = ("mlp_tokens.fc1", "mlp_tokens.fc2", "mlp_channels.fc1", "mlp_channels.fc2")
    assert names(found) == ["stem.proj", *(f"{b}.{layer}" for b in blocks for layer in layers), "head"]
    assert found.heads == ("head",)

    found = of_timm("resmlp_12_224", 64, img_size=64)
    blocks = [f"blocks.{index}" for index in range(12)]
    ends = (("linear_tokens", "ls1"), ("mlp_channels.fc2", "ls2"))
    assert branches(found) == [branch(block, end, gate) for block in blocks for end, gate in ends]
    assert [branch.depth for branch in found.branches] == [1, 2] * 12
    assert found.heads == ("head",)


def test_poolformer():
    """Its pooling has no weight, and is no branch here."""
    found = of_timm("poolformer_s12", 64)
    blocks = [f"stages.{stage}.blocks.{index}" for stage, index in residual_blocks((2, 2, 6, 2))]
    assert branches(found) == [branch(block, "mlp.fc2", "layer_scale2.scale") for block in blocks]
    assert found.heads == ("head.fc",)


def test_swin_transformers():
    found = of_timm("swin_tiny_patch4_window7_224", 56, img_size=56, depths=(1, 2), num_heads=(2, 4))
    blocks = ["layers.0.blocks.0", "layers.1.blocks.0", "layers.1.blocks.1"]
    layers = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    order = [f"{block}.{layer}" for block in blocks for layer in layers]
    assert names(found) == ["patch_embed.proj", *order[:4], "layers.1.downsample.reduction", *order[4:], "head.fc"]
    assert branches(found) == [branch(block, end) for block in blocks for end in ("attn.proj", "mlp.fc2")]
    assert found.attention == tuple(fused(f"{block}.attn") for block in blocks)
    assert found.heads == ("head.fc",)

    # Torchvision's gives the weights of the attention's layers to a function, and calls none of them.
    found = structure(lambda: SwinTransformer([4, 4], 8, [1, 2], [1, 2], [2, 2], num_classes=5), 32)
    blocks = ["features.1.0", "features.3.0", "features.3.1"]
    order = [f"{b}.{layer}" for b in blocks for layer in ("attn.qkv", "attn.proj", "mlp.0", "mlp.3")]
    assert names(found) == ["features.0.0", *order[:4], "features.2.reduction", *order[4:], "head"]
    assert branches(found) == [branch(block, end) for block in blocks for end in ("attn.proj", "mlp.3")]
    assert found.attention == tuple(fused(f"{block}.attn") for block in blocks)
    assert found.heads == ("head",)
    assert found.unknown == {}


def test_the_vision_transformer_of_torchvision():
    found = structure(lambda: VisionTransformer(32, 16, 2, 2, 8, 16, num_classes=5), 32)
    blocks = [f"encoder.layers.encoder_layer_{index}" for index in (0, 1)]
    layers = ("self_attention", "self_attention.out_proj", "mlp.0", "mlp.3")
    assert names(found) == ["conv_proj", *(f"{b}.{layer}" for b in blocks for layer in layers), "heads.head"]
    assert found.layers[1].weight == f"{blocks[0]}.self_attention.in_proj_weight"
    assert [layer.depth for layer in found.layers] == list(range(1, 11))
    assert branches(found) == [branch(block, end) for block in blocks for end in ("self_attention.out_proj", "mlp.3")]
    m = f"{blocks[0]}.self_attention"
    assert found.attention[0] == Attention(m, (m,), (m,), (m,), (f"{m}.out_proj",))
    assert found.attention[0].fused


def test_networks_without_branches():
    found = structure(torchvision.models.squeezenet1_1, 64)
    fires = [f"features.{index}" for index in (3, 4, 6, 7, 9, 10, 11, 12)]
    order = [f"{fire}.{layer}" for fire in fires for layer in ("squeeze", "expand1x1", "expand3x3")]
    assert names(found) == ["features.0", *order, "classifier.1"]
    assert (found.heads, found.branches) == (("classifier.1",), ())
    assert found.depth == 1 + 8 * 2 + 1

    found = structure(torchvision.models.vgg11, 64)
    convolutions = [f"features.{index}" for index in (0, 3, 6, 8, 11, 13, 16, 18)]
    assert names(found) == [*convolutions, "classifier.0", "classifier.3", "classifier.6"]
    assert (found.heads, found.branches, found.norms) == (("classifier.6",), (), ())

    found = structure(torchvision.models.densenet121, 64)
    order = ["features.conv0"]
    for block, depth in enumerate((6, 12, 24, 16), start=1):
        for layer in range(1, depth + 1):
            order += [f"features.denseblock{block}.denselayer{layer}.conv{i}" for i in (1, 2)]
        order += [f"features.transition{block}.conv"] * (block < 4)
    assert names(found) == [*order, "classifier"]
    assert (found.heads, found.branches, found.unknown) == (("classifier",), (), {})
    assert found.depth == 121
