"""Faults planted in freshly built models, and the finding that each must give.

The rules of `audit` were set on every second fault, `TUNING`; the others, `HELD_OUT`, were seen once, at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import timm
import torch
import torchvision
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from initbench import Inputs, create_model

TEXT = Inputs((16,), 256)
TOKENS = torch.zeros(1, 16, dtype=torch.int64)
IMAGE = torch.zeros(1, 3, 64, 64)


def _gpt2():
    return GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=128, n_head=4, vocab_size=512, n_positions=64))


MODELS = {
    "mlp": (lambda: create_model("mlp"), IMAGE[..., :32, :32]),
    "resnet": (lambda: create_model("resnet", depth=20), IMAGE[..., :32, :32]),
    "gpt": (
        lambda: create_model("gpt", inputs=Inputs((16,), 256), num_classes=256, depth=4, width=128, heads=4),
        TOKENS,
    ),
    "timm resnet18": (lambda: timm.create_model("resnet18"), IMAGE),
    "timm vit_tiny": (
        lambda: timm.create_model("vit_tiny_patch16_224", depth=5, init_values=1e-4, img_size=64),
        IMAGE,
    ),
    "torchvision mobilenet_v2": (torchvision.models.mobilenet_v2, IMAGE),
    "hf gpt2": (_gpt2, TOKENS),
}


@cache
def fresh_state(name):
    """Return a state dict of the model, built once: damage is done to copies."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MODELS[name][0]().state_dict()


def build(name):
    """Return a model as its library initializes it, and inputs for it."""
    model = MODELS[name][0]()
    model.load_state_dict({key: value.clone() for key, value in fresh_state(name).items()})
    return model, MODELS[name][1]


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        name: what is wrong.
        model: one of `MODELS`.
        damage: plants it in a model.
        seen: ``values``, ``siblings``, ``declared`` or ``behaviour``: where it can be seen.
        tensor: the damaged tensor.
        kind: of the finding; empty if `audit` must stay silent.
        declared: laws for ``--expect``.
    """

    name: str
    model: str
    damage: object
    seen: str
    tensor: str
    kind: str
    declared: str = ""


FAULTS: list[Fault] = []


def fault(model, seen, tensor, kind, declared=""):
    """Enter a function that damages the tensor of a model; it may use the other tensors, too."""

    def enter(function):
        def damage(module: nn.Module):
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                function(module.get_parameter(tensor) if tensor else None, module)

        name = f"{function.__name__.strip('_').replace('_', ' ')} in {model}"
        FAULTS.append(Fault(name, model, damage, seen, tensor, kind, declared))
        return function

    return enter


def _scale_all(model, pattern, factor):
    for name, parameter in model.named_parameters():
        if pattern in name and parameter.dim() > 1:
            parameter.mul_(factor)


@fault("resnet", "values", "groups.1.0.layers.0.convolution.weight", "not_finite")
def _one_nan(weight, _):
    weight[0, 0, 0, 0] = math.nan


@fault("gpt", "values", "wte.weight", "not_finite")
def _infinite_embedding(weight, _):
    weight[3] = math.inf


@fault("mlp", "values", "linear2.weight", "constant_weights")
def _constant(weight, _):
    weight.fill_(0.01)


@fault("timm resnet18", "values", "layer2.0.conv1.weight", "zero_weights")
def _zero_inside_a_branch(weight, _):
    weight.zero_()


@fault("timm vit_tiny", "values", "blocks.2.mlp.fc1.weight", "repeated_rows")
def _half_of_the_rows_twice(weight, _):
    weight[384:] = weight[:384]


@fault("hf gpt2", "values", "transformer.h.1.attn.c_attn.weight", "copied_tensor")
def _copy_of_another_block(weight, model):
    weight.copy_(model.get_parameter("transformer.h.0.attn.c_attn.weight"))


@fault("torchvision mobilenet_v2", "values", "features.3.conv.0.0.weight", "low_rank")
def _rank_one(weight, _):
    shape, std = weight.shape, weight.std()
    weight.copy_((torch.randn(shape[0], 1) * torch.randn(1, shape[1]) * std).view(shape))


@fault("timm vit_tiny", "values", "blocks.1.mlp.fc2.weight", "low_rank")
def _nearly_of_rank_two(weight, _):
    low = torch.randn(weight.shape[0], 2) @ torch.randn(2, weight.shape[1])
    weight.copy_(0.02 * (low / low.std() + 0.01 * torch.randn_like(weight)))


@fault("timm resnet18", "values", "fc.weight", "off_centre")
def _uniform_from_zero(weight, _):
    weight.uniform_(0, 0.05)


@fault("gpt", "values", "h.0.mlp.c_fc.weight", "outliers")
def _one_huge_entry(weight, _):
    weight[5, 7] = 50 * weight.std()


@fault("hf gpt2", "values", "transformer.wte.weight", "dtype")
def _rounded_to_half(weight, _):
    weight.copy_(weight.half())


@fault("timm vit_tiny", "values", "pos_embed", "dtype")
def _too_small_for_half(weight, model):
    weight.normal_(0, 1e-6)
    weight.data = weight.data.half()


@fault("torchvision mobilenet_v2", "values", "classifier.1.weight", "repeated_rows")
def _mirrored_rows(weight, _):
    weight[500:] = -weight[:500]


@fault("timm resnet18", "values", "conv1.weight", "repeated_rows")
def _dead_filters(weight, _):
    weight[10:20] = 0


@fault("mlp", "values", "linear1.weight", "scale")
def _standard_normal(weight, _):
    weight.normal_()


@fault("gpt", "values", "h.1.attn.c_k.weight", "zero_weights")
def _zero_queries_and_keys(weight, model):
    weight.zero_()
    model.get_parameter("h.1.attn.c_q.weight").zero_()


@fault("timm vit_tiny", "values", "blocks.0.mlp.fc2.weight", "zero_weights")
def _zero_end_behind_a_zero_gate(weight, model):
    weight.zero_()
    model.get_parameter("blocks.0.ls2.gamma").zero_()


@fault("resnet", "values", "groups.2.1.layers.0.convolution.weight", "copied_tensor")
def _one_seed_for_two_layers(weight, model):
    for parameter, std in ((weight, 0.1), (model.get_parameter("groups.1.1.layers.0.convolution.weight"), 0.2)):
        torch.manual_seed(0)
        parameter.normal_(0, std)


@fault("hf gpt2", "siblings", "transformer.h.2.mlp.c_proj.weight", "out_of_line")
def _one_branch_not_scaled_by_depth(weight, _):
    weight.normal_(0, 0.02)


@fault("timm vit_tiny", "siblings", "blocks.3.attn.qkv.weight", "out_of_line")
def _twice_as_large(weight, _):
    weight.mul_(2)


@fault("timm resnet18", "siblings", "layer3.1.conv1.weight", "out_of_line")
def _pytorch_default_in_one_layer(weight, _):
    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))


@fault("timm vit_tiny", "siblings", "blocks.1.norm1.weight", "out_of_line")
def _one_small_norm(weight, _):
    weight.fill_(0.1)


@fault("torchvision mobilenet_v2", "siblings", "features.7.conv.0.0.weight", "out_of_line")
def _half_as_large(weight, _):
    weight.mul_(0.5)


@fault("hf gpt2", "siblings", "transformer.h.3.attn.c_proj.bias", "out_of_line")
def _one_bias_of_one(weight, _):
    weight.fill_(1)


@fault("resnet", "siblings", "groups.1.1.layers.1.norm.weight", "out_of_line")
def _one_branch_shut(weight, _):
    weight.zero_()


@fault("timm vit_tiny", "siblings", "blocks.2.mlp.fc1.bias", "out_of_line")
def _one_random_bias(weight, _):
    weight.normal_(0, 0.02)


@fault("gpt", "siblings", "h.2.mlp.c_fc.weight", "out_of_line")
def _normal_among_uniform(weight, _):
    weight.normal_(0, weight.std())


@fault("timm resnet18", "siblings", "layer4.0.conv2.weight", "out_of_line")
def _gain_of_tanh_in_one_layer(weight, _):
    weight.mul_(5 / 3 / math.sqrt(2) * 1.1)


@fault(
    "torchvision mobilenet_v2",
    "declared",
    "features.3.conv.0.0.weight",
    "unexpected_law",
    "- {role: convolution, law: normal, std: sqrt(2/fan_in)}",
)
def _fan_out_where_fan_in_is_declared(*_):
    pass


@fault("timm vit_tiny", "declared", "head.weight", "unexpected_law", "- {name: head.weight, law: zeros}")
def _head_not_zero(*_):
    pass


@fault(
    "hf gpt2",
    "declared",
    "transformer.h.0.mlp.c_proj.weight",
    "unexpected_law",
    "- {role: 'linear, end of a branch', law: normal, std: 0.02/sqrt(branches)}",
)
def _blocks_counted_in_place_of_branches(_, model):
    _scale_all(model, "c_proj", math.sqrt(2))


@fault("mlp", "declared", "linear2.weight", "unexpected_law", "- {role: linear, law: uniform, bound: 1/sqrt(fan_in)}")
def _normal_where_uniform_is_declared(weight, _):
    weight.normal_(0, weight.std())


@fault("mlp", "behaviour", "", "")
def _all_weights_larger(_, model):
    _scale_all(model, "linear", 1.5)


@fault("hf gpt2", "behaviour", "", "")
def _no_branch_scaled_by_depth(_, model):
    _scale_all(model, "c_proj", math.sqrt(8))


@fault("timm resnet18", "behaviour", "", "")
def _no_branch_starts_at_zero(_, model):
    for name, parameter in model.named_parameters():
        if name.endswith("bn2.weight"):
            parameter.fill_(1)


@fault("timm vit_tiny", "behaviour", "", "")
def _all_linear_layers_twice_as_large(_, model):
    _scale_all(model, "mlp", 2)


@fault("torchvision mobilenet_v2", "behaviour", "", "")
def _running_variance_of_100(_, model):
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer.fill_(100)


@fault("resnet", "behaviour", "", "")
def _all_convolutions_smaller(_, model):
    _scale_all(model, "convolution", 0.3)


TUNING, HELD_OUT = FAULTS[::2], FAULTS[1::2]
