"""Encoder-decoder Transformers: branches, attentions, norms and heads of both stacks."""

from __future__ import annotations

import pytest
import torch
from small_transformer import pairs, transformer
from torch import nn

from initbench.structure.attention import Attention
from initbench.structure.find import find_structure

ZEROS = torch.zeros(1, 2, 9, dtype=torch.int64)
DECODER = ("self_attn", "encoder_attn", "feed_forward")


def attention(name):
    """The roles of an attention's layers."""
    return Attention(name, *((f"{name}.{role}_proj",) for role in ("q", "k", "v", "out")))


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
@pytest.mark.parametrize("tied", ["none", "decoder", "all"])
def test_the_transformer_of_fairseq(norm, tied):
    model = transformer(depth=6, source=11, norm=norm, tied=tied)
    found = find_structure(model, ZEROS)
    blocks = [(f"{stack}.layers.{i}", stack) for stack in ("encoder", "decoder") for i in range(6)]
    parts = [(b, f"{b}.{part}") for b, stack in blocks for part in (DECODER if stack == "decoder" else DECODER[::2])]
    assert len(parts) == 30
    assert [(branch.block, branch.output) for branch in found.branches] == parts
    for branch, (_, part) in zip(found.branches, parts, strict=True):
        inner, end = (["fc1"], "fc2") if part.endswith("feed_forward") else (["q_proj", "k_proj", "v_proj"], "out_proj")
        assert branch.inner == tuple(f"{part}.{layer}" for layer in inner)
        assert (branch.ends, branch.depth, branch.shortcut) == ((f"{part}.{end}",), 2, ())
    assert {branch.stage for branch in found.branches} == {"encoder.layers", "decoder.layers"}
    assert found.attention == tuple(attention(part) for _, part in parts if part.endswith("attn"))
    assert found.heads == ("decoder.output_projection",)
    assert found.embeddings == ("encoder.embed_tokens", "decoder.embed_tokens")
    norms = {name for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)}
    assert (set(found.norms), len(norms)) == (norms, {"post": 30, "pre": 32, "none": 0}[norm])
    shared = ["encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"]
    names = tuple(f"{name}.weight" for name in shared[{"none": 3, "decoder": 1, "all": 0}[tied] :])
    assert found.tied == ((names,) if names else ())
    assert (found.positions, found.scalar_biases, found.unused, found.unknown) == ((), (), (), {})


def test_a_branch_follows_the_one_before_it_in_its_stack():
    found = find_structure(transformer(depth=1, decoder_depth=2), ZEROS)
    ends = [branch.ends for branch in found.branches]
    starts = {0: (), 2: ()}  # the first of each stack follows embeddings alone
    assert [branch.follows for branch in found.branches] == [
        starts.get(index, ends[index - 1]) for index in range(len(ends))
    ]


def test_real_sentences_have_the_structure_of_zeros():
    model = transformer()
    assert find_structure(model, pairs()[0]) == find_structure(model, ZEROS)


def test_fixups_network():
    found = find_structure(transformer(depth=1, norm="none", scheme="fixup", tied="none"), ZEROS)
    assert [branch.gates for branch in found.branches] == [
        (f"{branch.output}.multiplier.scale",) for branch in found.branches
    ]
    assert len(found.branches) == 5
    assert len(found.scalar_biases) == 2 + 3 + 2 + 3 + 3 + 1
    assert found.unknown == {}


class Torchs(nn.Module):
    """Torch's Transformer between embeddings and a head."""

    def __init__(self, *, norm_first: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.stacks = nn.Transformer(8, 2, 2, 3, 12, batch_first=True, norm_first=norm_first)
        self.head = nn.Linear(8, 11)

    def forward(self, pair):
        source, target = map(self.embed, pair.unbind(1))
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.stacks(source, target, tgt_mask=causal))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_transformer_of_torch(norm_first):
    found = find_structure(Torchs(norm_first=norm_first), ZEROS)
    encoder = [f"stacks.encoder.layers.{i}" for i in range(2)]
    decoder = [f"stacks.decoder.layers.{i}" for i in range(3)]
    blocks = [*(block for block in encoder for _ in range(2)), *(block for block in decoder for _ in range(3))]
    assert [branch.block for branch in found.branches] == blocks
    attentions = [f"{block}.self_attn" for block in encoder]
    attentions += [f"{block}.{name}" for block in decoder for name in ("self_attn", "multihead_attn")]
    assert [one.module for one in found.attention] == attentions
    assert all(one.output == (f"{one.module}.out_proj",) for one in found.attention)
    assert (found.heads, found.unknown) == (("head",), {})
