"""Fixup: its rules, and what its paper and its authors' code promise of them."""

from __future__ import annotations

import math

import pytest
import torch
from branches import residual_branches
from cases import batch
from torch import nn
from torch.nn.functional import cross_entropy

import initbench
from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize


def network(name="resnet", depth=20, shape=(3, 8, 8), **arguments):
    options = {"width": 1, "norm": "none", "scheme": "fixup", "input_shape": shape} | arguments
    return create_model(name, depth=depth, **options)


@pytest.mark.parametrize(("name", "depth"), [("resnet", 20), ("wrn", 16)])
def test_the_loss_is_ln_c_and_the_classifier_alone_has_a_gradient(name, depth):
    """Rule 1; one unit in the last place for the rounding of log and exp."""
    model = network(name, depth)
    initialize(model, "fixup")
    inputs, targets = batch((8, 3, 8, 8), dtype=torch.float32)
    logits = model(inputs)
    assert logits.eq(0).all()
    loss = cross_entropy(logits, targets)
    expected = torch.tensor(math.log(10))
    assert abs(loss - expected) <= torch.nextafter(expected, torch.tensor(math.inf)) - expected
    loss.backward()
    assert {n for n, p in model.named_parameters() if p.grad.abs().max() > 0} == {
        "classifier.weight",
        "classifier.bias",
    }


def test_a_block_is_the_activation_of_its_input_bitwise():
    model = network(depth=20)
    initialize(model, "fixup")
    x = torch.randn(4, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.groups[0][0](x), x.relu())


@pytest.mark.parametrize(
    ("block", "depth", "branches", "power"),
    [("basic", 20, 9, -1 / 2), ("basic", 110, 54, -1 / 2), ("bottleneck", 29, 9, -1 / 4)],
)
def test_rule_2(block, depth, branches, power):
    """Kaiming's deviation times L^(-1/(2m-2)), m = 2 and 3, and 0 at the branches' ends."""
    model = network(depth=depth, block=block, width=2)
    record = initialize(model, "fixup")
    assert record.conditions["residual_branches"] == branches == len(residual_branches(model))
    for branch in residual_branches(model):
        assert all(model.get_submodule(end).weight.eq(0).all() for end in branch.ends)
        for layer in map(model.get_submodule, branch.inner):
            fan_out = layer.weight.shape[0] * layer.weight[0, 0].numel()
            ratio = layer.weight.std().item() / (math.sqrt(2 / fan_out) * branches**power)
            # The deviation of n normal numbers has a relative error of 1 / √(2n); 5 of them.
            assert abs(ratio - 1) < 5 / math.sqrt(2 * layer.weight.numel())
    assert abs(model.stem.weight.std().item() / math.sqrt(2 / (16 * 9)) - 1) < 5 / math.sqrt(
        2 * model.stem.weight.numel()
    )
    assert model.classifier.weight.eq(0).all()


def test_fan_in_and_the_scalars():
    model = network(depth=8, width=4)
    for parameter in model.parameters():
        nn.init.constant_(parameter, 7.0)
    initialize(model, "fixup", mode="fan_in")
    first = model.get_submodule(residual_branches(model)[1].inner[0])
    fan_in = first.weight.shape[1] * 9
    assert first.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in) * 3**-0.5, rel=0.05)
    assert all(m.bias.item() == 0 for m in model.modules() if isinstance(m, ScalarBias))
    assert all(m.scale.item() == 1 for m in model.modules() if isinstance(m, ScalarMultiplier))
    assert model.classifier.bias.eq(0).all()


def test_the_first_steps_change_the_function_as_much_at_any_depth():
    """Its title's promise: η of change per step whatever the depth; untouched residual networks explode."""
    changes = {}
    inputs, targets = batch((16, 3, 4, 4), dtype=torch.float32)
    for depth in (20, 110):
        model = network(depth=depth, shape=(3, 4, 4))
        record = initialize(model, "fixup")
        optimizer = torch.optim.SGD(record.parameter_groups(0.1), lr=0.1)
        for _ in range(3):
            before = model(inputs)
            optimizer.zero_grad()
            cross_entropy(before, targets).backward()
            optimizer.step()
            with torch.no_grad():
                changes.setdefault(depth, []).append((model(inputs) - before).square().mean().sqrt().item())
    # In the first step only the classifier learns, from features that are those of the first layer at any depth.
    assert changes[110][0] == pytest.approx(changes[20][0], rel=1e-5)
    for step in range(3):
        values = [changes[depth][step] for depth in changes]
        assert max(values) < 1.5 * min(values)
        assert max(values) < 0.5


def test_without_it_the_gradient_grows_with_depth():
    """By 3 to 100 million times over three seeds, from 20 layers of Kaiming's weights to 110, without normalization."""
    norms = []
    inputs, targets = batch((8, 3, 16, 16), dtype=torch.float32)
    for depth in (20, 110):
        model = network(depth=depth, scheme="standard", shape=(3, 16, 16))
        initialize(model, "kaiming", mode="fan_out")
        cross_entropy(model(inputs), targets).backward()
        norms.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm())
    assert norms[1] > 1e5 * norms[0]


def test_biases_and_multipliers_learn_at_a_tenth():
    """Of the authors' code, the classifier's bias among them."""
    model = network(depth=8)
    groups = initialize(model, "fixup").parameter_groups(0.1)
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        slow = name.rpartition(".")[2] in {"bias", "scale"}
        assert rates[id(parameter)] == pytest.approx(0.01 if slow else 0.1), name
    assert model.classifier.bias.numel() == 10
    groups = initialize(network(depth=8), "fixup", scalar_learning_rate=1.0).parameter_groups(0.1)
    assert [group["lr"] for group in groups] == [0.1]


@pytest.mark.filterwarnings("ignore:fixup passes over 2 of 6 weights")
def test_the_bias_of_an_attention_learns_at_a_tenth():
    """The authors' code takes every parameter with "bias" in its name."""

    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)
            self.recurrent, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, tokens):
            tokens = tokens + self.last(self.attention(tokens, tokens, tokens)[0])
            return self.head(self.recurrent(tokens)[0].mean(1))

    model = initbench.rewrite(Attending(), "fixup", inputs=torch.zeros(1, 4, 8))
    groups = initialize(model, "fixup", inputs=torch.zeros(1, 4, 8)).parameter_groups(0.1)
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    slow = {name for name, p in model.named_parameters() if rates[id(p)] < 0.05}
    assert {"attention.in_proj_bias", "recurrent.bias_ih_l0"} <= slow
    assert "attention.in_proj_weight" not in slow


def test_nonzero_is_a_start_for_tuners():
    model = network(depth=8)
    initialize(model, "fixup", nonzero=True)
    assert all(p.abs().max() > 0 for p in model.parameters() if p.dim() > 1)
    branch = residual_branches(model)[0]
    first, last = (model.get_submodule(name) for name in branch.inner + branch.ends)
    assert (last.weight.std() / first.weight.std()).item() == pytest.approx(math.sqrt(3), rel=0.1)
    base = {"name": "fixup", "nonzero": True}
    record = initialize(network(depth=8), "metainit", base=base, steps=2, input_shape=(4, 3, 8, 8), num_classes=10)
    assert set(record.learning_rate_multipliers.values()) == {0.1}
    with pytest.raises(InitializationError, match=r"metainit: .* has norm 0"):
        initialize(network(depth=8), "metainit", base="fixup", steps=2, input_shape=(4, 3, 8, 8), num_classes=10)


def test_what_it_refuses():
    with pytest.raises(InitializationError, match=r"^fixup: no residual branches are found in Linear$"):
        initialize(nn.Linear(3, 3), "fixup")
    with pytest.raises(ArgumentError) as caught:
        initialize(network(depth=8), "fixup", scalar_learning_rate=0.0)
    assert caught.value.argument == "scalar_learning_rate"
