"""SkipInit: the identity at first, and a signal whose variance does not depend on the depth."""

from __future__ import annotations

import math

import pytest
import torch
from branches import residual_branches
from cases import batch
from torch import nn
from torch.nn.functional import cross_entropy

from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarMultiplier
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize


def network(name="wrn", depth=16, **arguments):
    options = {"width": 1, "norm": "none", "scheme": "skipinit", "input_shape": (3, 8, 8)} | arguments
    return create_model(name, depth=depth, **options)


def test_residual_blocks_are_the_identity_bitwise():
    model = network()
    initialize(model, "skipinit")
    x = torch.randn(4, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.groups[0][1](x), x)


@pytest.mark.parametrize(("name", "depth"), [("wrn", 16), ("resnet", 14)])
def test_of_a_branch_the_gate_alone_has_a_gradient(name, depth):
    model = network(name, depth)
    initialize(model, "skipinit")
    inputs, targets = batch((8, 3, 8, 8), dtype=torch.float32)
    cross_entropy(model(inputs), targets).backward()
    for branch in residual_branches(model):
        assert model.get_parameter(branch.gates[0]).grad.abs() > 0
        for layer in map(model.get_submodule, (*branch.inner, *branch.ends)):
            assert layer.weight.grad.eq(0).all()
            assert layer.bias.grad.eq(0).all()


class Blocks(nn.Module):
    """d residual blocks x + α·f(x) of width n, f(x) = W·ReLU(x), which keeps the variance of a symmetric input."""

    def __init__(self, depth, width, alpha):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.alpha = alpha

    def forward(self, x):
        for layer in self.layers:
            x = x + self.alpha * layer(x.relu())
        return x


@pytest.mark.parametrize(("depth", "tolerance"), [(50, 0.4), (500, 0.4)])
def test_one_over_the_root_of_the_depth_keeps_the_variance_below_e(depth, tolerance):
    """(1 + 1/d)^d < e in the mean over weights; 1 grows as 2^d. `tolerance` is for the width of 128."""
    model = network(depth=6 * 4 + 4)
    record = initialize(model, "skipinit", alpha="1/sqrt(d)")
    assert record.conditions["alpha"] == 1 / math.sqrt(12)
    ratios = {}
    for alpha in (1 / math.sqrt(depth), 1.0):
        blocks = Blocks(depth, 128, alpha).double()
        initialize(blocks, "kaiming")
        x = batch((64, 128))[0]
        with torch.no_grad():
            ratios[alpha] = (blocks(x).var() / x.var()).item()
    assert ratios[1 / math.sqrt(depth)] <= math.e * (1 + tolerance)
    assert not ratios[1.0] < 2 ** (depth / 2)  # it overflows to nan at 500


@pytest.mark.slow
def test_the_gates_of_a_deep_network_keep_the_variance_of_its_features():
    """On the architecture itself: 300 branches, whose shortcuts are identities within a group."""
    features = {}
    for alpha in (0.0, "1/sqrt(d)"):
        model = network(depth=6 * 100 + 4, input_shape=(3, 4, 4)).double()
        initialize(model, "skipinit", alpha=alpha)
        assert len(residual_branches(model, (3, 4, 4))) == 300
        group, x = model.groups[0][1:], batch((4, 16, 4, 4))[0]
        with torch.no_grad():
            features[alpha] = (group(x).var() / x.var()).item()
    assert features[0.0] == 1.0
    # A third of the branches, e^(1/3) at most in the mean, and 16 channels of 3×3 kernels whose borders lose energy.
    assert 0.5 < features["1/sqrt(d)"] < math.e


def test_constants_and_the_rest():
    model = network()
    for parameter in model.parameters():
        nn.init.constant_(parameter, 7.0)
    initialize(model, "skipinit", alpha=0.2)
    assert all(m.scale.item() == pytest.approx(0.2) for m in model.modules() if isinstance(m, ScalarMultiplier))
    layer = model.get_submodule(residual_branches(model)[-1].inner[0])
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.02)
    assert all(p.eq(0).all() for n, p in model.named_parameters() if n.endswith("bias"))


def test_a_model_without_gates_is_refused():
    with pytest.raises(InitializationError, match=r"^skipinit: no residual branches are found in Linear$"):
        initialize(nn.Linear(3, 3), "skipinit")
    message = (
        r"^skipinit: the residual branch of groups\.0\.0 ends in no scalar multiplier; "
        r"initbench\.rewrite\(model, 'skipinit'\) puts one there$"
    )
    with pytest.raises(InitializationError, match=message):
        initialize(create_model("resnet", depth=8), "skipinit")
