"""The structures of Transformers: those of Hugging Face, which return objects, and our own."""

from __future__ import annotations

import pytest
import torch
import transformers

from initbench import Attention, Inputs, create_model, find_structure

TOKENS = torch.zeros(1, 6, dtype=torch.long)
SMALL = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2}
ENDS = {"bos_token_id": 0, "eos_token_id": 0}


def names(found):
    return [layer.name for layer in found.layers]


def own(module, query, key, value, output):
    return Attention(module, *((f"{module}.{name}",) for name in (query, key, value, output)))


def test_gpt2():
    """Its layers are `Conv1D`, which stores its weights transposed; the head is the embedding's."""
    config = transformers.GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=2, n_head=2, **ENDS)
    found = find_structure(transformers.GPT2LMHeadModel(config), {"input_ids": TOKENS})
    blocks = [f"transformer.h.{index}" for index in (0, 1)]
    layers = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    embeddings = ("transformer.wte", "transformer.wpe")
    assert names(found) == [*embeddings, *(f"{b}.{layer}" for b in blocks for layer in layers), "lm_head"]
    assert found.embeddings == embeddings
    assert found.heads == ("lm_head",)
    assert found.layers[-1].weight == "lm_head.weight"
    assert found.tied == (("transformer.wte.weight", "lm_head.weight"),)
    assert [(b.block, b.inner, b.ends) for b in found.branches] == [
        (block, (f"{block}.{part}.{first}",), (f"{block}.{part}.c_proj",))
        for block in blocks
        for part, first in (("attn", "c_attn"), ("mlp", "c_fc"))
    ]
    assert found.attention == tuple(own(f"{b}.attn", "c_attn", "c_attn", "c_attn", "c_proj") for b in blocks)
    assert found.norms == (*(f"{b}.ln_{i}" for b in blocks for i in (1, 2)), "transformer.ln_f")
    assert (found.depth, found.unused, found.unknown) == (9, (), {})


def test_llama():
    """Its norms are written out, and their weights are no gates; queries and keys are turned."""
    config = transformers.LlamaConfig(num_key_value_heads=1, **SMALL, **ENDS)
    found = find_structure(transformers.LlamaForCausalLM(config), {"input_ids": TOKENS})
    blocks = [f"model.layers.{index}" for index in (0, 1)]
    attention = [f"self_attn.{name}_proj" for name in "qkvo"]
    mlp = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    assert names(found) == [
        "model.embed_tokens",
        *(f"{block}.{layer}" for block in blocks for layer in [*attention, *mlp]),
        "lm_head",
    ]
    assert found.attention == tuple(own(f"{b}.self_attn", "q_proj", "k_proj", "v_proj", "o_proj") for b in blocks)
    assert [(branch.ends, branch.depth, branch.gates) for branch in found.branches] == [
        ((f"{block}.{layers[-1]}",), 2, ()) for block in blocks for layers in (attention, mlp)
    ]
    assert found.norms == (
        *(f"{block}.{name}" for block in blocks for name in ("input_layernorm", "post_attention_layernorm")),
        "model.norm",
    )
    assert (found.heads, found.tied, found.depth, found.unknown) == (("lm_head",), (), 9, {})


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bert(attention):
    """Eager attention is a softmax of a product that multiplies another one."""
    config = transformers.BertConfig(attn_implementation=attention, num_labels=3, **SMALL)
    found = find_structure(transformers.BertForSequenceClassification(config), {"input_ids": TOKENS})
    blocks = [f"bert.encoder.layer.{index}" for index in (0, 1)]
    projections = [f"attention.self.{name}" for name in ("query", "key", "value")]
    layers = [*projections, "attention.output.dense", "intermediate.dense", "output.dense"]
    assert names(found) == [
        *(f"bert.embeddings.{kind}_embeddings" for kind in ("word", "token_type", "position")),
        *(f"{block}.{layer}" for block in blocks for layer in layers),
        "bert.pooler.dense",
        "classifier",
    ]
    assert [(branch.block, branch.ends) for branch in found.branches] == [
        (f"{block}.{part}", (f"{block}.{part}.dense",)) for block in blocks for part in ("attention.output", "output")
    ]
    assert found.attention == tuple(
        Attention(
            f"{block}.attention.self",
            *((f"{block}.{projection}",) for projection in projections),
            (f"{block}.attention.output.dense",),
        )
        for block in blocks
    )
    assert (found.heads, found.unknown) == (("classifier",), {})


def test_the_vision_transformer_of_hugging_face():
    """Modules have other names in other versions of the library."""
    config = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.ViTConfig(image_size=32, num_labels=3, **config)
    found = find_structure(transformers.ViTForImageClassification(config), {"pixel_values": torch.zeros(1, 3, 32, 32)})
    assert [layer.depth for layer in found.layers] == [1, *[2, 2, 2, 3, 4, 5], *[6, 6, 6, 7, 8, 9], 10]
    assert [(len(branch.inner), branch.depth) for branch in found.branches] == [(3, 2), (1, 2)] * 2
    for attention, first in zip(found.attention, (1, 7), strict=True):
        roles = [*attention.query, *attention.key, *attention.value, *attention.output]
        assert roles == names(found)[first : first + 4]
    assert (found.heads, found.unknown) == (("classifier",), {})


def test_our_gpt():
    options = {"depth": 2, "width": 8, "heads": 2, "inputs": Inputs((8,), 20), "num_classes": 20}
    found = find_structure(create_model("gpt", activation="swiglu", positions="rotary", **options), TOKENS)
    attention, mlp = ["attn.c_q", "attn.c_k", "attn.c_v", "attn.c_proj"], ["mlp.c_gate", "mlp.c_fc", "mlp.c_proj"]
    blocks = ["h.0", "h.1"]
    assert names(found) == ["wte", *(f"{b}.{layer}" for b in blocks for layer in [*attention, *mlp]), "lm_head"]
    assert found.attention == tuple(own(f"{block}.attn", "c_q", "c_k", "c_v", "c_proj") for block in blocks)
    assert found.tied == (("wte.weight", "lm_head.weight"),)
    assert [(branch.block, branch.output) for branch in found.branches] == [
        (block, f"{block}.{part}") for block in blocks for part in ("attn", "mlp")
    ]

    found = find_structure(create_model("gpt", norm="none", scheme="fixup", tied=False, **options), TOKENS)
    assert [branch.gates for branch in found.branches] == [
        (f"{block}.{part}.multiplier.scale",) for block in blocks for part in ("attn", "mlp")
    ]
    assert (found.heads, found.norms, found.tied, found.unknown) == (("lm_head",), (), (), {})
