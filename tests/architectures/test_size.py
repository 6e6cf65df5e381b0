"""How large a model is, before it is built."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures import size
from initbench.architectures.create import create_model
from initbench.architectures.size import Size, model_size, too_large
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import ARCHITECTURES

IMAGES, TOKENS, PAIRS = Inputs((3, 8, 8)), Inputs((6,), 19), Inputs((2, 6), 19)


def sized(name, inputs, **arguments):
    component = ARCHITECTURES.get(name)
    outputs = inputs.vocabulary or 10
    return model_size(component, component.resolve(arguments), inputs=inputs, outputs=outputs)


@pytest.mark.parametrize(
    ("name", "inputs", "arguments"),
    [
        *[("resnet", IMAGES, {"depth": depth}) for depth in (8, 14, 20, 56)],
        *[("resnet", IMAGES, {"depth": depth, "block": "bottleneck", "norm": "none"}) for depth in (11, 20, 47)],
        *[("wrn", IMAGES, {"depth": depth, "width": 1}) for depth in (10, 16, 22, 52)],
        *[("wrn", IMAGES, {"depth": 40, "width": 2, "norm": "none", "activation": "beta_swish"})],
        *[("plain", IMAGES, {"depth": depth, "width": 1}) for depth in (10, 28)],
        *[("gpt", TOKENS, {"depth": depth, "width": 8, "heads": 2}) for depth in (1, 2, 3, 9)],
        ("gpt", TOKENS, {"depth": 7, "width": 8, "heads": 2, "tied": False, "positions": "rotary", "norm": "none"}),
        *[("transformer", PAIRS, {"depth": depth, "width": 8}) for depth in (1, 2, 3, 9)],
        ("transformer", PAIRS, {"depth": 7, "decoder_depth": 2, "width": 8, "tied": "all", "norm": "pre"}),
        *[("mlp", IMAGES, {"depth": depth}) for depth in (1, 2, 3, 4, 9)],
        ("mlp", IMAGES, {"depth": 7, "width": 16, "norm": "batch", "bias": False}),
        ("mlp", IMAGES, {"widths": [5, 7], "bias": False}),
        *[("residual_mlp", IMAGES, {"depth": depth, "width": 16}) for depth in (1, 2, 3, 9)],
        ("residual_mlp", IMAGES, {"depth": 7, "width": 16, "norm": "batch", "bias": False}),
        ("wrn", IMAGES, {"depth": 40, "width": 1, "norm_placement": "branch_and_merge", "conv_bias": True}),
        ("wrn", IMAGES, {"depth": 40, "width": 1, "norm_placement": "final"}),
        ("vgg", IMAGES, {"depth": 13, "width": 0.25}),
        *[("densenet", IMAGES, {"depth": depth, "growth": 4}) for depth in (10, 40)],
        *[("imagenet_resnet", IMAGES, {"depth": depth, "width": 4}) for depth in (18, 50)],
        ("timm/test_resnet", IMAGES, {}),
        ("hf/gpt2", TOKENS, {"n_layer": 2, "n_embd": 8, "n_head": 2}),
    ],
)
def test_it_is_the_size_of_the_network_that_is_built(name, inputs, arguments):
    model = create_model(name, inputs=inputs, num_classes=inputs.vocabulary or 10, **arguments)
    tensors = [*model.parameters(), *model.buffers()]
    found = sized(name, inputs, **arguments)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert found.bytes == sum(t.numel() * t.element_size() for t in tensors)


def test_sixty_thousand_layers_are_counted_from_two_shallow_networks(monkeypatch):
    built = []
    convolution = nn.Conv2d.__init__

    def counting(self, *arguments, **options):
        built.append(self)
        convolution(self, *arguments, **options)

    monkeypatch.setattr(nn.Conv2d, "__init__", counting)
    found = sized("resnet", Inputs((3, 32, 32)), depth=60_002, norm="none")
    # By hand: a block of c channels has 2 · 9c² weights, the first of a group 9 · c/2 · c + 9c².

    def numbers(blocks):
        groups = sum(blocks * 2 * 9 * c**2 for c in (16, 32, 64)) - sum(9 * c**2 // 2 for c in (32, 64))
        return groups + 3 * 9 * 16 + 64 * 10 + 10

    assert found == Size(numbers(10_000), 4 * numbers(10_000), bytes_of_shallow=4 * numbers(2))
    assert len(built) == (1 + 2 * 3 * 2) + (1 + 3 * 3 * 2)


def test_what_does_not_fit_into_memory_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr(size, "available_memory", lambda: 16e9)
    component = ARCHITECTURES.get("hf/llama")
    arguments = component.resolve({})
    found = model_size(component, arguments, inputs=Inputs((2048,), 32000), outputs=32000)
    assert found.parameters == 6_738_415_616
    assert too_large(component.name, arguments, found) == (
        "hf/llama has 6,738,415,616 parameters, which take 27 GB, and 16 GB of memory are free: a smaller one has "
        "less than hidden_size 4096, intermediate_size 11008, num_hidden_layers 32, num_attention_heads 32"
    )
    monkeypatch.setattr(size, "available_memory", lambda: 27.1e9)
    assert too_large(component.name, arguments, found) is None


def test_a_model_without_arguments_of_size_has_smaller_relatives(monkeypatch):
    monkeypatch.setattr(size, "available_memory", lambda: 1e6)
    component = ARCHITECTURES.get("timm/resnet18")
    reason = too_large(component.name, component.resolve({}), Size(11_181_642, 44_765_168, 44_765_168))
    assert reason == (
        "timm/resnet18 has 11,181,642 parameters, which take 0.0448 GB, and 0.001 GB of memory are free: "
        "take a smaller one"
    )


def test_counting_draws_nothing_and_leaves_the_random_state():
    before = torch.get_rng_state()
    sized("wrn", IMAGES, depth=10, width=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_free_memory_is_that_of_this_machine():
    assert 1e6 < size.available_memory() < 1e15


def test_a_model_of_hugging_face_that_does_not_fit_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(size, "available_memory", lambda: 16e9)
    with pytest.raises(ArgumentError) as refused:
        create_model("hf/llama", inputs=Inputs((64,), vocabulary=32000), num_classes=32000)
    assert str(refused.value).startswith(
        "hf/llama has 6,738,415,616 parameters, which take 27 GB, and 16 GB of memory are free: a smaller one has less"
    )
