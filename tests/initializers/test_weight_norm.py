"""Initialization of weight-normalized networks: energies that neither vanish nor explode."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from branches import residual_branches
from cases import batch
from recorded import drawn
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from transformers import AutoConfig, AutoModelForCausalLM

from initbench.architectures.create import create_model
from initbench.architectures.rewrite import rewrite
from initbench.errors import InitializationError
from initbench.initializers.branches import stages
from initbench.initializers.initialize import initialize


def gains(module):
    return module.parametrizations.weight.original0.flatten()


def chain(widths):
    layers = [weight_norm(nn.Linear(a, b)) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*(m for layer in layers for m in (layer, nn.ReLU()))).double()


def test_the_gains_by_hand():
    for name, value in (("forward", math.sqrt(2 * 12 / 8)), ("backward", math.sqrt(2))):
        model = chain([12, 8, 8])
        initialize(model, "weight_norm", gain=name)
        assert gains(model[0]).tolist() == pytest.approx([value] * 8, rel=1e-12)
        assert gains(model[2]).tolist() == pytest.approx([math.sqrt(2)] * 8, rel=1e-12)
        assert model[0].weight.norm(dim=1).tolist() == pytest.approx([value] * 8, rel=1e-12)
        assert model[0].bias.eq(0).all()


def test_channels_are_counted_and_not_taps():
    model = nn.Sequential(weight_norm(nn.Conv2d(6, 4, 3, groups=2)))
    initialize(model, "weight_norm")
    assert gains(model[0]).tolist() == pytest.approx([math.sqrt(2 * 3 / 2)] * 4)


def test_orthogonal_directions_and_pytorchs_gain():
    model = chain([12, 8])
    initialize(model, "weight_norm", gain="pytorch")
    assert torch.allclose(model[0].weight @ model[0].weight.T, torch.eye(8).double(), atol=1e-12)
    model = chain([300, 200])
    initialize(model, "weight_norm", gain="pytorch", direction="normal")
    v = model[0].parametrizations.weight.original1
    assert torch.allclose(gains(model[0]), v.norm(dim=1))
    assert v.std().item() == pytest.approx(1 / math.sqrt(300), rel=0.02)


def energies(layers, widths, gain, scale=None, seed=0):
    """‖h‖² and ‖∂/∂x‖² after ReLU layers of alternating width, over what went in."""
    model = chain(list(itertools.islice(itertools.cycle(widths), layers + 1)))
    initialize(model, "weight_norm", gain=gain, seed=seed)
    if scale is not None:
        for layer in model[::2]:
            nn.init.constant_(layer.parametrizations.weight.original0, scale)
    x = batch((32, widths[0]), seed=seed)[0].requires_grad_()
    output = model(x)
    cotangent = batch(output.shape, seed=seed + 1)[0]
    (gradient,) = torch.autograd.grad(output, x, cotangent)
    return (
        (output.square().sum() / x.square().sum()).item(),
        (gradient.square().sum() / cotangent.square().sum()).item(),
    )


@pytest.mark.parametrize(("gain", "expected"), [("forward", (1.0, 100 / 60)), ("backward", (60 / 100, 1.0))])
def test_what_each_gain_keeps_in_the_mean_over_draws(gain, expected):
    """E‖h‖² = ‖x‖² (Theorem 1) or E‖∂/∂x‖² = ‖∂/∂h‖² (Theorem 2), and the other changes by the ratio of the widths."""
    ratios = torch.tensor([energies(5, (100, 60), gain, seed=seed) for seed in range(40)])
    error = ratios.std(0) / math.sqrt(len(ratios))
    assert error.max() < 0.07  # so that four of them tell 1 from 60 / 100
    assert ((ratios.mean(0) - torch.tensor(expected)).abs() < 4 * error).all()


@pytest.mark.slow
def test_100_layers():
    """500 and 300 wide in turn: .53 and 1.29 in one draw of the authors' gains, against 1e-31 for gains of 1."""
    ratios = torch.tensor([energies(100, (500, 300), "forward", seed=seed) for seed in range(4)])
    # The logarithm of one draw has a deviation of 1.0 forward and .5 backward, over ten seeds; three errors of four.
    mean = ratios.log().mean(0).abs()
    assert mean[0] < 1.5
    assert mean[1] < 0.75
    # Over two layers the gains of both kinds have the same product, and a ReLU scales with its input.
    assert energies(100, (500, 300), "backward") == pytest.approx(ratios[0].tolist(), rel=1e-4)
    # Each ReLU halves the energy, and a gain of 1 makes nothing up for it.
    unit = energies(100, (500, 300), "forward", scale=1.0)
    assert unit == pytest.approx((ratios[0] * 2.0**-100).tolist(), rel=1e-4)


class Branch(nn.Module):
    """x + W2·ReLU(W1·x), as in section 3.2 of the paper."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = weight_norm(nn.Linear(width, width)), weight_norm(nn.Linear(width, width))

    def forward(self, x):
        return x + self.second(self.first(x).relu())


def growth(blocks, gain="forward"):
    model = nn.Sequential(*(Branch(64) for _ in range(blocks))).double()
    initialize(model, "weight_norm", gain=gain)
    x = batch((16, 64))[0]
    with torch.no_grad():
        return (model(x).square().sum() / x.square().sum()).item()


@pytest.mark.parametrize("blocks", [10, 100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_stage_multiplies_the_energy_by_at_most_e(blocks):
    """(1 + 1/B)^B, Theorem 3; ± 30 % for a width of 64."""
    assert growth(blocks) == pytest.approx((1 + 1 / blocks) ** blocks, rel=0.3)


@pytest.mark.parametrize("depth", [62, pytest.param(60_002, marks=pytest.mark.slow)])
def test_a_resnet_keeps_its_activations_at_10_and_10_000_blocks_per_stage(depth):
    """No stage multiplies the mean square by more than e (Theorem 3), whatever its depth, and no signal dies out."""
    model = create_model("resnet", depth=depth, norm="none", scheme="weight_norm", input_shape=(3, 8, 8)).eval()
    initialize(model, "weight_norm")
    energies, finite = [], []
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(lambda _, __, output: finite.append(bool(output.isfinite().all())))
    for group in model.groups:
        group.register_forward_hook(lambda _, given, output: energies.append((given[0], output)))
    with torch.no_grad():
        logits = model(torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert len(finite) == depth - 1
    assert all(finite)
    assert logits.square().mean() > 1e-3
    ratios = [(output.square().mean() / given.square().mean()).item() for given, output in energies]
    assert len(ratios) == 3
    assert max(ratios) < math.e


def test_hanins_gains_by_hand():
    """(0.9^b)² for the b-th block of a stage: the energy grows by Π(1 + 0.81^b)."""
    expected = math.prod(1 + 0.81**b for b in range(1, 31))
    assert growth(30, "hanin") == pytest.approx(expected, rel=0.3)
    model = create_model("wrn", depth=16, width=2, norm="none", scheme="weight_norm")
    initialize(model, "weight_norm", gain="hanin")
    for group in model.groups:
        for number, block in enumerate(group, start=1):
            assert gains(block.conv2)[0].item() == pytest.approx(0.9**number)


def test_stem_shortcut_and_branches():
    model = create_model("wrn", depth=22, width=2, norm="none", scheme="weight_norm")
    initialize(model, "weight_norm")
    assert gains(model.stem)[0].item() == pytest.approx(math.sqrt(3 / 16))
    first = model.groups[0][0]
    assert gains(first.projection)[0].item() == pytest.approx(math.sqrt(16 / 32))
    assert gains(first.conv1)[0].item() == pytest.approx(math.sqrt(2 * 16 / 32))
    for branch in residual_branches(model):
        assert branch.ends == (f"{branch.block}.conv2",)
        end = model.get_submodule(branch.ends[0])
        assert gains(end)[0].item() == pytest.approx(math.sqrt(1 / 3))  # three blocks to a stage
    assert initialize(model, "weight_norm").tensors["classifier.weight"] == [drawn("orthogonal")]


class Block(nn.Module):
    """The authors' block: x + W2·ReLU(W1·x), with a 1×1 convolution in the shortcut where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = weight_norm(nn.Conv2d(inputs, outputs, 3, stride, 1))
        self.conv2 = weight_norm(nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.shortcut = weight_norm(nn.Conv2d(inputs, outputs, 1, stride)) if stride > 1 else None

    def forward(self, x):
        return self.conv2(self.conv1(x).relu()) + (x if self.shortcut is None else self.shortcut(x))


class Flat(nn.Module):
    """The authors' `ResNet`: a stem and the blocks of three stages in one sequence, mean over positions, classifier."""

    def __init__(self, blocks=3):
        super().__init__()
        sizes = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        rows = [Block(a if i == 0 else b, b, s if i == 0 else 1) for a, b, s in sizes for i in range(blocks)]
        self.backbone = nn.Sequential(weight_norm(nn.Conv2d(3, 16, 3, 1, 1)), *rows)
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        return self.classifier(self.backbone(x).mean((2, 3)))


def test_a_stage_is_a_row_of_branches_of_one_shape():
    """And not a module: all nine blocks stand in one."""
    flat = Flat()
    names = [[branch.block for branch in stage] for stage in stages(flat, residual_branches(flat))]
    assert names == [[f"backbone.{3 * stage + block}" for block in (1, 2, 3)] for stage in range(3)]
    # A stage may begin with a smaller image of as many channels.
    same = nn.Sequential(*(Block(8, 8, stride) for stride in (1, 1, 2, 1, 1)))
    assert [len(stage) for stage in stages(same, residual_branches(same, (8, 8, 8)))] == [2, 3]
    ours = create_model("wrn", depth=22, width=1, norm="none", scheme="weight_norm")
    assert [len(stage) for stage in stages(ours, residual_branches(ours))] == [3, 3, 3]


# Gains of the authors' networks, made by their code, github.com/victorcampos7/weightnorm-init at
# d57a84e4ffead95348b74e90e3c763b33240c2c9: those of src/models/nets.py, of which each layer has one gain throughout.
# `WideResNet((32, 32, 3), 2, 10, True, False, "orthogonal_proposed", k=2)`, in its own names, ours beside them,
AUTHORS_WRN_16_2 = {
    "conv1": ("stem", 0.4330126941204071),
    "conv2.0.conv1": ("groups.0.0.conv1", 1.0),
    "conv2.0.conv2": ("groups.0.0.conv2", 0.7071067690849304),
    "conv2.0.shortcut": ("groups.0.0.projection", 0.7071067690849304),
    "conv2.1.conv1": ("groups.0.1.conv1", 1.4142135381698608),
    "conv2.1.conv2": ("groups.0.1.conv2", 0.7071067690849304),
    "conv3.0.conv1": ("groups.1.0.conv1", 1.0),
    "conv3.0.conv2": ("groups.1.0.conv2", 0.7071067690849304),
    "conv3.0.shortcut": ("groups.1.0.projection", 0.7071067690849304),
    "conv3.1.conv1": ("groups.1.1.conv1", 1.4142135381698608),
    "conv3.1.conv2": ("groups.1.1.conv2", 0.7071067690849304),
    "conv4.0.conv1": ("groups.2.0.conv1", 1.0),
    "conv4.0.conv2": ("groups.2.0.conv2", 0.7071067690849304),
    "conv4.0.shortcut": ("groups.2.0.projection", 0.7071067690849304),
    "conv4.1.conv1": ("groups.2.1.conv1", 1.4142135381698608),
    "conv4.1.conv2": ("groups.2.1.conv2", 0.7071067690849304),
}
# and `ResNet((32, 32, 3), 16, 3, 10, True, False, "orthogonal_proposed")`, conv1, conv2 and shortcut of each block.
AUTHORS_FLAT_STEM = 0.6123724579811096
AUTHORS_FLAT = [
    (1.4142135381698608, 0.5773502588272095, None),
    (1.4142135381698608, 0.5773502588272095, None),
    (1.4142135381698608, 0.5773502588272095, None),
    (1.0, 0.5773502588272095, 0.7071067690849304),
    (1.4142135381698608, 0.5773502588272095, None),
    (1.4142135381698608, 0.5773502588272095, None),
    (1.0, 0.5773502588272095, 0.7071067690849304),
    (1.4142135381698608, 0.5773502588272095, None),
    (1.4142135381698608, 0.5773502588272095, None),
]


# The same networks with `init_extra_param="hanin"` have other gains in the second convolution of each block alone, by
# the block's place in its stage.
AUTHORS_HANIN = [0.8999999761581421, 0.8100000023841858, 0.7289999723434448]
# `MLP((28, 28, 1), 512, 3, 10, True, "orthogonal_proposed")` and the same of `CNN((32, 32, 3), 64, 4, ...)`.
AUTHORS_PLAIN = {
    (784, 512, 512, 512): [1.75, 1.4142135381698608, 1.4142135381698608],
    (3, 64, 64, 64, 64): [0.3061862289905548, 1.4142135381698608, 1.4142135381698608, 1.4142135381698608],
}


def test_the_gains_of_the_authors_wide_residual_network():
    model = create_model("wrn", depth=16, width=2, norm="none", scheme="weight_norm")
    initialize(model, "weight_norm")
    for ours, value in AUTHORS_WRN_16_2.values():
        found = gains(model.get_submodule(ours))
        assert found.tolist() == pytest.approx([value] * len(found), rel=1e-6)
    initialize(model, "weight_norm", gain="hanin")
    for theirs, (name, value) in AUTHORS_WRN_16_2.items():
        expected = AUTHORS_HANIN[int(theirs.split(".")[1])] if theirs.endswith("conv2") else value
        assert gains(model.get_submodule(name))[0].item() == pytest.approx(expected, rel=1e-6)


def test_the_gains_of_the_authors_flat_residual_network():
    """Its blocks all stand in one module, and its stem has κ = 2, which is 1 in their wide one."""
    model = Flat()
    initialize(model, "weight_norm", stem=2.0)
    assert gains(model.backbone[0])[0].item() == pytest.approx(AUTHORS_FLAT_STEM, rel=1e-6)
    for block, (first, last, shortcut) in zip(model.backbone[1:], AUTHORS_FLAT, strict=True):
        assert gains(block.conv1)[0].item() == pytest.approx(first, rel=1e-6)
        assert gains(block.conv2)[0].item() == pytest.approx(last, rel=1e-6)
        assert (block.shortcut is None) == (shortcut is None)
        if shortcut is not None:
            assert gains(block.shortcut)[0].item() == pytest.approx(shortcut, rel=1e-6)
    initialize(model, "weight_norm")
    assert gains(model.backbone[0])[0].item() == pytest.approx(AUTHORS_FLAT_STEM / math.sqrt(2), rel=1e-6)
    initialize(model, "weight_norm", gain="hanin")
    found = [gains(block.conv2)[0].item() for block in model.backbone[1:]]
    assert found == pytest.approx(AUTHORS_HANIN * 3, rel=1e-6)


@pytest.mark.parametrize("convolutions", [False, True])
def test_the_gains_of_the_authors_networks_without_branches(convolutions):
    for widths, expected in AUTHORS_PLAIN.items():
        pairs = itertools.pairwise(widths)
        layers = [weight_norm(nn.Conv2d(a, b, 3) if convolutions else nn.Linear(a, b)) for a, b in pairs]
        model = nn.Sequential(*layers)
        initialize(model, "weight_norm", direction="normal")
        assert [gains(layer)[0].item() for layer in model] == pytest.approx(expected, rel=1e-6)


def test_a_model_without_weight_normalization_is_refused():
    with pytest.raises(InitializationError, match="weight_norm: the model has no weight-normalized layers"):
        initialize(nn.Linear(3, 3), "weight_norm")


@pytest.mark.filterwarnings("ignore:weight_norm passes over")
def test_a_mixture_of_experts_has_branches_without_a_module_of_their_own():
    """Its experts' weights are bare parameters, not normalized; the attentions share one stage with them."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
    configuration = AutoConfig.for_model("mixtral", vocab_size=11, intermediate_size=8, num_local_experts=2, **sizes)
    text = torch.arange(6)[None]
    model = rewrite(AutoModelForCausalLM.from_config(configuration), "weight_norm", inputs=text)
    initialize(model, "weight_norm", inputs=text, num_classes=11, task="language_modelling")
    for layer in model.model.layers:
        gains = layer.self_attn.o_proj.parametrizations.weight.original0
        torch.testing.assert_close(gains, torch.full((8, 1), math.sqrt(1 / 4)))  # of four branches in one stage
