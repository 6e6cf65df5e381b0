"""Embeddings of positions that are bare parameters: found by what they are added to, not by their names."""

from __future__ import annotations

import pytest
import timm
import torch
import transformers
from small_gpt import gpt
from torch import nn
from transformer_parts import Attention, FeedForward, Stream

from initbench import find_structure

X = torch.ones(1, 5, 16)


class Model(nn.Module):
    """Stacks a class token before vectors, and adds what it is told to before its block, within it and behind it."""

    def __init__(self, *, within=False, token_is_stream=False):
        super().__init__()
        shapes = {"table": (1, 6, 16), "token": (1, 1, 16), "shift": (1, 1, 16), "pos_bias": (6, 6), "bias": (16,)}
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.ones(shape)))
        self.block = Stream(a=Attention(), f=FeedForward())
        self.within, self.token_is_stream = within, token_is_stream

    def forward(self, x):
        if self.token_is_stream:
            token = self.token.expand(len(x), -1, -1)
            return token + self.block["a"](torch.cat([token, x], 1))[:, : token.shape[1]]
        x = torch.cat([self.token, x], 1) + self.shift + self.bias
        if self.within:
            x = x + self.block["a"](x + self.table)
            scores = torch.softmax(x @ x.transpose(1, 2) + self.pos_bias, -1)
            return x + self.block["f"](scores @ x)
        return self.block(torch.add(x, self.table))


def test_what_is_added_to_the_stream():
    """A class token is stacked with it; a vector of any shape is a bias."""
    found = find_structure(Model(), X)
    assert found.positions == ("table",)
    assert len(found.branches) == 2


def test_what_is_added_within_a_branch_or_to_scores_is_none():
    assert find_structure(Model(within=True), X).positions == ()


def test_a_token_that_is_added_to_is_none():
    """As those of class attention, to which an attention's result is added."""
    model = Model(token_is_stream=True)
    model.token = nn.Parameter(torch.ones(1, 2, 16))
    found = find_structure(model, X)
    assert (len(found.branches), found.positions) == (1, ())


@pytest.mark.parametrize(
    ("name", "size", "options", "expected"),
    [
        ("vit_tiny_patch16_224", 224, {"depth": 1}, ["pos_embed"]),  # but not the class token
        ("deit_tiny_distilled_patch16_224", 224, {"depth": 1}, ["pos_embed"]),
        ("cait_xxs24_224", 224, {"depth": 1}, ["pos_embed"]),
        ("nest_tiny", 224, {}, [f"levels.{level}.pos_embed" for level in range(3)]),  # behind blocks too
        ("tnt_s_patch16_224", 224, {"depth": 1}, ["patch_pos", "pixel_pos"]),
        ("hiera_small_abswin_256", 256, {}, ["pos_embed", "pos_embed_win"]),  # the sum of both is added
        ("swin_tiny_patch4_window7_224", 224, {}, []),  # added to scores
        ("levit_128s", 224, {}, []),  # added to the scores of attentions without a shortcut, too
        ("resnet18", 64, {}, []),
    ],
)
def test_models_of_timm(name, size, options, expected):
    with torch.device("meta"):  # no numbers are needed
        found = find_structure(timm.create_model(name, **options), torch.zeros(1, 3, size, size))
    assert sorted(found.positions) == expected


def test_models_of_tokens():
    """Those that are looked up are embeddings; ours are read in order."""
    tokens = torch.zeros(1, 6, dtype=torch.long)
    assert find_structure(gpt(), tokens).positions == ("wpe.weight",)
    config = transformers.GPT2Config(vocab_size=11, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    found = find_structure(transformers.GPT2LMHeadModel(config), tokens)
    assert (found.positions, found.embeddings) == ((), ("transformer.wte", "transformer.wpe"))


def test_a_vision_transformer_of_hugging_face():
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(image_size=32, **sizes))
    found = find_structure(model, {"pixel_values": torch.zeros(1, 3, 32, 32)})
    assert found.positions == ("vit.embeddings.position_embeddings",)
