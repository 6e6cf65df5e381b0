"""ZerO: its matrices by hand and by algorithm 1, what they keep, and that nothing is drawn."""

from __future__ import annotations

import math

import pytest
import timm
import torch
from branches import residual_branches
from cases import batch
from recorded import ONES, ZEROED, drawn
from torch import nn

from initbench.architectures.create import create_model
from initbench.initializers.initialize import initialize


def weight_of(layer, seed=0):
    initialize(layer.double(), "zero", seed=seed)
    return layer.weight.detach()


def algorithm_1(outputs, inputs):
    """Partial identity, Hadamard matrix by Sylvester's doubling, partial identity: three whole matrices."""
    if outputs <= inputs:
        return torch.eye(outputs, inputs, dtype=torch.float64)
    m = math.ceil(math.log2(outputs))
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(m):
        hadamard = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), hadamard)
    left, right = (torch.eye(*shape, dtype=torch.float64) for shape in ((outputs, 2**m), (2**m, inputs)))
    return left @ (hadamard / 2 ** (m / 2)) @ right


def test_small_matrices_by_hand():
    assert weight_of(nn.Linear(3, 2)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert weight_of(nn.Linear(2, 2)).tolist() == [[1, 0], [0, 1]]
    assert weight_of(nn.Linear(2, 4)).tolist() == [[0.5, 0.5], [0.5, -0.5], [0.5, 0.5], [0.5, -0.5]]
    assert weight_of(nn.Linear(3, 4)).tolist() == [
        [0.5, 0.5, 0.5],
        [0.5, -0.5, 0.5],
        [0.5, 0.5, -0.5],
        [0.5, -0.5, -0.5],
    ]
    assert weight_of(nn.Linear(1, 3)).tolist() == [[0.5], [0.5], [0.5]]  # of order 4, not 3


@pytest.mark.parametrize("outputs", [2, 5, 8, 13, 33, 64])
@pytest.mark.parametrize("inputs", [1, 3, 4, 12, 32, 63, 64, 70])
def test_matrices_are_those_of_algorithm_1(outputs, inputs):
    assert torch.allclose(weight_of(nn.Linear(inputs, outputs)), algorithm_1(outputs, inputs), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("outputs", "inputs", "expected"), [(32, 16, 1.0), (16, 32, 1.0), (16, 16, 1.0), (48, 16, math.sqrt(48 / 64))]
)
def test_singular_values(outputs, inputs, expected):
    """By the factor that algorithm 1 prints, they are √2 and √1.5 in place of 1 and √.75."""
    values = torch.linalg.svdvals(weight_of(nn.Linear(inputs, outputs)))
    assert torch.allclose(values, torch.full((16,), expected, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("outputs", [3, 5, 7, 24, 33, 100, 127])
def test_no_width_loses_rank_or_gains_norm(outputs):
    for inputs in range(1, outputs):
        values = torch.linalg.svdvals(weight_of(nn.Linear(inputs, outputs)))
        assert values.min() > 0.05
        assert values.max() < 1 + 1e-12


def test_the_seed_and_the_random_state_change_nothing():
    """All that differs between two seeds is the seed and the time in the record, and what is left as it was built."""

    def build(random_state):
        torch.manual_seed(random_state)
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4))

    first, second = build(1), build(2)
    records = [
        initialize(model, "zero", seed=seed, input_shape=(1, 3, 3, 3)) for seed, model in enumerate((first, second))
    ]
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, second.get_parameter(name)), name
    assert records[0].tensors == records[1].tensors


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("inputs", "outputs"), [(4, 4), (6, 4), (3, 8)])
def test_a_convolution_is_the_matrix_at_each_pixel_that_it_visits(inputs, outputs, stride):
    layer = nn.Conv2d(inputs, outputs, 3, padding=1, stride=stride, bias=False)
    weight_of(layer)
    x = batch((2, inputs, 7, 7))[0]
    with torch.no_grad():
        expected = torch.einsum("oi,bihw->bohw", algorithm_1(outputs, inputs), x[:, :, ::stride, ::stride])
        assert torch.allclose(layer(x), expected, rtol=0, atol=1e-14)


def test_an_even_kernel_has_its_centre_at_half_its_size():
    layer = nn.Conv2d(2, 2, (4, 3)).double()
    record = initialize(layer, "zero")
    expected = torch.zeros(2, 2, 4, 3, dtype=torch.float64)
    expected[:, :, 2, 1] = torch.eye(2, dtype=torch.float64)
    assert torch.equal(layer.weight, expected)
    assert record.tensors["weight"] == [drawn("identity", centre=[2, 1])]


def test_transposed_convolutions_and_groups():
    transposed = nn.ConvTranspose2d(3, 8, 1, bias=False)
    weight = weight_of(transposed)
    assert torch.allclose(weight[:, :, 0, 0].T, algorithm_1(8, 3), rtol=0, atol=1e-15)
    grouped = weight_of(nn.Conv2d(6, 12, 3, groups=3))
    for group in grouped.chunk(3):
        assert torch.allclose(group[:, :, 1, 1], algorithm_1(4, 2), rtol=0, atol=1e-15)
    depthwise = nn.Conv2d(5, 5, 3, padding=1, groups=5, bias=False)
    weight_of(depthwise)
    x = batch((2, 5, 6, 6))[0]
    with torch.no_grad():
        assert torch.equal(depthwise(x), x)


def test_stacked_attention_projections_are_three_identities():
    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.attention(x, x, x)[0]

    model = SelfAttention().double()
    initialize(model, "zero")
    attention = model.attention
    assert torch.equal(attention.in_proj_weight.detach(), torch.eye(8, dtype=torch.float64).repeat(3, 1))
    assert torch.equal(attention.out_proj.weight.detach(), torch.eye(8, dtype=torch.float64))
    assert not attention.in_proj_bias.any()


def test_a_linear_network_is_the_product_of_its_matrices():
    """6 → 16 → 16 → 3: up by the Hadamard matrix, on by the identity, down to the first three units."""
    net = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 16), nn.Linear(16, 3)).double()
    initialize(net, "zero")
    x = batch((5, 6))[0]
    signs = torch.tensor([[1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1], [1, 1, -1, -1, 1, 1]], dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(net(x), x @ signs.T / 4, rtol=0, atol=1e-14)
        assert torch.allclose(net[:2](x).norm(dim=1), x.norm(dim=1), rtol=1e-12)


def test_biases_norms_and_the_record():
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 4)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    record = initialize(model, "zero")
    assert record.tensors == {
        "0.weight": [drawn("scaled Hadamard matrix", order=8)],
        "0.bias": [ZEROED],
        "1.weight": [ONES],
        "1.bias": [ZEROED],
        "2.weight": [drawn("identity")],
        "2.bias": [ZEROED],
        "3.weight": [drawn("partial identity")],
        "3.bias": [ZEROED],
    }
    assert model[1].weight.eq(1).all()
    assert not any(parameter.any() for name, parameter in model.named_parameters() if name.endswith("bias"))


def test_a_tall_weight_does_not_make_the_whole_hadamard_matrix():
    """Of order 65536 it would be 32 GiB."""
    layer = nn.Linear(16, 50257, bias=False)
    initialize(layer, "zero")
    assert torch.equal(layer.weight[:16], layer.weight[16:32])
    assert torch.equal(layer.weight.abs(), torch.full((50257, 16), 1 / 256))


@pytest.mark.parametrize(("name", "depth"), [("wrn", 16), ("resnet", 14)])
def test_residual_branches_and_the_classifier_end_in_zeros(name, depth):
    model = create_model(name, depth=depth, width=1)
    record = initialize(model, "zero")
    for branch in residual_branches(model):
        assert all(model.get_submodule(end).weight.eq(0).all() for end in branch.ends)
        assert all(model.get_submodule(layer).weight.abs().max() > 0 for layer in branch.inner)
    assert model.classifier.weight.eq(0).all()
    assert record.tensors["classifier.weight"] == [drawn("zeros")]
    plain = create_model("plain", depth=16, width=1)
    initialize(plain, "zero")
    assert all(p.abs().max() > 0 for p in plain.parameters() if p.dim() > 1)


def test_a_gate_of_zero_beside_a_weight_of_zero_is_opened():
    """timm's NF-ResNets have a gain of 0 in each last convolution: with its weight at 0 too, nothing would move."""
    model = timm.create_model("nf_resnet26", num_classes=3, channels=(32, 64, 64, 64)).train()
    record = initialize(model, "zero", input_shape=(2, 3, 32, 32), num_classes=3)
    gains = [f"stages.{stage}.{block}.conv3.gain" for stage in range(4) for block in range(2)]
    assert all(record.tensors[name] == [{"event": "filled", "value": 1.0}] for name in gains)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(4):
        images, targets = batch((2, 3, 32, 32), classes=3, seed=step, dtype=torch.float32)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), targets).backward()
        optimizer.step()
    assert [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])] == []


def test_the_gain_of_a_weight_normalization_is_no_gate():
    """The last weight of each branch is 0, also where it was before."""
    model = create_model("resnet", depth=8, norm="none", scheme="weight_norm")
    ends = [end for branch in residual_branches(model) for end in branch.ends]
    for _ in range(2):
        initialize(model, "zero")
        assert [end for end in ends if model.get_submodule(end).weight.any()] == []
