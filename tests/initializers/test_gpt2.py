"""GPT-2's initialization: which weights are residual projections, their scale, and what is refused."""

from __future__ import annotations

import math
from collections import OrderedDict

import pytest
import timm
import torch
from recorded import FROZEN, UNTOUCHED, ZEROED, tied
from recorded import drawn as drawn_from
from scipy import stats
from torch import nn
from transformer_parts import Attention, Crossing, FeedForward, GlobalQueries, GroupedQueries, Mixer, Spread, Stream

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize


def encoder(layers, width=32, hidden=48):
    layer = nn.TransformerEncoderLayer(width, 4, hidden, batch_first=True)
    return nn.TransformerEncoder(layer, layers).double()


def vit(depth=3, name="vit_tiny_patch16_224", **options):
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "num_heads": 3, "num_classes": 10}
    return timm.create_model(name, depth=depth, **sizes | options).double()


def found(model, size=None, **options):
    """N, and the residual projections by name; of images of a size."""
    images = {} if size is None else {"inputs": torch.zeros(1, 3, size, size)}
    conditions = initialize(model, "gpt2", **images | options).conditions
    return conditions["blocks"], set(conditions["residual_projections"])


def of_sequence(model, width=16):
    """As `found`, of a sequence of vectors."""
    return found(model.double(), inputs=torch.zeros(1, 5, width, dtype=torch.float64))


def test_the_projections_of_pytorchs_encoder():
    names = {f"layers.{i}.{last}.weight" for i in range(3) for last in ("self_attn.out_proj", "linear2")}
    assert found(encoder(3)) == (3, names)
    assert found(encoder(3, hidden=32)) == (3, names)  # all layers of one shape
    ends = nn.Sequential(nn.Linear(5, 32), encoder(3), nn.Linear(32, 5)).double()
    assert found(ends) == (3, {f"1.{name}" for name in names})
    assert found(encoder(1).layers[0]) == (1, {"self_attn.out_proj.weight", "linear2.weight"})


@pytest.mark.parametrize(
    "options", [{}, {"init_values": 0.1}, {"class_token": False, "global_pool": "avg"}, {"mlp_ratio": 1.0}]
)
def test_the_projections_of_a_vision_transformer(options):
    names = {f"blocks.{i}.{last}.weight" for i in range(3) for last in ("attn.proj", "mlp.fc2")}
    assert found(vit(**options)) == (3, names)


@pytest.mark.parametrize(
    ("name", "size", "options", "blocks", "projections"),
    [
        ("beit_base_patch16_224", 224, {"depth": 2, "embed_dim": 48, "num_heads": 3}, 2, 4),
        ("cait_xxs24_224", 224, {"depth": 2}, 4, 8),  # two blocks of class attention; attentions with mixing of heads
        ("eva02_tiny_patch14_224", 224, {"depth": 2}, 2, 4),  # a gated feed-forward part
        ("swinv2_base_window8_256", 256, {"depths": (1, 1, 1, 1)}, 4, 8),  # small networks for position biases
        ("hiera_tiny_224", 224, {"stages": (1, 1, 1, 1)}, 4, 8),  # attentions that double the width
        ("pvt_v2_b0", 64, {}, 8, 16),  # queries apart from keys and values
        # Pooling by attention, without a shortcut.
        ("vit_base_patch16_siglip_224", 224, {"depth": 2, "embed_dim": 48, "num_heads": 3}, 3, 6),
    ],
)
def test_the_projections_of_other_families(name, size, options, blocks, projections):
    number, names = found(timm.create_model(name, **options), size)
    assert (number, len(names)) == (blocks, projections)
    assert all(name.endswith(("attn.proj.weight", "attn_pool.proj.weight", "mlp.fc2.weight")) for name in names)


def test_attentions_and_feed_forward_parts_of_other_shapes():
    pairs = nn.Sequential(*(Stream(a=GroupedQueries(), f=FeedForward()) for _ in range(2)))
    assert of_sequence(pairs) == (2, {f"{i}.{last}.weight" for i in range(2) for last in ("a.back", "f.down")})
    in_turn = Stream(a=GroupedQueries(), b=FeedForward(), c=GroupedQueries(), d=FeedForward())
    assert of_sequence(in_turn) == (2, {"a.back.weight", "b.down.weight", "c.back.weight", "d.down.weight"})
    model = nn.Sequential(OrderedDict(layers=nn.Sequential(Spread(), Spread()), pooler=nn.Linear(16, 16)))
    expected = {f"layers.{i}.{last}.weight" for i in range(2) for last in ("attention.output.dense", "output.0")}
    assert of_sequence(model) == (2, expected)


def test_cross_attention_is_a_projection_more_and_no_block_more():
    decoder = Crossing(nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 24, batch_first=True), 2))
    last = ("self_attn.out_proj", "multihead_attn.out_proj", "linear2")
    assert of_sequence(decoder) == (2, {f"decoder.layers.{i}.{name}.weight" for i in range(2) for name in last})


class WithWords(nn.Module):
    """A vision transformer beside an embedding that it does not use."""

    def __init__(self):
        super().__init__()
        self.words, self.vit = nn.Embedding(500, 64), vit(depth=8, embed_dim=64, num_heads=4)

    def forward(self, images):
        return self.vit(images)


def test_standard_deviations():
    """χ²: (n − 1) s² / σ² of n normal entries, within its central 1 − 10⁻⁶."""
    model = WithWords().double()
    record = initialize(model, "gpt2", seed=3, input_shape=(1, 3, 32, 32))
    projections = set(record.conditions["residual_projections"])
    assert len(projections) == 16
    drawn = {name for name, done in record.tensors.items() if done[0]["event"] == "drawn"}
    assert drawn == {n for n, p in model.named_parameters() if p.dim() > 1 and "cls_token" not in n}
    assert {"words.weight", "vit.pos_embed", "vit.head.weight", "vit.patch_embed.proj.weight"} < drawn
    for name in drawn:
        values = model.get_parameter(name).detach().flatten()
        std = 0.02 / math.sqrt(2 * 8) if name in projections else 0.02
        low, high = stats.chi2.interval(1 - 1e-6, len(values) - 1)
        assert low < values.var().item() * (len(values) - 1) / std**2 < high, name
    residual = torch.cat([model.get_parameter(name).detach().flatten() for name in sorted(projections)])
    assert residual.std().item() == pytest.approx(0.005, rel=5 / math.sqrt(2 * len(residual)))
    assert stats.kstest(residual.numpy() / 0.005, stats.norm.cdf).pvalue > 1e-3
    assert record.tensors["vit.blocks.0.mlp.fc2.weight"] == [
        drawn_from("normal", std=pytest.approx(0.005), part="residual projection")
    ]
    assert record.tensors["vit.blocks.0.mlp.fc1.weight"] == [drawn_from("normal", std=0.02)]


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_the_same_draws_are_divided_by_the_root_of_twice_the_depth(depth):
    """A parameter's numbers depend on seed and name alone: what else they depend on is the factor."""
    two, other = encoder(2), encoder(depth)
    record = initialize(two, "gpt2", seed=5)
    initialize(other, "gpt2", seed=5)
    for name in ("layers.0.self_attn.in_proj_weight", "layers.0.linear1.weight"):
        assert torch.equal(two.get_parameter(name), other.get_parameter(name)), name
    for name in record.conditions["residual_projections"][:2]:
        ratio = two.get_parameter(name) / other.get_parameter(name)
        assert torch.allclose(ratio, torch.full_like(ratio, math.sqrt(depth / 2)), rtol=1e-13, atol=0), name


def test_std_multiplies_everything():
    one, two = encoder(2), encoder(2)
    initialize(one, "gpt2")
    initialize(two, "gpt2", std=0.04)
    for name, parameter in one.named_parameters():
        if parameter.dim() > 1:
            assert torch.allclose(two.get_parameter(name), 2 * parameter, rtol=1e-13, atol=0), name


def test_zero_makes_every_block_the_identity():
    model = vit()
    record = initialize(model, "gpt2", residual="zero")
    scaled = vit()
    initialize(scaled, "gpt2")
    for name in record.conditions["residual_projections"]:
        assert not model.get_parameter(name).any()
        assert record.tensors[name] == [ZEROED]
    assert torch.equal(model.blocks[0].mlp.fc1.weight, scaled.blocks[0].mlp.fc1.weight)
    x = torch.randn(2, 17, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.blocks(x), x)
        assert not torch.equal(scaled.blocks(x), x)


def test_the_stream_does_not_grow_with_depth():
    """A pre-norm stream x of variance 1 gets a share of 1 / 2N of each branch; unscaled it grows in proportion to N."""

    def growth(depth, factor):
        model = vit(depth=depth, embed_dim=64, num_heads=4)
        record = initialize(model, "gpt2", std=0.1)
        x = torch.randn(8, 17, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            for name in record.conditions["residual_projections"]:
                model.get_parameter(name).mul_(factor)
            return (model.blocks(x) - x).square().mean().item()

    assert growth(32, 1.0) == pytest.approx(growth(2, 1.0), rel=0.3)
    assert growth(32, math.sqrt(64)) > 8 * growth(2, math.sqrt(4))


def test_biases_norms_gates_and_tokens():
    model = vit(init_values=0.1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.blocks[1].attn.proj.weight.requires_grad_(requires_grad=False)
    record = initialize(model, "gpt2")
    assert not model.blocks[0].attn.qkv.bias.any()
    assert not model.patch_embed.proj.bias.any()
    assert model.norm.weight.eq(1).all()
    assert not model.norm.bias.any()
    for name in ("cls_token", "blocks.0.ls1.gamma", "blocks.2.ls2.gamma"):
        assert model.get_parameter(name).eq(7).all()
        assert record.tensors[name] == [UNTOUCHED]
    # A frozen projection still adds to the stream: it counts.
    assert record.tensors["blocks.1.attn.proj.weight"] == [FROZEN]
    assert "blocks.1.attn.proj.weight" in record.conditions["residual_projections"]
    assert record.conditions["blocks"] == 3


class Language(nn.Module):
    """Its head, registered first, has the weight of the embedding."""

    def __init__(self, words):
        super().__init__()
        self.head, self.words, self.encoder = nn.Linear(32, 10, bias=False), words, encoder(1)
        self.head.weight = words.weight

    def forward(self, tokens):
        return self.head(self.encoder(self.words(tokens)))


def test_the_row_of_padding_is_zero_and_tied_weights_are_drawn_once():
    words = nn.Embedding(10, 32, padding_idx=3)
    model = Language(words).double()
    record = initialize(model, "gpt2")
    assert not words.weight[3].any()
    assert words.weight.detach().std().item() == pytest.approx(0.02, rel=0.3)
    assert record.tensors["words.weight"] == [tied("head.weight")]


def two_layers():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))


VECTORS = {"inputs": torch.zeros(1, 5, 16)}


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (lambda: create_model("wrn", depth=10, width=1, norm="none"), {}),
        (lambda: create_model("mlp", depth=8, width=32, input_shape=(1, 4, 8)), {"input_shape": (1, 1, 4, 8)}),
        (lambda: nn.Sequential(*(nn.Linear(16, 16) for _ in range(8))), VECTORS),
        (lambda: Stream(a=two_layers(), b=two_layers()), VECTORS),
        (Attention, VECTORS),
        (lambda: Stream(a=Attention(), b=Attention()), VECTORS),
        (lambda: timm.create_model("mixer_s32_224", img_size=64), {"input_shape": (1, 3, 64, 64)}),
    ],
    ids=["convolutions", "mlp", "equal layers", "branches", "attention alone", "attentions", "mixer"],
)
def test_models_without_transformer_blocks_are_refused(make, inputs):
    model = make()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(InitializationError, match=r"^gpt2: found no transformer block, that is, an attention foll"):
        initialize(model, "gpt2", **inputs)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ({"mixer": Mixer(), "f": FeedForward()}, "f.down"),
        ({"a": GroupedQueries(), "f": FeedForward(), "g": FeedForward()}, "g.down"),
        ({"f": FeedForward(), "a": GroupedQueries()}, "f.down"),
        ({"a": Attention(), "f": FeedForward(), "g": two_layers()}, "g.2"),
    ],
    ids=["convolution", "two behind an attention", "before the attention", "two of two kinds"],
)
def test_a_feed_forward_part_without_attention_is_refused(block, name):
    model = nn.Sequential(encoder(1, width=16), Stream(**block))
    with pytest.raises(
        InitializationError,
        match=rf"^gpt2: 1\.{name}\.weight ends a feed-forward part without an attention$",
    ):
        of_sequence(model)


class LinearAttention(Attention):
    """Without a softmax (Katharopoulos et al., Transformers are RNNs, ICML 2020)."""

    def forward(self, x):
        q, k, v = (layer(x).relu() for layer in (self.to_q, self.to_k, self.to_v))
        return self.back(q @ (k.transpose(1, 2) @ v))


@pytest.mark.parametrize(
    ("attention", "reason"),
    [
        (GlobalQueries, "no weight layer is found for the query of 1.a"),
        (LinearAttention, "1.a multiplies two results, which may be an attention without a softmax"),
    ],
)
def test_an_attention_that_cannot_be_told_is_refused(attention, reason):
    model = nn.Sequential(encoder(1, width=16), Stream(a=attention(), f=FeedForward()))
    with pytest.raises(InitializationError) as refused:
        of_sequence(model)
    assert str(refused.value) == f"gpt2: the attentions cannot be determined: {reason}"


def test_what_it_refuses():
    with pytest.raises(ArgumentError) as caught:
        initialize(encoder(1), "gpt2", std=0.0)
    assert caught.value.argument == "std"
