"""Lists of models of Hugging Face, with two blocks each."""

from __future__ import annotations

import torch
import transformers
from listing import listed

from initbench import Attention

SMALL = {"vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2}
ENDS = {"bos_token_id": 0, "eos_token_id": 0}


def tokens():
    return {"input_ids": torch.zeros(1, 6, dtype=torch.long)}


def make_gpt2():
    config = transformers.GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=2, n_head=2, **ENDS)
    return transformers.GPT2LMHeadModel(config)


@listed("hf/gpt2", make=make_gpt2, inputs=tokens)
def gpt2(found):
    found.layers("wte wpe", "transformer")
    for block in ("transformer.h.0", "transformer.h.1"):
        found.layers("attn.c_attn attn.c_proj mlp.c_fc mlp.c_proj", block)
        found.branch(block, "attn.c_attn", "attn.c_proj")
        found.branch(block, "mlp.c_fc", "mlp.c_proj")
        found.attend(f"{block}.attn", "c_attn", "c_proj")
    found.head("lm_head")


def make_llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **SMALL, **ENDS))


@listed("hf/llama", make=make_llama, inputs=tokens)
def llama(found):
    """The gate of its MLP is a layer of its own, and the product of both goes on."""
    found.layers("model.embed_tokens")
    for block in ("model.layers.0", "model.layers.1"):
        attention = "self_attn.q_proj self_attn.k_proj self_attn.v_proj"
        found.layers(f"{attention} self_attn.o_proj mlp.gate_proj mlp.up_proj mlp.down_proj", block)
        found.branch(block, attention, "self_attn.o_proj")
        found.branch(block, "mlp.gate_proj mlp.up_proj", "mlp.down_proj")
        found.attend(f"{block}.self_attn", "q_proj k_proj v_proj", "o_proj")
    found.head("lm_head")


def make_mixtral():
    config = transformers.MixtralConfig(num_local_experts=2, num_key_value_heads=1, **SMALL, **ENDS)
    return transformers.MixtralForCausalLM(config)


@listed("hf/mixtral", make=make_mixtral, inputs=tokens)
def mixtral(found):
    """The router computes weights of experts, and is none of the branch; experts are stacked in one parameter."""
    found.layers("model.embed_tokens")
    for block in ("model.layers.0", "model.layers.1"):
        attention = "self_attn.q_proj self_attn.k_proj self_attn.v_proj"
        experts = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")
        found.layers(f"{attention} self_attn.o_proj mlp.gate {' '.join(experts)}", block)
        found.branch(block, attention, "self_attn.o_proj")
        found.branch(block, *experts)
        found.attend(f"{block}.self_attn", "q_proj k_proj v_proj", "o_proj")
    found.head("lm_head")


def make_bert():
    return transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=3, **SMALL))


@listed("hf/bert", make=make_bert, inputs=tokens)
def bert(found):
    """Branches are added in the modules of their last layers, before a norm."""
    found.layers("word_embeddings token_type_embeddings position_embeddings", "bert.embeddings")
    for block in ("bert.encoder.layer.0", "bert.encoder.layer.1"):
        attention = f"{block}.attention"
        projections = tuple(f"{attention}.self.{name}" for name in ("query", "key", "value"))
        found.layers(" ".join(projections))
        found.layers("attention.output.dense intermediate.dense output.dense", block)
        found.branches += [
            (f"{attention}.output", projections, (f"{attention}.output.dense",), (), ()),
            (f"{block}.output", (f"{block}.intermediate.dense",), (f"{block}.output.dense",), (), ()),
        ]
        roles = [(name,) for name in (*projections, f"{attention}.output.dense")]
        found.attention.append(Attention(f"{attention}.self", *roles))
    found.layers("bert.pooler.dense")
    found.head("classifier")


def make_vit():
    small = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2}
    return transformers.ViTForImageClassification(transformers.ViTConfig(image_size=32, num_labels=3, **small))


@listed("hf/vit", 32, make=make_vit)
def vit(found):
    found.layers("vit.embeddings.patch_embeddings.projection")
    for block in ("vit.layers.0", "vit.layers.1"):
        projections = "attention.q_proj attention.k_proj attention.v_proj"
        found.layers(f"{projections} attention.o_proj mlp.fc1 mlp.fc2", block)
        found.branch(block, projections, "attention.o_proj")
        found.branch(block, "mlp.fc1", "mlp.fc2")
        found.attend(f"{block}.attention", "q_proj k_proj v_proj", "o_proj")
    found.head("classifier")
