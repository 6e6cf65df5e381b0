"""Wide residual networks and their plain form against the paper's figures and functions written out by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchvision.ops import StochasticDepth

from initbench.architectures.blocks import BetaSwish, DropPath
from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarMultiplier
from initbench.architectures.wrn import Block, WideStyle
from initbench.errors import ArgumentError

ACTIVATIONS = {
    "relu": torch.relu,
    "swish": lambda x: x * torch.sigmoid(x),
    "tanh": torch.tanh,
    "linear": lambda x: x,
}


def parameter_count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def build(name, seed=0, **arguments):
    """A float64 model whose parameters and running statistics are all random, so that none can be left out."""
    model = create_model(name, **arguments).double()
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        fan = parameter[0].numel() if parameter.dim() > 1 else 1
        values = torch.randn(parameter.shape, dtype=torch.float64, generator=random)
        parameter.data = values / fan**0.5 if parameter.dim() > 1 else 1 + 0.3 * values
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.copy_(0.5 + torch.rand(buffer.shape, dtype=torch.float64, generator=random))
    return model


def oracle(state, x, depth, *, residual, norm, activation):
    """The network as a function of its weights, one line per layer; batch norm with running statistics."""

    def act(prefix, number, y):
        if norm == "batch":
            statistics = [state[f"{prefix}norm{number}.{k}"] for k in ("running_mean", "running_var", "weight", "bias")]
            mean, variance, weight, bias = (s[:, None, None] for s in statistics)
            y = (y - mean) / (variance + 1e-5).sqrt() * weight + bias
        if norm == "group":
            weight, bias = (state[f"{prefix}norm{number}.{k}"][:, None, None] for k in ("weight", "bias"))
            groups = y.unflatten(1, (-1, 16))
            mean, variance = groups.mean((2, 3, 4), keepdim=True), groups.var((2, 3, 4), correction=0, keepdim=True)
            y = ((groups - mean) / (variance + 1e-5).sqrt()).flatten(1, 2) * weight + bias
        if activation == "beta_swish":
            return y * torch.sigmoid(state[f"{prefix}activation{number}.beta"] * y)
        return ACTIVATIONS[activation](y)

    x = functional.conv2d(x, state["stem.weight"], padding=1)
    for group in range(3):
        for index in range((depth - 4) // 6):
            prefix = f"groups.{group}.{index}."
            stride = 2 if group > 0 and index == 0 else 1
            activated = act(prefix, 1, x)
            branch = functional.conv2d(activated, state[prefix + "conv1.weight"], stride=stride, padding=1)
            branch = functional.conv2d(act(prefix, 2, branch), state[prefix + "conv2.weight"], padding=1)
            if norm == "none":
                branch = state[prefix + "multiplier.scale"] * branch
            if not residual:
                x = branch
            elif prefix + "projection.weight" in state:
                x = branch + functional.conv2d(activated, state[prefix + "projection.weight"], stride=stride)
            else:
                x = branch + x
    pooled = act("", "", x).sum((2, 3)) / (x.shape[2] * x.shape[3])
    return pooled @ state["classifier.weight"].T + state["classifier.bias"]


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("norm", ["none", "batch", "group"])
@pytest.mark.parametrize("activation", ["relu", "swish", "beta_swish", "tanh", "linear"])
def test_network_is_the_written_out_function(residual, norm, activation):
    name = "wrn" if residual else "plain"
    arguments = {"depth": 16, "width": 2, "norm": norm, "activation": activation}
    model = build(name, **arguments, input_shape=(2, 9, 7), num_classes=5).eval()
    x = torch.randn(3, 2, 9, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = oracle(model.state_dict(), x, 16, residual=residual, norm=norm, activation=activation)
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64 rounding over 17 layers


@pytest.mark.parametrize(("out_channels", "stride"), [(4, 1), (6, 2)])
def test_a_block_of_fixup_by_hand(out_channels, stride):
    """Rule 3: m·conv(ReLU(conv(ReLU(x + a) + b) + c) + d), a bias before each activation and each convolution."""
    style = WideStyle(norm="none", activation="relu", scheme="fixup")
    block = Block(4, out_channels, stride, style).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in block.parameters():
        nn.init.normal_(parameter, 0.0, 0.3, generator=generator)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64, generator=generator)
    a, b, c, d = (part.bias for part in (block.bias1a, block.bias1b, block.bias2a, block.bias2b))
    activated = torch.relu(x + a) + b
    hidden = torch.relu(functional.conv2d(activated, block.conv1.weight, stride=stride, padding=1) + c) + d
    branch = block.multiplier.scale * functional.conv2d(hidden, block.conv2.weight, padding=1)
    shortcut = x if stride == 1 else functional.conv2d(activated, block.projection.weight, stride=stride)
    torch.testing.assert_close(block(x), branch + shortcut)


def test_batch_norm_uses_the_statistics_of_the_batch_in_training():
    block = Block(3, 3, 1, WideStyle(norm="batch", activation="relu")).double()
    x = 2 + 3 * torch.randn(8, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    seen = []
    block.conv1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    block(x)
    standardized = (x - x.mean((0, 2, 3), keepdim=True)) / x.var((0, 2, 3), correction=0, keepdim=True).sqrt()
    torch.testing.assert_close(seen[0], standardized.relu(), rtol=0, atol=1e-5)  # batch norm's ε is 1e-5


@pytest.mark.parametrize(
    ("depth", "width", "millions"),
    # Zagoruyko & Komodakis, table 5 and the text of section 3.
    [(40, 1, 0.6), (40, 2, 2.2), (40, 4, 8.9), (16, 8, 11.0), (22, 8, 17.2), (28, 10, 36.5)],
)
def test_parameter_counts_of_the_paper(depth, width, millions):
    with torch.device("meta"):
        model = create_model("wrn", depth=depth, width=width)
    assert round(parameter_count(model) / 1e6, 1) == millions


def test_parameter_count_of_wrn_28_10():
    # 432 in the stem, 36,195,840 in 3×3 convolutions, 258,560 in projections, 17,952 in norms, 6,410 in the classifier.
    with torch.device("meta"):
        assert parameter_count(create_model("wrn", depth=28, width=10)) == 36_479_194


@pytest.mark.parametrize("depth", [10, 28])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(("channels", "classes"), [(1, 10), (3, 7)])
def test_parameter_counts_in_closed_form(depth, width, channels, classes):
    n, k = (depth - 4) // 6, width
    stem, classifier = 9 * 16 * channels, (64 * k + 1) * classes
    # Per group one convolution enters from the width before; 2n − 1 stay within: Σ c² = (16² + 32² + 64²) k².
    convolutions = 9 * (16 * 16 * k + 16 * 32 * k * k + 32 * 64 * k * k + (2 * n - 1) * 5376 * k * k)
    projections = 16 * 32 * k * k + 32 * 64 * k * k + (0 if k == 1 else 16 * 16 * k)
    # Weight and bias per channel: each block's second norm, its first (which has the channels before), and the last.
    norms = 2 * (n * 112 * k + (16 + 48 * k + (n - 1) * 112 * k) + 64 * k)

    def count(name, **arguments):
        shape = (channels, 8, 8)
        return parameter_count(
            create_model(name, depth=depth, width=k, input_shape=shape, num_classes=classes, **arguments)
        )

    bare = stem + convolutions + classifier
    for norm in ("batch", "group"):
        assert count("plain", norm=norm) == bare + norms
        assert count("wrn", norm=norm) == bare + norms + projections
    assert count("plain", norm="none") == bare + 3 * n
    assert count("wrn", norm="none") == bare + projections + 3 * n
    assert count("wrn", norm="none", activation="beta_swish") == bare + projections + 3 * n + 6 * n + 1


@pytest.mark.parametrize("name", ["wrn", "plain"])
@pytest.mark.parametrize(("depth", "width"), [(16, 4), (28, 10), (100, 2), (202, 4), (1000, 2)])
def test_the_networks_of_the_papers_can_be_built(name, depth, width):
    """De & Smith's 16-4, 100-2 and 1000-2, MetaInit's 28-10 and 202-4; in closed form as above, with batch norm."""
    with torch.device("meta"):
        found = parameter_count(create_model(name, depth=depth, width=width))
    n, k = (depth - 4) // 6, width
    convolutions = 9 * (16 * 16 * k + 16 * 32 * k * k + 32 * 64 * k * k + (2 * n - 1) * 5376 * k * k)
    norms = 2 * (n * 112 * k + (16 + 48 * k + (n - 1) * 112 * k) + 64 * k)
    projections = 16 * 16 * k + 2560 * k * k if name == "wrn" else 0
    assert found == 9 * 16 * 3 + convolutions + norms + projections + 64 * k * 10 + 10


@pytest.mark.slow
def test_a_thousand_layers_are_built_and_read():
    """Every block is found; it takes seconds, not minutes."""
    model = create_model("wrn", depth=1000, width=2, norm="none", scheme="skipinit", input_shape=(3, 8, 8))
    assert sum(isinstance(m, ScalarMultiplier) for m in model.modules()) == 3 * 166
    with torch.no_grad():
        assert model(torch.zeros(1, 3, 8, 8)).isfinite().all()


_STEP = """
import resource
import torch
from initbench.architectures.create import create_model

model = create_model("wrn", depth=1000, width=2, norm="batch", input_shape=(3, 32, 32), num_classes=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch.nn.functional.cross_entropy(model(torch.randn(32, 3, 32, 32)), torch.randint(10, (32,))).backward()
optimizer.step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_a_thousand_layers_take_a_training_step_in_less_than_8_gb():
    """Of 32 images of CIFAR's size; 6.3 GB were measured."""
    result = subprocess.run([sys.executable, "-c", _STEP], capture_output=True, text=True, check=True)
    assert float(result.stdout) < 8e9


def test_one_multiplier_at_one_ends_each_block_where_there_is_no_norm():
    multipliers = [
        m for m in create_model("plain", depth=28, width=1, norm="none").modules() if isinstance(m, ScalarMultiplier)
    ]
    assert [m.scale.tolist() for m in multipliers] == [[1.0]] * 12  # every two layers of 24
    assert not [m for m in create_model("plain", depth=28, width=1).modules() if isinstance(m, ScalarMultiplier)]


@pytest.mark.parametrize("name", ["wrn", "plain"])
@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_no_convolution_has_a_bias(name, norm):
    convolutions = [m for m in create_model(name, depth=10, width=2, norm=norm).modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 1 + 6 + (3 if name == "wrn" else 0)
    assert all(m.bias is None for m in convolutions)


def test_plain_and_wrn_name_what_they_share_alike():
    plain, wrn = (dict(create_model(name, depth=16, width=2).named_parameters()) for name in ("plain", "wrn"))
    assert set(wrn) - set(plain) == {f"groups.{group}.0.projection.weight" for group in range(3)}
    assert not set(plain) - set(wrn)


def test_dropout_stands_between_the_two_convolutions():
    torch.manual_seed(0)
    block = Block(4, 4, 1, WideStyle(residual=False, norm="none", activation="linear", dropout=0.25))
    inputs = {}
    for name in ("conv1", "conv2"):
        getattr(block, name).register_forward_pre_hook(lambda _, x, name=name: inputs.update({name: x[0]}))
    x = torch.randn(16, 4, 8, 8)
    block(x)
    hidden, kept = block.conv1(x), inputs["conv2"] != 0
    assert torch.equal(inputs["conv1"], x)
    torch.testing.assert_close(inputs["conv2"][kept], hidden[kept] / 0.75)
    assert abs(kept.float().mean() - 0.75) < 0.03  # 4,096 draws: 4 standard deviations


@pytest.mark.parametrize(("depth", "rates"), [(10, [0.2, 0.4, 0.6]), (16, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])])
def test_drop_path_rises_linearly_to_the_last_block(depth, rates):
    # Huang et al., 2016, equation (4): p_l = 1 − l/L (1 − p_L), with p_L = 1 − 0.6.
    model = create_model("wrn", depth=depth, width=1, drop_path=0.6)
    assert [m.rate for m in model.modules() if isinstance(m, DropPath)] == pytest.approx(rates, rel=1e-12)


def test_without_drop_path_and_at_evaluation_the_network_is_the_same():
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    dropping, whole = (create_model("wrn", depth=16, width=1, norm="none", drop_path=rate) for rate in (0.9, 0.0))
    assert [n for n, _ in dropping.named_parameters()] == [n for n, _ in whole.named_parameters()]
    assert torch.equal(dropping.eval()(x), whole(x))
    assert not [m for m in whole.modules() if isinstance(m, DropPath)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_drop_path_draws_as_torchvision(dtype):
    x = torch.randn(64, 3, 2, 2).to(dtype)
    outputs = []
    for layer in (DropPath(0.3), StochasticDepth(0.3, "row")):
        torch.manual_seed(0)
        outputs.append(layer(x))
    assert torch.equal(*outputs)
    assert torch.equal(DropPath(0.3).eval()(x), x)


@pytest.mark.parametrize("out_channels", [4, 6])
def test_a_dropped_branch_leaves_the_skip_and_the_mean_is_the_whole_block(out_channels):
    torch.manual_seed(0)
    block = Block(4, out_channels, 1, WideStyle(norm="none", activation="swish"), drop_path=0.25).double()
    x = torch.randn(1, 4, 5, 5, dtype=torch.float64).expand(2048, -1, -1, -1)
    with torch.no_grad():
        whole = block.eval()(x[:1])
        skip = x[:1] if out_channels == 4 else block.projection(block.activation1(x[:1]))
        outputs = block.train()(x)
    # A sum of 0 or of branch / 0.75 and the skip: rounding alone lies between the copies of one sample.
    dropped = ((outputs - skip).abs() < 1e-12).flatten(1).all(1)
    if out_channels == 4:
        assert torch.equal(outputs[dropped], x[dropped])
    kept = outputs[~dropped]
    torch.testing.assert_close(kept, (skip + (whole - skip) / 0.75).expand_as(kept), rtol=1e-12, atol=1e-12)
    assert abs(dropped.double().mean() - 0.25) < 0.039  # 4 standard deviations, √(0.25 · 0.75 / 2048) each
    # The mean over draws is skip + share kept / 0.75 · branch, so the same 4 standard deviations over 0.75.
    torch.testing.assert_close((outputs - skip).mean(0), (whole - skip)[0], rtol=0.052, atol=1e-12)


def test_plain_networks_have_no_branch_to_drop():
    with pytest.raises(ArgumentError) as refusal:
        create_model("plain", depth=10, width=1, drop_path=0.1)
    assert refusal.value.argument == "drop_path"


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_impossible_drop_path_rates_are_refused_by_name(rate):
    with pytest.raises(ArgumentError) as refusal:
        create_model("wrn", depth=10, width=1, drop_path=rate)
    assert str(refusal.value) == f"drop_path must be at least 0 and less than 1, got {rate}"
    assert refusal.value.argument == "drop_path"


def test_beta_swish_is_half_the_input_at_zero_and_swish_at_one():
    x = torch.randn(100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = BetaSwish().double()
    assert torch.equal(layer(x), x / 2)
    # d/dβ x·sigmoid(βx) = x²·sigmoid'(0) = x² / 4 at β = 0.
    (gradient,) = torch.autograd.grad(layer(x).sum(), layer.beta)
    torch.testing.assert_close(gradient, (x**2).sum().reshape(1) / 4)
    layer.beta.data.fill_(1.0)
    torch.testing.assert_close(layer(x), functional.silu(x))


def test_every_beta_swish_layer_has_a_beta_of_its_own():
    model = create_model("plain", depth=28, width=1, activation="beta_swish")
    assert len({id(m.beta) for m in model.modules() if isinstance(m, BetaSwish)}) == 25  # 2 per block, and the last


@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 5, 7), (3, 32, 32), (2, 33, 8)])
@pytest.mark.parametrize("name", ["wrn", "plain"])
def test_any_input_size(name, shape):
    model = create_model(name, depth=10, width=1, input_shape=shape, num_classes=6)
    assert model(torch.zeros(2, *shape)).shape == (2, 6)


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
@pytest.mark.parametrize("name", ["wrn", "plain"])
def test_channels_last_changes_nothing_but_the_layout(name, norm):
    model = build(name, depth=10, width=2, norm=norm, activation="beta_swish", input_shape=(3, 8, 8))
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = model(x)
    model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x.to(memory_format=torch.channels_last)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 27}, "depth must be 6n + 4 (10, 16, 22, 28, ...), got 27"),
        ({"depth": 4}, "depth must be 6n + 4 (10, 16, 22, 28, ...), got 4"),
        ({"depth": -2}, "depth must be 6n + 4 (10, 16, 22, 28, ...), got -2"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and less than 1, got 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and less than 1, got -0.1"),
    ],
)
@pytest.mark.parametrize("name", ["wrn", "plain"])
def test_impossible_arguments_are_refused_by_name(name, arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model(name, **arguments)
    assert str(refusal.value) == message
    assert refusal.value.argument == next(iter(arguments))
