"""The distributions against their laws: variances, orthogonality, isometry, the depth laws of ReLU nets."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from recorded import ONES, UNTOUCHED, ZEROED, drawn
from torch import nn
from torch.nn.functional import relu

from initbench.initializers.initialize import initialize

# (layer, fan_in, fan_out); the fans count one group of a convolution, and input channels × taps of a transposed one.
LAYERS = {
    "linear": (lambda: nn.Linear(300, 200), 300, 200),
    "conv1d": (lambda: nn.Conv1d(60, 90, 5), 300, 450),
    "conv2d": (lambda: nn.Conv2d(40, 80, 3, stride=2), 360, 720),
    "grouped": (lambda: nn.Conv2d(128, 256, 3, groups=4), 288, 576),
    "depthwise": (lambda: nn.Conv2d(4000, 4000, 3, groups=4000), 9, 9),
    "pointwise": (lambda: nn.Conv2d(256, 128, 1), 256, 128),
    "conv3d": (lambda: nn.Conv3d(16, 32, 3), 432, 864),
    "transposed": (lambda: nn.ConvTranspose2d(40, 80, 3), 360, 720),
    "grouped transposed": (lambda: nn.ConvTranspose2d(128, 256, 3, groups=4), 288, 576),
}


def weight_of(layer, name, seed=0, **arguments):
    initialize(layer, name, seed=seed, **arguments)
    return layer.weight.detach()


def assert_law(values, std, shape):
    """Mean 0 and the standard deviation, to five standard errors, and the law's shape by its fourth moment."""
    n = values.numel()
    assert abs(values.mean().item()) < 5 * std / math.sqrt(n)
    assert values.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * n))
    kurtosis = (values / std).pow(4).mean().item()
    assert kurtosis == pytest.approx({"normal": 3.0, "uniform": 1.8}[shape], rel=0.06)
    if shape == "uniform":
        assert values.abs().max() <= math.sqrt(3) * std * (1 + 1e-6)


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("shape", ["normal", "uniform"])
def test_kaiming_and_xavier_have_their_variances(layer, shape):
    make, fan_in, fan_out = LAYERS[layer]
    assert_law(weight_of(make(), "kaiming", distribution=shape), math.sqrt(2 / fan_in), shape)
    fan_out_weight = weight_of(make(), "kaiming", distribution=shape, mode="fan_out", gain=3.0)
    assert_law(fan_out_weight, 3 / math.sqrt(fan_out), shape)
    xavier = weight_of(make(), "xavier", distribution=shape, gain=0.5)
    assert_law(xavier, 0.5 * math.sqrt(2 / (fan_in + fan_out)), shape)


def test_defaults_are_those_of_the_papers():
    assert_law(weight_of(nn.Linear(300, 200), "kaiming"), math.sqrt(2 / 300), "normal")
    xavier = weight_of(nn.Linear(300, 200), "xavier")
    assert_law(xavier, math.sqrt(6 / 500) / math.sqrt(3), "uniform")
    assert_law(weight_of(nn.Linear(300, 200), "gaussian"), 0.01, "normal")
    assert_law(weight_of(nn.Linear(300, 200), "gaussian", std=2.0), 2.0, "normal")


PYTORCH = {name: make for name, (make, _, _) in LAYERS.items()} | {
    "bilinear": lambda: nn.Bilinear(30, 40, 50),
    "embedding": lambda: nn.Embedding(500, 60, padding_idx=7),
    "embedding bag": lambda: nn.EmbeddingBag(500, 60),
    "lstm": lambda: nn.LSTM(40, 50, 2, bidirectional=True),
    "gru cell": lambda: nn.GRUCell(40, 50),
    "attention": lambda: nn.MultiheadAttention(64, 4),
    "attention, other widths": lambda: nn.MultiheadAttention(64, 4, kdim=48, vdim=80, add_bias_kv=True),
    "group norm": lambda: nn.GroupNorm(2, 60),
    "encoder layer": lambda: nn.TransformerEncoderLayer(64, 4, 96),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", PYTORCH)
def test_pytorch_default_has_the_law_of_pytorchs_own_layers(name):
    """Against the pooled parameters of freshly built layers: constants equal, bounds and deviations to 5 errors."""
    torch.manual_seed(0)
    copies = 20
    theirs = [dict(PYTORCH[name]().named_parameters()) for _ in range(copies)]
    ours = []
    for seed in range(copies):
        layer = PYTORCH[name]()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.fill_(123.0)
        initialize(layer, "pytorch_default", seed=seed)
        ours.append(dict(layer.named_parameters()))
    for key in theirs[0]:
        reference = torch.cat([parameters[key].flatten() for parameters in theirs])
        values = torch.cat([parameters[key].flatten() for parameters in ours])
        if reference.unique().numel() == 1:
            assert torch.equal(values, reference), key
            continue
        error = 5 * math.sqrt(2 / reference.numel())
        assert values.std().item() == pytest.approx(reference.std().item(), rel=error), key
        assert values.mean().item() == pytest.approx(0.0, abs=error * reference.std().item()), key
        kurtosis, expected = ((v / v.std()).pow(4).mean().item() for v in (values, reference))
        assert kurtosis == pytest.approx(expected, rel=0.2), key
        if expected < 2.4:  # uniform: both stay within the same bound, and come near it
            assert values.abs().max().item() == pytest.approx(reference.abs().max().item(), rel=0.05), key
    if name == "embedding":
        assert torch.equal(ours[0]["weight"][7], torch.zeros(60))


@pytest.mark.parametrize(
    ("name", "log2_per_layer"), [("kaiming", 0.0), ("xavier", -1.0), ("pytorch_default", -math.log2(6))]
)
def test_depth_laws_of_the_second_moment_over_50_relu_layers(name, log2_per_layer):
    """He 2⁰, Xavier 2⁻ᴸ, PyTorch default 6⁻ᴸ (biases off, equal widths)."""
    depth, width, seeds = 50, 256, 8
    ratios = []
    for seed in range(seeds):
        layers = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(depth)]).double()
        initialize(layers, name, seed=seed)
        x = torch.randn(64, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        # ReLU halves the second moment of a symmetric input; the law is about the layers after it.
        start = h = relu(x)
        with torch.no_grad():
            for layer in layers:
                h = relu(layer(h))
        ratios.append(math.log2(h.square().mean() / start.square().mean()))
    # At width n the log of the ratio has mean −(5 / 2n)·L and variance (5 / n)·L: −.7 and 1.4² in log2 here, so the
    # mean of 8 is −.7 ± .5. A gain that is 5 % off moves it by 7.
    assert sum(ratios) / seeds == pytest.approx(depth * log2_per_layer - 0.7, abs=2.0)


def matrices_of(layer):
    """The layer's blocks as matrices (outputs, inputs × taps), float64."""
    weight = layer.weight.detach().double().clone()
    groups = getattr(layer, "groups", 1)
    blocks = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    if isinstance(layer, nn.ConvTranspose2d):
        blocks = blocks.transpose(1, 2)
    return blocks.flatten(2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(20, 50),
        lambda: nn.Linear(50, 20),
        lambda: nn.Conv2d(4, 50, 3),
        lambda: nn.Conv2d(8, 12, 3),
        lambda: nn.Conv2d(8, 80, 3, groups=2),
        lambda: nn.ConvTranspose2d(8, 12, 3, groups=2),
        lambda: nn.ConvTranspose2d(2, 30, 3),
    ],
)
def test_orthogonal_matrices_are_orthonormal_block_by_block(make):
    layer = make().double()
    initialize(layer, "orthogonal", gain=1.7)
    for matrix in matrices_of(layer):
        rows, columns = matrix.shape
        gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
        assert torch.allclose(gram, 1.7**2 * torch.eye(len(gram), dtype=torch.float64), rtol=0, atol=1e-12)


def test_groups_and_seeds_have_matrices_of_their_own():
    layer = nn.Conv2d(16, 16, 3, groups=2).double()
    initialize(layer, "delta_orthogonal")
    first, second = matrices_of(layer)
    assert not torch.allclose(first, second)
    initialize(layer, "delta_orthogonal", seed=1)
    assert not torch.allclose(first, matrices_of(layer)[0])


@pytest.mark.parametrize("name", ["orthogonal", "delta_orthogonal"])
def test_orthogonal_matrices_are_haar(name):
    """A QR decomposition without the sign fix has a first entry of one sign, mean −.42 for 4 × 4."""
    draws = torch.stack([weight_of(nn.Linear(4, 4), name, seed=seed) for seed in range(600)])
    # Haar: every entry has mean 0 and variance 1/4; four standard errors of 600 draws.
    assert draws.mean(0).abs().max() < 4 * 0.5 / math.sqrt(600)
    assert draws.square().mean(0).sub(0.25).abs().max() < 4 * 0.25 / math.sqrt(600)


def norm_ratio(layer, x):
    with torch.no_grad():
        return (layer(x).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)).double()


def noise(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(16, 16, 1), (6, 20, 1), (16, 32, 4)])
def test_delta_orthogonal_is_an_isometry(kernel, inputs, outputs, groups):
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False).double()
    initialize(layer, "delta_orthogonal")
    assert norm_ratio(layer, noise(8, inputs, 9, 9)).sub(1).abs().max() < 1e-12
    initialize(layer, "delta_orthogonal", gain=1.5)
    assert norm_ratio(layer, noise(8, inputs, 9, 9)).sub(1.5).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(6, 8, 3, padding=1, bias=False), (4, 6, 20)),
        (nn.Conv3d(6, 8, 3, padding=1, bias=False), (4, 6, 5, 5, 5)),
        (nn.ConvTranspose2d(6, 8, 3, padding=1, bias=False), (4, 6, 9, 9)),
        (nn.ConvTranspose2d(8, 16, 5, padding=2, groups=2, bias=False), (4, 8, 9, 9)),
        (nn.ConvTranspose2d(6, 8, 3, stride=2, bias=False), (4, 6, 9, 9)),
        (nn.Linear(6, 8, bias=False), (4, 6)),
    ],
)
def test_delta_orthogonal_is_an_isometry_for_every_kind_of_layer(layer, shape):
    layer.double()
    initialize(layer, "delta_orthogonal")
    assert norm_ratio(layer, noise(*shape)).sub(1).abs().max() < 1e-12


def test_orthogonal_kernels_lose_norm_at_the_borders_and_are_no_isometry():
    """Of the 3n × 3n taps that an image of n × n has, (3n − 2)² lie within it: √ of their share, 1 − 2 / (3n), is left.

    Each row of the flattened weight has norm 1, so that every tap weighs as much on average.
    """
    layer = nn.Conv2d(16, 16, 3, padding=1, bias=False).double()
    initialize(layer, "orthogonal")
    ratios = norm_ratio(layer, noise(64, 16, 16, 16))
    # By 64 × 16 × 256 numbers and a weight's own share of each tap it is off by .2 %, over seeds; an isometry by 4 %.
    assert ratios.square().mean().sqrt().item() == pytest.approx(1 - 2 / 48, rel=0.01)


def test_delta_orthogonal_keeps_the_norm_through_1000_layers():
    layers = nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1) for _ in range(1000)]).double()
    initialize(layers, "delta_orthogonal")
    assert norm_ratio(layers, noise(2, 8, 4, 4)).sub(1).abs().max() < 1e-12


def test_delta_orthogonal_has_only_its_centre_tap():
    layer = nn.Conv2d(4, 6, (3, 4)).double()
    record = initialize(layer, "delta_orthogonal")
    off_centre = layer.weight.detach().clone()
    off_centre[:, :, 1, 2] = 0
    assert not off_centre.any()
    assert record.tensors["weight"] == [drawn("delta_orthogonal", gain=1.0, centre=[1, 2])]


def test_delta_orthogonal_with_more_inputs_than_outputs_is_a_projection_and_warns_once():
    layers = nn.ModuleDict({name: nn.Conv2d(32, 16, 3, padding=1, bias=False) for name in ("a", "b")}).double()
    layers["head"] = nn.Linear(32, 16).double()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = initialize(layers, "delta_orthogonal")
    (warning,) = caught
    assert "in 2 convolutions that have more inputs than outputs, the first of them a.weight" in str(warning.message)
    assert record.tensors["a.weight"][0]["keeps_norm"] is False
    assert "keeps_norm" not in record.tensors["head.weight"][0]  # every classifier narrows: nothing to warn of
    centre = layers["a"].weight.detach()[:, :, 1, 1]
    assert torch.allclose(centre @ centre.T, torch.eye(16, dtype=torch.float64), rtol=0, atol=1e-12)
    # E‖Qx‖² / ‖x‖² = out / in = 1/2; 64 × 81 pixels leave an error below 1 %.
    ratio = norm_ratio(layers["a"], noise(64, 32, 9, 9)).square().mean().sqrt()
    assert ratio.item() == pytest.approx(math.sqrt(16 / 32), rel=0.01)


def test_delta_orthogonal_with_stride_keeps_the_pixels_that_it_visits():
    layer = nn.Conv2d(16, 16, 3, stride=2, padding=1, bias=False).double()
    initialize(layer, "delta_orthogonal")
    x = noise(8, 16, 10, 10)
    visited = x[:, :, ::2, ::2]
    with torch.no_grad():
        assert torch.allclose(layer(x).norm(dim=1), visited.norm(dim=1), rtol=1e-12)
    assert norm_ratio(layer, noise(64, 16, 32, 32)).mean().item() == pytest.approx(1 / 2, rel=0.01)


def test_stacked_attention_projections_are_three_matrices():
    attention = nn.MultiheadAttention(16, 2).double()
    initialize(attention, "orthogonal")
    for matrix in attention.in_proj_weight.detach().chunk(3):
        assert torch.allclose(matrix @ matrix.T, torch.eye(16, dtype=torch.float64), rtol=0, atol=1e-12)
    big = nn.MultiheadAttention(128, 2)
    initialize(big, "xavier")
    assert_law(big.in_proj_weight.detach(), math.sqrt(2 / 256), "uniform")
    assert not big.in_proj_bias.any()


@pytest.mark.parametrize("name", ["kaiming", "xavier", "gaussian", "orthogonal", "delta_orthogonal"])
def test_biases_norms_and_the_rest(name):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.Linear(4, 4), nn.PReLU()
    )
    model.gate = nn.Parameter(torch.full((1,), 5.0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    record = initialize(model, name)
    for layer in (model[0], model[4]):
        assert not layer.bias.any()
        assert not (layer.weight == 7.0).any()
    for norm in (model[1], model[2], model[3]):
        assert torch.equal(norm.weight, torch.ones(4))
        assert not norm.bias.any()
    assert record.tensors["1.weight"] == [ONES]
    assert record.tensors["1.bias"] == [ZEROED]
    for untouched in ("gate", "5.weight"):
        assert (model.get_parameter(untouched) == 7.0).all()
        assert record.tensors[untouched] == [UNTOUCHED]
