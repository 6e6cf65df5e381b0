"""Distributions on weight-normalized layers: the weight g·v/‖v‖ is what the plain layer's would be."""

from __future__ import annotations

import itertools

import pytest
import torch
from cases import DISTRIBUTIONS, small
from recorded import FROZEN, UNTOUCHED, ZEROED, left, set_to, tied
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import register_parametrization

from initbench import randomness
from initbench.initializers.initialize import initialize
from initbench.initializers.orthogonal import haar_orthogonal

# v·(g/‖v‖), where g and ‖v‖ are two roundings of one norm: some units in the last place of float32.
ROUNDING = {"rtol": 5e-7, "atol": 0.0}


def parameters_of(module, name="weight"):
    stages = module.parametrizations[name]
    return stages.original0, stages.original1


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, "zero"])
def test_the_schemes_standard_and_weight_norm_share_their_weights(name):
    standard, normalized = small("wrn"), small("wrn", scheme="weight_norm")
    initialize(standard, name, seed=3)
    record = initialize(normalized, name, seed=3)
    weights = {key: module for key, module in normalized.named_modules() if hasattr(module, "parametrizations")}
    assert len(weights) == 9
    for key, module in weights.items():
        expected = standard.get_submodule(key).weight
        g, v = parameters_of(module)
        torch.testing.assert_close(module.weight, expected, **ROUNDING)
        torch.testing.assert_close(g.flatten(), expected.flatten(1).norm(dim=1), **ROUNDING)
        if expected.any():
            assert torch.equal(v, expected)
            assert record.tensors[f"{key}.parametrizations.weight.original1"][0]["event"] == "drawn"
            assert record.tensors[f"{key}.parametrizations.weight.original0"] == [set_to("norms")]
    assert torch.equal(normalized.classifier.weight, standard.classifier.weight)
    events = list(itertools.chain(*record.tensors.values()))
    assert {event["reason"] for event in events if event["event"] == "left"} <= {"zero_gain"}


LAYERS = {
    "linear": lambda: weight_norm(nn.Linear(6, 8)),
    "gain per input": lambda: weight_norm(nn.Linear(6, 8), dim=1),
    "one gain": lambda: weight_norm(nn.Linear(6, 8), dim=None),
    "grouped": lambda: weight_norm(nn.Conv2d(8, 12, 3, groups=4)),
    "transposed": lambda: weight_norm(nn.ConvTranspose2d(4, 6, 3, groups=2)),
    "transposed, gain per output": lambda: weight_norm(nn.ConvTranspose1d(4, 6, 3), dim=1),
    "projections of attention": lambda: weight_norm(nn.MultiheadAttention(8, 2), "in_proj_weight"),
    "embedding": lambda: weight_norm(nn.Embedding(5, 4, padding_idx=2)),
    "bilinear": lambda: weight_norm(nn.Bilinear(3, 4, 5)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_layers_and_dimensions(make, dtype):
    """`pytorch_default` draws them all; `remove_parametrizations` makes the plain layer of the same name."""
    normalized, plain = make().to(dtype), make().to(dtype)
    (name,) = plain.parametrizations
    nn.utils.parametrize.remove_parametrizations(plain, name)
    for model in (normalized, plain):
        initialize(model, "pytorch_default", seed=5)
    assert torch.isfinite(getattr(normalized, name)).all()
    tolerance = {"rtol": 5e-7 if dtype == torch.float32 else 2e-15, "atol": 0.0}
    torch.testing.assert_close(getattr(normalized, name), getattr(plain, name), **tolerance)


def test_it_is_the_stored_weight_that_g_is_the_norm_of():
    """In bfloat16 as well, where the norm of the draw is another than that of its rounding; in any layout."""
    plain, half, last = (small("plain", scheme=s) for s in ("standard", "weight_norm", "weight_norm"))
    half, last = half.bfloat16(), last.to(memory_format=torch.channels_last)
    for model in (plain, half, last):
        initialize(model, "kaiming")
    for key, module in half.named_modules():
        if hasattr(module, "parametrizations"):
            g, v = parameters_of(module)
            assert torch.equal(v, plain.get_submodule(key).weight.bfloat16())
            torch.testing.assert_close(g.flatten(), v.flatten(1).norm(dim=1), rtol=2**-8, atol=0.0)
            v = parameters_of(last.get_submodule(key))[1]
            assert torch.equal(v, plain.get_submodule(key).weight)
            assert v.is_contiguous(memory_format=torch.channels_last)


def test_a_weight_of_zeros_keeps_its_direction_and_can_be_trained():
    model = small("wrn", scheme="weight_norm").double()
    ends = [block.conv2 for group in model.groups for block in group]
    before = [parameters_of(module)[1].detach().clone() for module in ends]
    record = initialize(model, "zero")
    for module, direction in zip(ends, before, strict=True):
        g, v = parameters_of(module)
        assert torch.equal(v, direction)
        assert not g.any()
        assert not module.weight.any()
    assert record.tensors["groups.0.0.conv2.parametrizations.weight.original0"] == [ZEROED]
    assert record.tensors["groups.0.0.conv2.parametrizations.weight.original1"] == [left("zero_gain")]
    end = ends[0]
    inputs = torch.randn(2, 16, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    end(inputs).square().sum().backward()
    (end(inputs) - 1).square().sum().backward()
    gradient = parameters_of(end)[0].grad
    assert torch.isfinite(gradient).all()
    assert gradient.any()


def test_rows_of_zeros():
    """ZerO's identity of 2 outputs for 3 inputs, stored by inputs: the third row is 0, and without a direction here."""
    model = weight_norm(nn.ConvTranspose1d(3, 2, 1))
    g, v = parameters_of(model)
    with torch.no_grad():
        v[2] = 0
    record = initialize(model, "zero")
    assert model.weight[:, :, 0].tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert g.flatten().tolist() == [1.0, 1.0, 0.0]
    assert v[:, :, 0].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    assert record.tensors["parametrizations.weight.original0"] == [set_to("norms", zeros=True)]


@pytest.mark.parametrize(
    ("frozen", "other", "reason"),
    [(0, 1, "frozen_gain"), (1, 0, "frozen_direction")],
)
def test_where_one_of_both_is_frozen_neither_is_set(frozen, other, reason):
    model = weight_norm(nn.Linear(4, 3))
    parameters_of(model)[frozen].requires_grad_(requires_grad=False)
    before = [p.detach().clone() for p in parameters_of(model)]
    record = initialize(model, "kaiming")
    assert all(map(torch.equal, before, parameters_of(model)))
    assert record.tensors[f"parametrizations.weight.original{frozen}"] == [FROZEN]
    assert record.tensors[f"parametrizations.weight.original{other}"] == [left(reason)]


def test_tied_weights_are_drawn_once_by_their_first_name():
    plain, normalized = (nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)}) for _ in range(2))
    plain["b"].weight = plain["a"].weight
    for layer in normalized.values():
        weight_norm(layer)
    normalized["b"].parametrizations = normalized["a"].parametrizations
    record = initialize(normalized, "kaiming")
    initialize(plain, "kaiming")
    for key in "ab":
        torch.testing.assert_close(normalized[key].weight, plain[key].weight, **ROUNDING)
    assert record.tensors["b.parametrizations.weight.original1"] == [tied("a.parametrizations.weight.original1")]


class Block(nn.Module):
    """Attention and a feed-forward part."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)
        self.expand, self.contract = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.contract(self.expand(x).relu())

    def weight_normalized(self):
        weight_norm(self.attention, "in_proj_weight")
        for layer in (self.attention.out_proj, self.expand, self.contract):
            weight_norm(layer)
        return self


@pytest.mark.parametrize("residual", ["scaled", "zero"])
def test_the_residual_projections_of_gpt2(residual):
    plain, normalized = Block(), Block().weight_normalized()
    for model in (plain, normalized):
        record = initialize(model, "gpt2", residual=residual)
        assert record.conditions["residual_projections"] == ["attention.out_proj.weight", "contract.weight"]
    for name in ("attention.in_proj_weight", "attention.out_proj.weight", "expand.weight", "contract.weight"):
        owner, _, attribute = name.rpartition(".")
        weight = getattr(normalized.get_submodule(owner), attribute)
        torch.testing.assert_close(weight, plain.get_parameter(name), **ROUNDING)


class Doubled(nn.Module):
    """A parametrization by twice the parameter."""

    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize(
    "make",
    [
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        lambda layer: register_parametrization(weight_norm(layer), "weight", Doubled()),
        nn.utils.weight_norm,
    ],
    ids=["spectral", "orthogonal", "two stages", "deprecated weight_norm"],
)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_other_parametrizations_are_left_as_they_are_and_named(make):
    model = nn.Sequential(make(nn.Linear(4, 4)), nn.Linear(4, 4))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.warns(UserWarning, match=r"kaiming passes over 1 of 2 weights: 0\..* \((it is under|another param)"):
        record = initialize(model, "kaiming")
    assert (record.coverage.weights, record.coverage.set) == (2, 1)
    for name, parameter in model.named_parameters():
        if name.startswith("0."):
            assert torch.equal(parameter, before[name])
            assert record.tensors[name] == [UNTOUCHED], name
    assert record.tensors["1.weight"][0]["event"] == "drawn"


def test_the_initializer_weight_norm_draws_v_from_the_stream_of_v():
    """What it gave before distributions knew of weight normalization, it gives."""
    model = nn.Sequential(weight_norm(nn.Linear(6, 4)), weight_norm(nn.ConvTranspose1d(4, 4, 3))).double()
    before = [p.detach().clone() for p in model[1].parameters()]
    with pytest.warns(UserWarning, match=r"weight_norm passes over 1 of 2 .*1 \(it is of a ConvTranspose1d\)$"):
        initialize(model, "weight_norm", seed=2, input_shape=(1, 4, 6))
    generator = randomness.generator(2, "weights", "0.parametrizations.weight.original1")
    assert torch.equal(parameters_of(model[0])[1], haar_orthogonal(4, 6, generator))
    assert all(map(torch.equal, model[1].parameters(), before))
