"""Hugging Face's `Conv1D`, a linear layer whose weight is (inputs, outputs): as `nn.Linear` with the weight turned."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from recorded import FROZEN
from small_gpt import next_token_loss
from torch import nn
from transformers.pytorch_utils import Conv1D

from initbench import find_structure, gradient_quotient
from initbench.architectures.create import create_model
from initbench.architectures.rewrite import rewrite
from initbench.errors import InitializationError
from initbench.initializers.distribution import weight_layers
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.registry import INITIALIZERS, SCHEMES
from initbench.structure.kinds import is_linear_inputs_first

INPUTS = Inputs((6,), 20)
X, Y = torch.randint(20, (2, 8, 6), generator=torch.Generator().manual_seed(0))
# What fans and orthogonal matrices are told apart by: 16 inputs and 48 outputs, 16 and 16, 16 and 64, 64 and 16.
LAYERS = [
    f"transformer.h.{i}.{layer}" for i in (0, 1) for layer in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
]


def gpt2(*, tied=True):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = create_model("hf/gpt2", inputs=INPUTS, num_classes=20, n_layer=2, n_embd=16, n_head=2, n_positions=6)
    if not tied:
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    return model.double()


def with_linear(model):
    """The same model with `nn.Linear` in the place of each `Conv1D`, under the same name."""
    model = deepcopy(model)
    for name in LAYERS:
        conv = model.get_submodule(name)
        linear = nn.Linear(*conv.weight.shape, dtype=conv.weight.dtype)
        linear.weight, linear.bias = nn.Parameter(conv.weight.detach().T.contiguous()), conv.bias
        model.set_submodule(name, linear)
    return model


def assert_same(conv, linear, **tolerance):
    """The parameters of the two are the same, those of the layers turned."""
    others = dict(linear.named_parameters())
    for name, parameter in conv.named_parameters():
        is_turned = parameter.dim() == 2 and any(name.startswith(f"{layer}.") for layer in LAYERS)
        expected = others[name].T if is_turned else others[name]
        torch.testing.assert_close(parameter, expected, **({"rtol": 0, "atol": 0} | tolerance), msg=name)


def run(model, name, **arguments):
    component = INITIALIZERS.get(name)
    arguments = dict(component.traits.smoke) | arguments
    if any(argument.name == "data" for argument in component.arguments):
        arguments = {"data": "random"} | arguments
    return initialize(model, name, task="language_modelling", input_shape=(8, 6), num_classes=20, **arguments)


def test_it_is_a_linear_layer_of_so_many_inputs_and_outputs():
    assert is_linear_inputs_first(Conv1D(48, 16))
    assert not is_linear_inputs_first(nn.Conv1d(16, 48, 1))
    assert not is_linear_inputs_first(type("Conv1D", (nn.Linear,), {})(16, 48))  # of another library
    [layer] = weight_layers(Conv1D(48, 16))
    assert (layer.inputs, layer.outputs, layer.fan_in, layer.fan_out, layer.kernel) == (16, 48, 16, 48, ())
    assert {layer.kind for layer in find_structure(gpt2(), X[:1]).layers if layer.name in LAYERS} == {"linear"}


@pytest.mark.parametrize("name", ["orthogonal", "delta_orthogonal", "zero", "looks_linear"])
def test_matrices_are_those_of_a_linear_layer(name):
    """Made from the same numbers, and stored the other way round."""
    conv = gpt2()
    linear = with_linear(conv)
    # The same function; a processor may add the products of a turned matrix in another order.
    torch.testing.assert_close(conv.eval()(X).logits, linear.eval()(X).logits, rtol=1e-12, atol=1e-14)
    records = [run(model, name) for model in (conv, linear)]
    assert_same(conv, linear)
    assert records[0].tensors == records[1].tensors
    assert (records[0].coverage.weights, records[0].coverage.set) == (10, 10)


LAWS = {
    "kaiming": lambda inputs, _: math.sqrt(2 / inputs),
    "kaiming fan_out": lambda _, outputs: math.sqrt(2 / outputs),
    "lecun": lambda inputs, _: math.sqrt(1 / inputs),
    "pytorch_default": lambda inputs, _: math.sqrt(1 / (3 * inputs)),
    "xavier": lambda inputs, outputs: math.sqrt(2 / (inputs + outputs)),
}


@pytest.mark.parametrize("law", LAWS)
def test_fans(law):
    """The law in the record, and the deviation of n entries within 5 of its standard errors, σ / √(2n) at most."""
    name, _, mode = law.partition(" ")
    model = gpt2()
    record = run(model, name, **({"mode": mode} if mode else {}))
    linear = run(with_linear(model), name, **({"mode": mode} if mode else {}))
    assert record.tensors == linear.tensors
    for layer in LAYERS:
        weight = model.get_submodule(layer).weight.detach()
        expected = LAWS[law](*weight.shape)
        assert weight.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * weight.numel())), layer


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lsuv", {"base": None}),
        ("lsuv", {"base": None, "remove_mean": True}),
        ("metainit", {"base": None, "steps": 3}),
        ("gradinit", {"base": None, "iterations": 3}),
    ],
)
def test_tuners_do_the_same_as_on_linear_layers(name, arguments):
    conv = gpt2()
    linear = with_linear(conv)
    records = [run(model, name, **arguments) for model in (conv, linear)]
    # In float64; sums are taken in another order.
    assert_same(conv, linear, rtol=1e-7, atol=1e-12)
    for layer in LAYERS:
        assert [event["event"] for event in records[0].tensors[f"{layer}.weight"]] == ["scaled"]
    if name == "lsuv":
        reached = records[0].conditions["std_at_end"]
        assert all(reached[layer] == pytest.approx([1.0], abs=1e-12) for layer in LAYERS)


def test_a_frozen_one_is_left():
    model = gpt2()
    model.get_submodule(LAYERS[0]).weight.requires_grad_(requires_grad=False)
    before = model.get_submodule(LAYERS[0]).weight.clone()
    record = run(model, "lsuv")
    assert torch.equal(before, model.get_submodule(LAYERS[0]).weight)
    assert record.tensors[f"{LAYERS[0]}.weight"][0] == FROZEN


# --- Schemes.


def test_weight_normalization_has_a_gain_for_each_output():
    """And none for each input, of which g and v keep the function."""
    plain = gpt2()
    model = rewrite(plain, "weight_norm", inputs=X)
    linear = rewrite(with_linear(plain), "weight_norm", inputs=X)
    torch.testing.assert_close(model.eval()(X).logits, linear.eval()(X).logits, rtol=0, atol=1e-12)
    for layer in LAYERS:
        outputs = plain.get_submodule(layer).weight.shape[1]
        g = model.get_submodule(layer).parametrizations.weight.original0
        assert g.shape == (1, outputs)
        torch.testing.assert_close(g[0], linear.get_submodule(layer).parametrizations.weight.original0[:, 0])
        torch.testing.assert_close(model.get_submodule(layer).weight, plain.get_submodule(layer).weight)


def test_weight_normalization_refuses_an_output_without_a_direction():
    model = gpt2()
    with torch.no_grad():
        model.get_submodule(LAYERS[2]).weight[3] = 0.0  # of an input: all outputs have directions
    rewrite(model, "weight_norm", inputs=X)
    with torch.no_grad():
        model.get_submodule(LAYERS[2]).weight[:, 3] = 0.0
    with pytest.raises(ValueError, match=rf"{LAYERS[2]}\.weight has a row of zeros"):
        rewrite(model, "weight_norm", inputs=X)


@pytest.mark.parametrize("gain", ["forward", "backward", "hanin", "pytorch"])
@pytest.mark.parametrize("direction", ["orthogonal", "normal"])
def test_the_gains_of_weight_norm(gain, direction):
    """Those of linear layers: √(κ · inputs / outputs); κ is 2, and 1/B or less at the ends of branches."""
    plain = gpt2()
    models = [rewrite(model, "weight_norm", inputs=X) for model in (plain, with_linear(plain))]
    for model in models:
        run(model, "weight_norm", gain=gain, direction=direction)
    for layer in LAYERS:
        g, other = (model.get_submodule(layer).parametrizations.weight.original0.flatten() for model in models)
        if gain != "pytorch" or direction == "orthogonal":  # normal ones are drawn in the order of storage
            torch.testing.assert_close(g, other, rtol=1e-12, atol=0)
        else:
            v = models[0].get_submodule(layer).parametrizations.weight.original1
            torch.testing.assert_close(g, v.norm(dim=0))
    if gain == "forward":
        g = models[0].get_submodule("transformer.h.0.attn.c_attn").parametrizations.weight.original0
        torch.testing.assert_close(g, torch.full_like(g, math.sqrt(2 * 16 / 48)))


def test_every_channel_is_standardized():
    model = rewrite(gpt2(), "weight_norm", inputs=X)
    run(model, "data_dependent_weight_norm")
    record = run(rewrite(gpt2(), "weight_norm", inputs=X), "data_dependent_weight_norm")
    assert record.coverage.passed_over == {}
    linear = rewrite(with_linear(gpt2()), "weight_norm", inputs=X)
    with torch.no_grad():
        for layer in LAYERS:
            v = model.get_submodule(layer).parametrizations.weight.original1
            linear.get_submodule(layer).parametrizations.weight.original1.copy_(v.T)
        others = dict(linear.named_parameters())
        for name, parameter in model.named_parameters():
            if parameter.shape == others[name].shape and not any(name.startswith(f"{layer}.") for layer in LAYERS):
                others[name].copy_(parameter)
    run(linear, "data_dependent_weight_norm", base=None)
    assert_same(model, linear, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:the gradient quotient is saturated")  # in both, which is all that matters here
def test_the_gradient_quotient_under_weight_normalization():
    """Its derivatives, of which PyTorch's second one is wrong, are those of linear layers."""
    plain = gpt2()
    models = [rewrite(model, "weight_norm", inputs=X) for model in (plain, with_linear(plain))]
    values = [gradient_quotient(model.eval(), X, Y, next_token_loss).item() for model in models]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("scheme", sorted({*SCHEMES.names()} - {"admin", "deepnorm"}))  # GPT-2's norms come first
def test_schemes_put_their_parts_beside_them(scheme):
    """The rewritten models compute the same as those of linear layers, and train."""
    plain = gpt2(tied=False)
    conv, linear = (rewrite(model, scheme, inputs=X) for model in (plain, with_linear(plain)))
    assert set(dict(conv.named_parameters())) == set(dict(linear.named_parameters()))
    torch.testing.assert_close(conv.eval()(X).logits, linear.eval()(X).logits, rtol=0, atol=1e-12)
    initializer = scheme if scheme in INITIALIZERS.names() else "kaiming"
    record = run(conv, initializer)
    assert record.coverage.passed_over == {}
    assert torch.isfinite(conv(X).logits).all()


def test_fixup_sets_the_ends_to_zero_and_scales_the_others():
    """Rules 1 and 2 with L = 4 branches of m = 2 layers: Kaiming's law (fan_out) times 1/2."""
    model = rewrite(gpt2(tied=False), "fixup", inputs=X)
    record = run(model, "fixup")
    names = {name.replace(".branch.", ".").replace(".layer.", "."): name for name in record.tensors}
    for layer in LAYERS:
        name = names[f"{layer}.weight"]
        weight = model.get_parameter(name)
        if layer.endswith("c_proj"):
            assert not weight.any()
        else:
            assert record.tensors[name][0]["std"] == pytest.approx(math.sqrt(2 / weight.shape[1]) / 2)
    assert not model.lm_head.layer.weight.any()


def test_fixup_refuses_a_head_that_is_an_embeddings():
    """Its first rule would set it to 0, and with it all inputs."""
    model = rewrite(gpt2(), "fixup", inputs=X)
    before = model.transformer.wte.weight.clone()
    with pytest.raises(
        InitializationError, match=r"^fixup: lm_head.*, which would be 0, shares its weight with an embedding"
    ):
        run(model, "fixup")
    assert torch.equal(before, model.transformer.wte.weight)
    assert run(model, "fixup", nonzero=True).coverage.passed_over == {}
