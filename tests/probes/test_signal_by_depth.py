"""`signal_by_depth` against networks written out by hand in float64, and the laws of the papers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import Attention, randomize, small
from torch import nn
from torch.nn.functional import cross_entropy

from initbench.architectures.create import create_model
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.registry import PROBES

IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10)
VECTORS = ProbeContext(seed=3, inputs=Inputs((64,)), outputs=64)


def measure(model, context=IMAGES, **arguments):
    measured = PROBES.get("signal_by_depth").build({"data": "random"} | arguments)(model, context)
    return {name: layers.values for name, layers in measured.items()}


def slope(places, values):
    return float(np.polyfit(places, values, 1)[0])


def test_layers_by_hand():
    model = randomize(nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.ReLU(inplace=True), nn.Linear(7, 10)))
    found = measure(model, batch_size=16, batches=2)
    outputs, inputs, gradients = ({"1": [], "3": []} for _ in range(3))
    for x, y in IMAGES.batches("random", 16, 2):
        h0 = x.double().flatten(1)
        a1 = (h0 @ model[1].weight.T + model[1].bias).detach().requires_grad_()
        h1 = a1.clamp(min=0)
        a2 = h1 @ model[3].weight.T + model[3].bias
        a2.retain_grad()
        cross_entropy(a2, y).backward()
        for name, values in (("1", (a1, h0, a1.grad)), ("3", (a2, h1, a2.grad))):
            for kind, value in zip((outputs, inputs, gradients), values, strict=True):
                kind[name].append(value.detach())
    wide = [{name: torch.stack(values) for name, values in kind.items()} for kind in (outputs, inputs, gradients)]
    assert found["mean_square"] == pytest.approx({n: float(v.square().mean()) for n, v in wide[0].items()}, rel=1e-12)
    deviations = {name: float(value.std(correction=0)) for name, value in wide[0].items()}
    assert found["standard_deviation"] == pytest.approx(deviations, rel=1e-12)
    norms = {name: float(value.square().sum(2).mean()) for name, value in wide[1].items()}
    assert found["squared_norm_ratio"] == pytest.approx({"1": 1.0, "3": norms["3"] / norms["1"]}, rel=1e-12)
    squares = {name: float(value.square().mean()) for name, value in wide[2].items()}
    assert found["gradient_mean_square"] == pytest.approx(squares, rel=1e-12)
    assert set(found) == {"mean_square", "standard_deviation", "squared_norm_ratio", "gradient_mean_square"}


@pytest.mark.parametrize(("initializer", "halvings"), [("xavier", 1), ("kaiming", 0)])
def test_relu_halves_the_signal_of_xavier_in_each_layer_both_ways_and_keeps_that_of_kaiming(initializer, halvings):
    """He et al., ICCV 2015: of width n a layer with Var(w) = 2 / n keeps the mean square, with 1 / n it is halved."""
    model = create_model("mlp", depth=50, width=512, input_shape=(3, 8, 8), num_classes=10)
    initialize(model, initializer, input_shape=(2, 3, 8, 8), num_classes=10)
    found = measure(model, batch_size=32)
    hidden = [name for name in found["mean_square"] if name.startswith("linear")]
    assert len(hidden) == 49
    # A layer's factor has a relative deviation of √(5 / 512) = 10 %, so that a slope over 49 is off by about 0.02.
    places = range(len(hidden))
    forward = slope(places, [math.log2(found["mean_square"][name]) for name in hidden])
    assert forward == pytest.approx(-halvings, abs=0.06)
    backward = slope(places, [math.log2(found["gradient_mean_square"][name]) for name in hidden])
    assert backward == pytest.approx(halvings, abs=0.06)
    norms = [math.log2(found["squared_norm_ratio"][name]) for name in hidden[1:]]
    assert slope(places[1:], norms) == pytest.approx(-halvings, abs=0.06)


class Block(nn.Module):
    """x + BN(W relu(x))."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.norm = nn.BatchNorm1d(width)

    def branch(self, x):
        return self.norm(self.linear(torch.relu(x)))

    def forward(self, x):
        out = self.branch(x)
        out += x  # into the branch, as torchvision's ResNet adds
        return out


def test_both_paths_of_residual_blocks_by_hand():
    """The gradient through each path is that for a copy of the block's input that this path alone is given."""
    model = randomize(nn.Sequential(*(Block(64) for _ in range(4))), 0.2)
    weights = torch.randn(16, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    context = replace(VECTORS, loss_fn=lambda outputs, _: (outputs.tanh() * weights).sum())
    found = measure(model, context, batch_size=16)
    x, expected = next(VECTORS.batches("random", 16, 1))[0].double(), {}
    copies = []
    for block in model:
        one, other = (x.clone().requires_grad_() for _ in range(2))
        one.retain_grad()
        other.retain_grad()
        branch = block.branch(other)
        copies.append((one, other, branch))
        x = one + branch
    (x.tanh() * weights).sum().backward()
    deviations = [[float(t.detach().std(correction=0)) for t in (s, b)] for s, _, b in copies]
    gradients = [(float(s.grad.square().mean().sqrt()), float(o.grad.square().mean().sqrt())) for s, o, _ in copies]
    for index, kind in enumerate(("skip", "branch")):
        expected[f"{kind}_deviation"] = {str(i): pair[index] for i, pair in enumerate(deviations)}
        # The first block is given data, which has no gradient.
        expected[f"{kind}_gradient"] = {str(i): pair[index] for i, pair in enumerate(gradients) if i}
    for name, values in expected.items():
        assert list(found[name]) == list(values)
        assert found[name] == pytest.approx(values, rel=1e-9), name


def test_skip_path_of_normalized_branches_grows_as_the_root_of_depth():
    """Authors' response to the reviews of SkipInit, key point 1."""
    model = create_model("wrn", depth=6 * 40 + 4, width=1, norm="batch", activation="relu", input_shape=(3, 8, 8))
    initialize(model, "kaiming", input_shape=(2, 3, 8, 8), num_classes=10)
    found = measure(model, batch_size=16)
    names = [f"groups.0.{index}" for index in range(1, 40)]  # one stage: downsampling starts the sum anew
    places = np.log(np.arange(2, 41))  # the stem is the first
    assert slope(places, np.log([found["skip_deviation"][name] for name in names])) == pytest.approx(0.5, abs=0.1)
    branches = [found["branch_deviation"][name] for name in names]
    assert max(branches) < 2 * min(branches)
    ratios = [found["branch_gradient"][name] / found["skip_gradient"][name] for name in names[5:]]
    assert slope(places[5:], np.log(ratios)) == pytest.approx(-0.5, abs=0.2)


def test_a_projection_in_the_skip_path():
    """The gradients of both paths are those for the input of the block; together they are the gradient there."""
    model = randomize(small("wrn", norm="batch", activation="relu"), 0.3)
    found = measure(model, batch_size=8)
    assert list(found["skip_gradient"]) == ["groups.0.0", "groups.1.0", "groups.2.0"]
    model.train()
    x, y = next(IMAGES.batches("random", 8, 1))
    block = model.groups[2][0]
    before = model.groups[1](model.groups[0](model.stem(x.double()))).detach()
    skip, branch = before.clone().requires_grad_(), before.clone().requires_grad_()
    activated = [torch.relu(block.norm1(own)) for own in (skip, branch)]
    added = block.conv2(torch.relu(block.norm2(block.conv1(activated[1]))))
    projected = block.projection(activated[0])
    features = torch.relu(model.norm(projected + added)).mean((2, 3))
    cross_entropy(model.classifier(features), y).backward()
    name = "groups.2.0"
    assert found["skip_deviation"][name] == pytest.approx(float(projected.detach().std(correction=0)), rel=1e-10)
    assert found["branch_deviation"][name] == pytest.approx(float(added.detach().std(correction=0)), rel=1e-10)
    assert found["skip_gradient"][name] == pytest.approx(float(skip.grad.square().mean().sqrt()), rel=1e-10)
    assert found["branch_gradient"][name] == pytest.approx(float(branch.grad.square().mean().sqrt()), rel=1e-10)


@pytest.mark.parametrize("scheme", ["fixup", "skipinit"])
def test_branches_that_begin_at_zero(scheme):
    model = create_model("wrn", depth=10, width=1, norm="none", scheme=scheme, input_shape=(3, 8, 8), num_classes=10)
    initialize(model, scheme, input_shape=(2, 3, 8, 8), num_classes=10)
    found = measure(model, batch_size=4)
    blocks = ["groups.0.0", "groups.1.0", "groups.2.0"]
    assert found["branch_deviation"] == dict.fromkeys(blocks, 0.0)
    assert all(found["skip_deviation"][block] > 0 for block in blocks)
    assert found["branch_gradient"] == dict.fromkeys(blocks, 0.0)


def test_two_branches_of_one_block_have_names_of_their_own():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Linear(8, 16), layer, nn.Flatten(), nn.Linear(80, 10)).double()
    context = replace(IMAGES, inputs=Inputs((5, 8)))
    found = measure(model, context, batch_size=4)
    assert list(found["skip_deviation"]) == ["1.dropout1", "1.dropout2"]
    x = model[0](next(context.batches("random", 4, 1))[0].double())
    first = x + layer._sa_block(layer.norm1(x), None, None)
    skips = {f"1.dropout{i}": float(skip.detach().std(correction=0)) for i, skip in ((1, x), (2, first))}
    assert found["skip_deviation"] == pytest.approx(skips, rel=1e-10)


def test_frozen_layers_and_attention_have_values_and_tokens_no_norm():
    model = randomize(small("plain", activation="relu"), 0.3)
    whole = measure(model, batch_size=4)
    for parameter in model.groups.parameters():
        parameter.requires_grad_(False)
    assert measure(model, batch_size=4) == whole
    context = replace(IMAGES, inputs=Inputs((5, 4)), outputs=3)
    found = measure(randomize(Attention()), context, batch_size=4)
    assert list(found["mean_square"]) == list(found["gradient_mean_square"]) == ["attention", "classifier"]
    embedding = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(20, 10))
    found = measure(randomize(embedding), replace(IMAGES, inputs=Inputs((5,), 7)), batch_size=4)
    assert list(found["mean_square"]) == ["0", "2"]
    assert found["squared_norm_ratio"] == {"2": 1.0}


@pytest.mark.parametrize("size", [4, 32])
def test_squared_norms_are_of_samples_whatever_the_first_dimension(size):
    """Positions come first in the middle layer; each sample has as many numbers there as at the other layers."""

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.middle, self.last = (nn.Linear(6, 6, bias=False) for _ in range(3))

        def forward(self, x):
            return self.last(self.middle(self.first(x).transpose(0, 1)).transpose(0, 1)).mean(1)

    model = Turned()
    for layer in model.children():
        nn.init.eye_(layer.weight)
    ratios = measure(model, replace(IMAGES, inputs=Inputs((5, 6)), outputs=6), batch_size=size)["squared_norm_ratio"]
    assert ratios == pytest.approx({"first": 1.0, "middle": 1.0, "last": 1.0})
