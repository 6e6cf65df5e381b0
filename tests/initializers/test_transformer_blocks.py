"""Which blocks a transformer has: by what runs after what, and not by names, classes or the order of registration."""

from __future__ import annotations

from copy import deepcopy

import pytest
import timm
import torch
import transformers
from small_gpt import gpt
from torch import nn
from transformer_parts import Attention, FeedForward, Mixer, Stream

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs


def blocks(model, *shape):
    """N, and the names of the residual projections without their ending."""
    inputs = torch.zeros(1, *shape or (5, 16))
    conditions = initialize(model, "gpt2", inputs=inputs).conditions
    return conditions["blocks"], [name.removesuffix(".weight") for name in conditions["residual_projections"]]


def language_blocks(model):
    conditions = initialize(model, "gpt2", inputs=Inputs((6,), 20)).conditions
    return conditions["blocks"], [name.removesuffix(".weight") for name in conditions["residual_projections"]]


class Block(nn.Module):
    """Adds an attention and a feed-forward part, registered the other way round."""

    def __init__(self, order="sequential"):
        super().__init__()
        self.f, self.a = FeedForward(), Attention()
        self.norm = nn.LayerNorm(16)
        self.order = order

    def forward(self, x):
        y = self.norm(x)
        if self.order == "one sum":  # GPT-J
            return x + (self.a(y) + self.f(y))
        if self.order == "two sums":  # Cohere, PaLM
            return x + self.a(y) + self.f(y)
        if self.order == "feed-forward first":
            return x + self.f(y) + self.a(y)
        x = x + self.a(y)
        return self.norm(x + self.f(x))


@pytest.mark.parametrize("order", ["sequential", "one sum", "two sums"])
def test_the_parts_of_a_block_may_be_added_in_turn_or_at_once(order):
    model = nn.Sequential(Block(order), Block(order))
    assert blocks(model) == (2, ["0.a.back", "0.f.down", "1.a.back", "1.f.down"])


def test_parallel_parts_in_the_other_order_are_refused():
    """Each attention would be taken for that of the next block."""
    with pytest.raises(InitializationError, match=r"^gpt2: 0\.f\.down\.weight ends a feed-forward part without an at"):
        blocks(nn.Sequential(Block("feed-forward first"), Block("feed-forward first")))


def test_a_block_that_runs_several_times_counts_once():
    block = Block()
    assert blocks(nn.Sequential(block, block, block)) == (1, ["0.a.back", "0.f.down"])


class Streams(nn.Module):
    """Two streams whose blocks run in turn; the first one then attends once more, in a branch of its own."""

    def __init__(self):
        super().__init__()
        parts = {"a": Attention, "b": Attention, "fa": FeedForward, "fb": FeedForward, "last": Attention}
        self.parts = nn.ModuleDict({name: part() for name, part in parts.items()})
        self.side, self.next = nn.Linear(16, 16), Block()

    def forward(self, x):
        y = self.side(x)
        x, y = x + self.parts["a"](x), y + self.parts["b"](y)
        x, y = x + self.parts["fa"](x), y + self.parts["fb"](y)
        return self.next(self.side(x + self.parts["last"](x)) + y)


def test_an_attention_belongs_to_the_stream_that_it_is_added_to():
    """As in CrossViT, whose fusions are attentions that no feed-forward part follows."""
    expected = ["parts.a.back", "parts.fa.down", "parts.b.back", "parts.fb.down", "next.a.back", "next.f.down"]
    assert blocks(Streams()) == (3, expected)


def test_a_convolution_between_the_parts_is_passed():
    """As the local interaction of patches in XCiT: it is no residual projection, and takes no attention away."""
    model = nn.Sequential(*(Stream(a=Attention(), c=Mixer(), f=FeedForward()) for _ in range(2)))
    assert blocks(model) == (2, ["0.a.back", "0.f.down", "1.a.back", "1.f.down"])


class Pointwise(nn.Module):
    """Two convolutions of size 1, and a depthwise one between them."""

    def __init__(self, *, depthwise):
        super().__init__()
        self.up, self.down = nn.Conv1d(16, 32, 1), nn.Conv1d(32, 16, 1)
        self.between = nn.Conv1d(32, 32, 3, padding=1, groups=32) if depthwise else nn.Identity()

    def forward(self, x):
        return self.down(self.between(self.up(x.transpose(1, 2))).relu()).transpose(1, 2)


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_feed_forward_part_of_convolutions(depthwise):
    """A depthwise convolution may be in it, as in PVTv2."""
    model = nn.Sequential(*(Stream(a=Attention(), f=Pointwise(depthwise=depthwise)) for _ in range(2)))
    assert blocks(model) == (2, ["0.a.back", "0.f.down", "1.a.back", "1.f.down"])


def test_stages_of_convolutions_and_inverted_bottlenecks_are_no_blocks():
    """As in CAFormer, and in MaxViT."""
    stage, between = Stream(m=Mixer(), f=Pointwise(depthwise=False)), Stream(c=Pointwise(depthwise=True))
    assert blocks(nn.Sequential(stage, Block(), between, Block())) == (
        2,
        ["1.a.back", "1.f.down", "3.a.back", "3.f.down"],
    )


def test_a_feed_forward_part_of_convolutions_behind_a_block_is_refused():
    """As in EfficientViT of Liu et al. (CVPR 2023), whose blocks have one before the attention and one behind it."""
    block = Stream(first=Pointwise(depthwise=False), a=Attention(), last=Pointwise(depthwise=False))
    other = deepcopy(block)
    with pytest.raises(
        InitializationError, match=r"^gpt2: 1\.first\.down\.weight ends a feed-forward part without an att"
    ):
        blocks(nn.Sequential(block, other))


def test_a_bottleneck_behind_an_attention_is_no_feed_forward_part():
    """As in HaloNet, a ResNet with attentions: its convolutions mix positions and channels at once."""
    bottleneck = Pointwise(depthwise=True)
    bottleneck.between = nn.Conv1d(32, 32, 3, padding=1)
    with pytest.raises(InitializationError, match=r"^gpt2: found no transformer block"):
        blocks(Stream(a=Attention(), c=bottleneck))


class Experts(nn.Module):
    """Adds several feed-forward parts, of which each position would be for one."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([FeedForward(), FeedForward()])

    def forward(self, x):
        return self.parts[0](x) + self.parts[1](x)


def test_experts_are_refused():
    """How many feed-forward parts they are is a question of how many are used at a position."""
    with pytest.raises(
        InitializationError, match=r"^gpt2: f.parts.0.down.weight is one of 2 ends of a branch: it is u"
    ):
        blocks(Stream(a=Attention(), f=Experts()))


def test_a_branch_of_one_layer_is_refused():
    model = nn.Sequential(Block(), Stream(a=Attention(), f=nn.Linear(16, 16)))
    with pytest.raises(
        InitializationError, match=r"^gpt2: 1\.f\.weight forms a residual branch on its own: it is unclear how many"
    ):
        blocks(model)


def test_a_mixture_of_experts_is_refused():
    """Also in every second block alone, whose attention would be in none."""
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8, "decoder_sparse_step": 2}
    config = transformers.Qwen2MoeConfig(vocab_size=20, num_key_value_heads=2, **SMALL, **experts)
    with pytest.raises(
        InitializationError, match=r"^gpt2: model\.layers\.1\.mlp\.[a-z_.]+ is (a residual branch|one of)"
    ):
        language_blocks(transformers.Qwen2MoeForCausalLM(config))


class BareExpert(nn.Module):
    """Its last weight is a parameter of no layer."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Parameter(torch.ones(32, 16))
        self.scale = nn.Parameter(torch.ones(1, 16))

    def forward(self, x):
        return self.up(x).relu() @ self.down


def test_a_projection_that_is_no_layer_is_refused():
    model = Stream(a=Attention(), f=BareExpert())
    with pytest.raises(
        InitializationError, match=r"^gpt2: f.down ends a residual branch, but gpt2 does not draw its w"
    ):
        blocks(model)
    assert model["f"].down.eq(1).all()


VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "num_heads": 3, "depth": 2}


@pytest.mark.parametrize(
    ("name", "size", "options", "expected"),
    [
        # Two attentions at once, and then two feed-forward parts: 4 blocks, for 8 additions.
        ("vit_small_patch16_18x2_224", 32, VIT, (4, 8)),
        # Attention and feed-forward part in one sum, as in ViT-22B.
        ("vit_tiny_patch16_224", 32, VIT | {"block_fn": timm.models.vision_transformer.ParallelScalingBlock}, (2, 4)),
        # The attentions of the streams of two sizes; those between them, which no feed-forward part follows, are none.
        ("crossvit_9_240", 240, {"depth": [[1, 3, 0]]}, (4, 8)),
        # Convolutional stages, before transformer blocks of convolutions of size 1 or of linear layers.
        ("visformer_tiny", 224, {}, (8, 16)),
        ("coatnet_nano_rw_224", 224, {}, (9, 18)),
        ("mobilevit_xxs", 256, {}, (9, 18)),
        ("levit_128s", 224, {}, (11, 22)),  # two attentions halve the image, without a shortcut
        ("xcit_nano_12_p16_224", 224, {}, (14, 28)),
        ("twins_svt_small", 224, {}, (18, 36)),
    ],
)
def test_vision_transformers(name, size, options, expected):
    number, names = blocks(timm.create_model(name, **options), 3, size, size)
    assert (number, len(names)) == expected


SMALL = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.mark.parametrize(
    ("kind", "options", "block", "ends"),
    [
        ("gpt2", {"n_layer": 2, "n_embd": 16, "n_head": 2}, "transformer.h", ("attn.c_proj", "mlp.c_proj")),
        (
            "gptj",
            {"n_layer": 2, "n_embd": 16, "n_head": 2, "rotary_dim": 4},
            "transformer.h",
            ("attn.out_proj", "mlp.fc_out"),
        ),
        ("cohere", SMALL, "model.layers", ("self_attn.o_proj", "mlp.down_proj")),
        ("llama", SMALL, "model.layers", ("self_attn.o_proj", "mlp.down_proj")),
        ("bert", SMALL | {"is_decoder": True}, "bert.encoder.layer", ("attention.output.dense", "output.dense")),
    ],
)
def test_language_models_of_hugging_face(kind, options, block, ends):
    config = transformers.AutoConfig.for_model(kind, vocab_size=20, pad_token_id=None, **options)
    model = transformers.AutoModelForCausalLM.from_config(config)
    assert language_blocks(model) == (2, [f"{block}.{index}.{end}" for index in (0, 1) for end in ends])


def test_our_language_model():
    model = gpt(depth=3, vocabulary=20)
    assert language_blocks(model) == (3, [f"h.{i}.{part}.c_proj" for i in range(3) for part in ("attn", "mlp")])


def test_albert_has_one_block():
    config = transformers.AlbertConfig(vocab_size=20, embedding_size=8, **SMALL)
    number, names = language_blocks(transformers.AlbertForMaskedLM(config))
    assert (number, len(names)) == (1, 2)
