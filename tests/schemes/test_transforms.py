"""What every scheme of the library does to our own networks."""

from __future__ import annotations

import hashlib

import pytest
import torch
from cases import batch
from small_gpt import gpt, tokens
from small_transformer import pairs, transformer
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

import initbench
from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.registry import SCHEMES
from initbench.schemes.channel_bias import ChannelBias

KEEPING = [name for name in SCHEMES.builtins if SCHEMES.get(name).traits.keeps_function]
NORM_FREE = {
    "wrn": lambda: create_model("wrn", depth=10, width=1, norm="none", input_shape=(3, 8, 8)),
    "resnet": lambda: create_model("resnet", depth=8, norm="none", input_shape=(3, 8, 8)),
    "gpt": lambda: gpt(norm="none"),
    "transformer": lambda: transformer(norm="none", tied="none"),
}


@pytest.mark.parametrize("scheme", KEEPING)
@pytest.mark.parametrize("name", NORM_FREE)
def test_a_scheme_that_says_so_keeps_the_function(name, scheme):
    """To rounding of float64: multipliers of 1 and biases of 0 change nothing, nor does g·v/‖v‖ with g = ‖v‖."""
    model = NORM_FREE[name]().double().eval()
    inputs = {"gpt": tokens, "transformer": pairs}.get(name, lambda: batch((2, 3, 8, 8)))()[0]
    rewritten = initbench.rewrite(model, scheme, inputs=inputs)
    assert sum(p.numel() for p in rewritten.parameters()) > sum(p.numel() for p in model.parameters())
    with torch.no_grad():
        torch.testing.assert_close(rewritten(inputs), model(inputs), rtol=1e-11, atol=1e-13)


def test_schemes_that_keep_the_function_say_so():
    """SkipInit's gates are 0 at first."""
    assert KEEPING == ["fixup", "weight_norm", "weight_norm_beside_norm"]


# Parameters, and the first 12 digits of the SHA-256 of their names and sizes, before schemes were transforms.
PARAMETERS = {
    ("wrn", "standard"): (77373, "e7adc46fba15"),
    ("wrn", "fixup"): (77387, "b391a0da7e02"),
    ("wrn", "skipinit"): (77709, "449f2615e955"),
    ("wrn", "weight_norm"): (78042, "cfd9d66e7fe0"),
    ("resnet", "standard"): (74810, "dca9c89c0e31"),
    ("resnet", "fixup"): (74827, "b9891443f480"),
    ("resnet", "skipinit"): (75053, "585fbbb5e08b"),
    ("resnet", "weight_norm"): (75290, "e3640603086c"),
    ("gpt", "standard"): (1904, "93fb5cbe0749"),
    ("gpt", "fixup"): (1919, "399033e8e1eb"),
    ("gpt", "skipinit"): (1908, "2c3f22415f10"),
    ("gpt", "weight_norm"): (2048, "eba041e2610a"),
    ("plain", "standard"): (74813, "ae7570f3e903"),
    ("plain", "weight_norm"): (75290, "fe977c6b3f8c"),
    ("mlp", "standard"): (1706, "fd53b760e438"),
}


def names_and_sizes(model):
    text = "\n".join(f"{name} {tuple(p.shape)}" for name, p in model.named_parameters())
    return sum(p.numel() for p in model.parameters()), hashlib.sha256(text.encode()).hexdigest()[:12]


def build(name, scheme):
    if name == "gpt":
        return gpt(norm="none", tied=False, scheme=scheme)
    sizes = {"resnet": {"depth": 8}, "mlp": {"width": 8}}.get(name, {"depth": 10, "width": 1})
    return create_model(name, norm="none", input_shape=(3, 8, 8), scheme=scheme, **sizes)


@pytest.mark.parametrize(("name", "scheme"), PARAMETERS)
def test_names_order_and_sizes_of_parameters_are_those_that_they_always_had(name, scheme):
    assert names_and_sizes(build(name, scheme)) == PARAMETERS[name, scheme]


def test_weight_norm_is_on_the_hidden_layers_of_a_perceptron():
    model = create_model("mlp", width=8, scheme="weight_norm")
    assert [name for name, m in model.named_modules() if isinstance(m, nn.Linear) and is_parametrized(m)] == [
        "linear1",
        "linear2",
    ]
    with pytest.raises(ArgumentError, match=r"^norm must be none for scheme weight_norm, got batch$"):
        create_model("mlp", norm="batch", scheme="weight_norm")


@pytest.mark.parametrize(("name", "norms"), [("wrn", 7), ("plain", 7), ("resnet", 7), ("mlp", 2)])
def test_channel_biases_stand_where_the_norms_were(name, norms):
    """Of wrn one before each of six convolutions in blocks and one at the end, of resnet one behind each of seven."""
    sizes = {"resnet": {"depth": 8}, "mlp": {"width": 8}}.get(name, {"depth": 10, "width": 1})
    model = create_model(name, norm="batch", scheme="channel_bias", input_shape=(3, 8, 8), **sizes)
    assert sum(isinstance(module, ChannelBias) for module in model.modules()) == norms
    assert not any(isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) for module in model.modules())
    with pytest.raises(ArgumentError, match=r"^channel_bias: .* has no BatchNorm, "):
        create_model(name, norm="none", scheme="channel_bias", input_shape=(3, 8, 8), **sizes)


@pytest.mark.parametrize("scheme", ["fixup", "skipinit", "weight_norm"])
def test_a_network_can_be_built_without_values(scheme):
    with torch.device("meta"):
        model = build("resnet", scheme)
    assert all(p.is_meta for p in model.parameters())
    assert names_and_sizes(model) == PARAMETERS["resnet", scheme]


KEEPS_NORMS = [
    ("wrn", {"depth": 10, "width": 1}),
    ("resnet", {"depth": 8}),
    ("vgg", {"depth": 11, "width": 0.25}),
    ("densenet", {"depth": 10, "growth": 4}),
    ("imagenet_resnet", {"depth": 18, "width": 4}),
    ("residual_mlp", {"depth": 2, "width": 16}),
    ("mlp", {"widths": [8, 4]}),
]


@pytest.mark.parametrize(("name", "sizes"), KEEPS_NORMS)
def test_weight_norm_beside_norms_keeps_them_and_the_convolutions(name, sizes):
    """The same function, to rounding; one more number for each output of a layer that is no head."""
    plain = create_model(name, norm="batch", input_shape=(3, 8, 8), **sizes)
    model = create_model(name, norm="batch", input_shape=(3, 8, 8), scheme="weight_norm_beside_norm", **sizes)
    layers = [module for module in model.modules() if is_parametrized(module, "weight")]
    weights = {n: m for n, m in plain.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}
    assert len(layers) == len(weights) - 1
    without = [name for name, module in weights.items() if module.bias is None]
    assert [n for n, m in model.named_modules() if m in layers and m.bias is None] == without
    more = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters())
    assert more == sum(len(layer.weight) for layer in layers)
    norms = nn.BatchNorm1d | nn.BatchNorm2d
    assert [n for n, m in model.named_modules() if isinstance(m, norms)] == [
        n for n, m in plain.named_modules() if isinstance(m, norms)
    ]
    x = batch((4, 3, 8, 8))[0]
    torch.testing.assert_close(model.double()(x), plain.double()(x), rtol=1e-4, atol=1e-4)  # gains are of float32


def test_norms_are_kept_on_request_in_any_model():
    model = create_model("resnet", depth=8, input_shape=(3, 8, 8)).double()
    x = batch((4, 3, 8, 8))[0]
    kept, without = (initbench.rewrite(model, "weight_norm", inputs=x, keep_norms=keep) for keep in (True, False))
    torch.testing.assert_close(kept(x), model(x), rtol=1e-11, atol=1e-11)
    assert sum(isinstance(module, nn.BatchNorm2d) for module in kept.modules()) == 7
    assert not any(isinstance(module, nn.BatchNorm2d) for module in without.modules())
    other = initbench.rewrite(model, "weight_norm_beside_norm", inputs=x)
    assert names_and_sizes(other) == names_and_sizes(kept)
    assert torch.equal(other(x), kept(x))


def test_the_initializer_of_weight_normalization_runs_beside_norms():
    model = create_model("wrn", depth=10, width=1, scheme="weight_norm_beside_norm", input_shape=(3, 8, 8))
    initbench.initialize(model, "weight_norm", input_shape=(2, 3, 8, 8))
    block = model.groups[1][0]
    # κ · inputs / outputs: 2 within a branch, 1 / B with B = 1 block in a stage at its end.
    assert block.conv1.parametrizations.weight.original0.flatten().tolist() == pytest.approx([1.0] * 32)
    assert block.conv2.parametrizations.weight.original0.flatten().tolist() == pytest.approx([1.0] * 32)
    assert block.norm1.weight.eq(1).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_bias_for_a_norm_without_parameters_is_of_the_models_type(dtype):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.Flatten(), nn.Linear(144, 2)).to(
        dtype
    )
    rewritten = initbench.remove_normalization(model)
    assert {parameter.dtype for parameter in rewritten.parameters()} == {dtype}
    assert rewritten(torch.zeros(2, 3, 8, 8, dtype=dtype)).dtype == dtype


def test_transposed_convolutions_have_a_gain_per_output():
    model = nn.Sequential(nn.ConvTranspose2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
    x = torch.randn(16, 4, 4, 4)
    rewritten = initbench.rewrite(model, "weight_norm", inputs=x)
    torch.testing.assert_close(rewritten(x), model(x))
    weight = rewritten[0].parametrizations.weight
    assert weight.original0.shape == (1, 8, 1, 1)
    initbench.initialize(rewritten, "weight_norm", inputs=x)
    assert weight.original0.flatten().tolist() == pytest.approx([1.0] * 8)  # √(2 · 4 / 8)
    norms = rewritten[0].weight.transpose(0, 1).flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, weight.original0.flatten())
    batches = [(x, torch.zeros(16, dtype=torch.int64))]
    initbench.initialize(rewritten, "data_dependent_weight_norm", inputs=x, real_batches=batches, batch_size=16)
    torch.testing.assert_close(rewritten[0](x).std((0, 2, 3), correction=0), torch.ones(8), rtol=1e-4, atol=0)
    grouped = nn.Sequential(nn.ConvTranspose2d(4, 8, 3, groups=2), nn.Flatten(), nn.Linear(8 * 36, 2))
    with pytest.raises(
        ArgumentError, match=r"^weight_norm: 0 is a transposed convolution with groups, whose weight has"
    ):
        initbench.rewrite(grouped, "weight_norm", inputs=x)
