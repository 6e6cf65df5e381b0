"""Schemes on models whose libraries write normalizations out in classes of their own."""

from __future__ import annotations

import pytest
import torch
from timm.models.metaformer import LayerNorm2dNoBias
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageClassification

import initbench

TEXT = torch.arange(6)[None]


def language_model(kind):
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 11}
    if kind != "mamba":
        sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 16}
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes))


@pytest.mark.parametrize("kind", ["llama", "gemma"])
def test_rms_norms_are_taken_out(kind):
    """Two for each block, and one before the head."""
    model = language_model(kind)
    norms = [name for name, module in model.named_modules() if type(module).__name__.endswith("RMSNorm")]
    assert len(norms) == 5
    biased, gated = (initbench.rewrite(model, scheme, inputs=TEXT) for scheme in ("channel_bias", "skipinit"))
    assert all(torch.equal(biased.get_submodule(name).bias, torch.zeros(8)) for name in norms)
    assert all(isinstance(gated.get_submodule(name), nn.Identity) for name in norms)


def test_a_model_that_reads_its_norms_from_outside_is_refused():
    """Mamba's blocks ask for the type of their norm's weight."""
    with pytest.raises(ValueError, match=r"^skipinit: the rewritten MambaForCausalLM does not run: .*'weight'$"):
        initbench.rewrite(language_model("mamba"), "skipinit", inputs=TEXT)


def test_a_layer_norm_that_says_that_channels_are_first_has_a_bias_for_each_channel():
    configuration = AutoConfig.for_model("convnext", hidden_sizes=[4, 6], depths=[1, 1], num_stages=2)
    model = AutoModelForImageClassification.from_config(configuration)
    rewritten = initbench.rewrite(model, "channel_bias", inputs=torch.zeros(1, 3, 32, 32))
    bias = rewritten.convnext.embeddings.layernorm
    with torch.no_grad():
        bias.bias.copy_(torch.arange(4.0))
    images = torch.zeros(2, 4, 3, 3)
    assert torch.equal(bias(images), images + torch.arange(4.0).view(4, 1, 1))


def test_a_layer_norm_over_channels_is_one_whatever_follows_2d_in_its_name():
    """timm's MetaFormers have a LayerNorm2dNoBias."""
    rewritten = initbench.rewrite(nn.Sequential(nn.Conv2d(3, 4, 1), LayerNorm2dNoBias(4)), "channel_bias")
    with torch.no_grad():
        rewritten[1].bias.copy_(torch.arange(4.0))
    images = torch.zeros(2, 4, 3, 3)
    assert torch.equal(rewritten[1](images), images + torch.arange(4.0).view(4, 1, 1))
