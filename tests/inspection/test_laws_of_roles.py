"""Laws by role: true ones are named, and refused in 1 % of the cases; wrong ones are not named."""

import itertools
import math

import pytest
import torch
from planted_networks import Residual
from scipy.stats import binom
from torch import nn

from initbench.inspection.fitted_laws import SHAPES, fitting_laws, samples_of
from initbench.inspection.role_laws import family_of, role_laws
from initbench.inspection.roles import TensorRole, roles_of
from initbench.inspection.tensors import summarize
from initbench.structure.find import find_structure

WIDTHS = (48, 96, 160, 32)


def samples(draw, seed=0, bias=False):
    """The samples of a chain of linear layers whose parameters `draw` sets."""
    torch.manual_seed(seed)
    model = nn.Sequential(*(nn.Linear(first, last) for first, last in itertools.pairwise(WIDTHS)))
    with torch.no_grad():
        for layer in model:
            draw(layer.weight)
    roles = roles_of(model, None)
    found = samples_of([summarize(model.get_parameter(name), role) for name, role in roles.items()])
    return [sample for name, sample in found.items() if name.endswith("bias" if bias else "weight")]


def cut(weight):
    return nn.init.trunc_normal_(weight, std=0.1, a=-0.2, b=0.2)


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (nn.init.kaiming_normal_, "N(0, 2/fan_in), kaiming_normal_, fan_in, relu"),
        (lambda w: nn.init.kaiming_normal_(w, mode="fan_out"), "N(0, 2/fan_out), kaiming_normal_, fan_out, relu"),
        (nn.init.xavier_uniform_, "U(±√(6/(fan_in + fan_out))), xavier_uniform_"),
        (lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)), "U(±1/√fan_in), PyTorch's default"),
        (lambda w: nn.init.normal_(w, std=0.02), "N(0, 0.02²)"),
        (lambda w: nn.init.trunc_normal_(w, std=0.02), "N(0, 0.02²)"),  # cut at 100 σ
        (cut, "N(0, 0.1²) cut at ±2σ"),
        (lambda w: nn.init.xavier_normal_(w, gain=0.3), "N(0, 0.18/(fan_in + fan_out))"),
    ],
)
def test_the_simplest_law_is_the_true_one(draw, name):
    laws = fitting_laws(samples(draw, seed=1))
    assert laws[0].text.startswith(name)
    assert all(law.shape is laws[0].shape for law in laws)


def test_biases_have_the_fan_in_of_their_layer():
    assert fitting_laws(samples(lambda _: None, bias=True))[0].text.startswith("U(±1/√fan_in), PyTorch's default")


@pytest.mark.slow
@pytest.mark.parametrize("draw", [nn.init.kaiming_normal_, lambda w: nn.init.uniform_(w, -0.1, 0.1), cut])
def test_a_true_law_is_refused_in_about_one_percent(draw):
    """Bonferroni over three tests: at most 1 %; 400 draws exceed 11 refusals with a probability of 0.2 %."""
    refused = sum(not fitting_laws(samples(draw, seed)) for seed in range(400))
    assert refused <= binom.ppf(0.998, 400, 0.01)


def test_a_deviation_of_ten_percent_in_one_tensor_is_no_law():
    drawn = samples(lambda w: nn.init.normal_(w, std=0.022 if w.shape[0] == 96 else 0.02))
    assert not any(law.formula.bottom == "" for law in fitting_laws(drawn))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_standardized(shape):
    """∫ x² dF = 1 and ∫ x⁴ dF = kurtosis, by a sum over 20,000 bins."""
    edges = torch.linspace(-6, 6, 20_001, dtype=torch.float64)
    masses = torch.tensor([shape.distribution(float(edge)) for edge in edges], dtype=torch.float64).diff()
    centres = (edges[1:] + edges[:-1]) / 2
    assert float((masses * centres**2).sum()) == pytest.approx(1, abs=1e-4)
    assert float((masses * centres**4).sum()) == pytest.approx(3 + shape.excess_kurtosis, abs=2e-3)


@pytest.mark.parametrize(
    ("draw", "family"),
    [
        (nn.init.orthogonal_, "orthogonal, gain 1"),
        (lambda w: nn.init.orthogonal_(w, gain=1.5), "orthogonal, gain 1.5"),
        (nn.init.eye_, "identity"),
        (nn.init.zeros_, "zeros"),
        (lambda w: nn.init.constant_(w, 0.3), "0.3"),
        (nn.init.normal_, "random"),
    ],
)
def test_families(draw, family):
    weight = draw(torch.empty(24, 16))
    role = TensorRole("weight", (24, 16), "linear", fan_in=16, fan_out=24)
    assert family_of(summarize(weight, role)) == family


def test_one_tensor_in_ten_stands_out():
    """Nine tensors share a law; the tenth, whose deviation is twice theirs, is named with the law that it lacks."""
    torch.manual_seed(0)
    values = {f"{index}.weight": torch.randn(40, 30) * (0.2 if index == 4 else 0.1) for index in range(10)}
    roles = {name: TensorRole(name, (40, 30), "linear", fan_in=30, fan_out=40) for name in values}
    drawn = samples_of([summarize(values[name], role) for name, role in roles.items()])
    rows, exceptional = role_laws("linear", list(drawn.values()))
    assert [one.sample.role.name for one in exceptional] == ["4.weight"]
    assert (exceptional[0].family, exceptional[0].siblings) == ("N(0, 0.1²)", 9)
    assert [len(row.tensors) for row in rows] == [9, 1]


def test_a_square_weight_has_all_the_laws_that_its_fans_allow():
    """On a square layer fan-in is fan-out: He's two modes are one law, and so are LeCun's and Xavier's."""
    torch.manual_seed(1)
    role = TensorRole("weight", (200, 200), "linear", fan_in=200, fan_out=200)
    summary = summarize(nn.init.kaiming_normal_(torch.empty(200, 200)), role)
    texts = [law.text for law in fitting_laws(list(samples_of([summary]).values()))]
    assert texts[:2] == [f"N(0, 2/{fan}), kaiming_normal_, {fan}, relu" for fan in ("fan_in", "fan_out")]


class Block(nn.Module):
    """A Transformer layer's two branches, here of linear layers."""

    def __init__(self):
        super().__init__()
        self.attention, self.mlp = (nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(2))

    def forward(self, inputs):
        inputs = inputs + self.attention(inputs)
        return inputs + self.mlp(inputs)


def test_blocks_are_numbered_over_all_stages_and_their_branches_share_a_number():
    stages = [nn.Sequential(Block(), Block()) for _ in range(2)]
    model = nn.Sequential(nn.Linear(4, 8), *stages, nn.Linear(8, 3))
    roles = roles_of(model, find_structure(model, torch.zeros(2, 4)))
    samples = samples_of([summarize(model.get_parameter(name), role) for name, role in roles.items()])
    ends = [f"{one}.{two}.{branch}.2.weight" for one in (1, 2) for two in (0, 1) for branch in ("attention", "mlp")]
    assert [samples[name].block for name in ends] == [1, 1, 2, 2, 3, 3, 4, 4]
    added_by_the_model = Residual(blocks=3)
    roles = roles_of(added_by_the_model, find_structure(added_by_the_model, torch.zeros(2, 3, 8, 8)))
    samples = samples_of([summarize(added_by_the_model.get_parameter(name), role) for name, role in roles.items()])
    assert [samples[f"branches.{number}.3.weight"].block for number in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("heads", "keys", "blocks"), [(2, 2, 3), (2, 1, 1), (4, 4, 3), (4, 1, 1)])
def test_a_weight_of_queries_keys_and_values_is_in_thirds_only_if_all_are_as_wide(heads, keys, blocks):
    """With 4 heads of 8 they are wider than the 16 inputs, and with one key and value their sum is three times 16."""

    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(16, 8 * (heads + 2 * keys), bias=False), nn.Linear(8 * heads, 16)

        def forward(self, x):
            parts = self.qkv(x).split([8 * heads, 8 * keys, 8 * keys], -1)
            q, k, v = (part.unflatten(-1, (-1, 8)).transpose(1, 2) for part in parts)
            results = nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            return x + self.proj(results.transpose(1, 2).flatten(2))

    model = SelfAttention()
    role = roles_of(model, find_structure(model, torch.zeros(1, 4, 16)))["qkv.weight"]
    assert (role.blocks, role.fan_out) == (blocks, model.qkv.out_features // blocks)
