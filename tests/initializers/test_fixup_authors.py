"""Fixup against its authors' code: the network, its derivatives and its laws.

The numbers come from their repository, github.com/hongyi-zhang/Fixup at f3fa449fbb8906ccb7143cea822f8b964b3d9258: the
`fixup_resnet20` and `fixup_resnet110` of cifar/models/fixup_resnet_cifar.py in float64, their parameters set as
`set_to_numbers` does under the authors' names, on four images of `numbers` with the classes 0 to 3. What is compared is
the logits of the first image, the sum of all logits times `numbers`, the loss, and for each kind of parameter the
derivative in the direction of `numbers`. The deviations are what their code gave to `nn.init.normal_`.
"""

from __future__ import annotations

import math

import pytest
import torch
from authors import numbers
from authors_fixup import Network, kind, our_name, set_to_numbers
from torch.nn.functional import cross_entropy

from initbench.architectures.create import create_model
from initbench.architectures.rewrite import rewrite
from initbench.initializers.initialize import initialize

AUTHORS = {
    20: {
        "parameters": 268393,
        "std": {16: 0.039283710065919304, 32: 0.027777777777777776, 64: 0.019641855032959652},
        "first logits": [
            0.44994114665505913,
            0.04731110873997653,
            -0.8178592481136785,
            0.5874024485781272,
            0.37140187715124473,
            0.12421088871867496,
            -0.03237160384170043,
            0.5289050069330674,
            0.2834506088925193,
            0.28473082187108956,
        ],
        "logits": 4.141513155036501,
        "loss": 2.4985902383924077,
        "derivatives": {
            "bias1": -0.10497594432069941,
            "bias2": 0.10742478306197593,
            "conv1.weight": -0.362696913822657,
            "block.bias1a": 0.08802195106585656,
            "block.bias1b": 0.04279953916500934,
            "block.bias2a": -0.04582972536248538,
            "block.scale": -0.006092536375079146,
            "block.bias2b": 0.7745043726675707,
            "block.conv1.weight": 0.1711077033742916,
            "block.conv2.weight": -0.4705752719313818,
            "fc.weight": 0.5258671067079581,
            "fc.bias": 0.16475725473146546,
        },
    },
    110: {
        "parameters": 1720138,
        "std": {16: 0.016037507477489603, 32: 0.011340230290662862, 64: 0.008018753738744801},
        "first logits": [
            0.7161276761002487,
            0.3597773167769907,
            -1.7046847540090981,
            1.2229625813993206,
            0.5775046738525719,
            0.22348846076097678,
            0.22111418799734464,
            0.90461552872353,
            0.23706257469376632,
            0.9820248014944339,
        ],
        "logits": 7.652672648384602,
        "loss": 2.7337030652151397,
        "derivatives": {
            "bias1": -0.02994605031279811,
            "bias2": 0.13750089159648768,
            "conv1.weight": -0.1154232140542967,
            "block.bias1a": 0.1300044235408487,
            "block.bias1b": 0.26294586475159065,
            "block.bias2a": 0.02538074610255791,
            "block.scale": 0.0009006244130373347,
            "block.bias2b": 0.1832489720303056,
            "block.conv1.weight": 0.3838941907876081,
            "block.conv2.weight": 0.7527855825604961,
            "fc.weight": 1.140805236610245,
            "fc.bias": 0.16269203850871156,
        },
    },
}


def ours(depth):
    return create_model("resnet", depth=depth, norm="none", scheme="fixup")


def parameters_of(model):
    """Return a network's parameters by the authors' names."""
    if isinstance(model, Network):
        return dict(model.named_parameters())
    depth = 2 + 2 * sum(len(group) for group in model.groups)
    names = {our_name(name): name for name, _ in Network(depth).named_parameters()}
    return {names[name]: parameter for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("make", [ours, Network])
@pytest.mark.parametrize("depth", [20, 110])
def test_logits_loss_and_derivatives(depth, make):
    """Of our own network, and of the one that other tests take for theirs; in float64, to the last digits."""
    expected = AUTHORS[depth]
    model = make(depth).double()
    parameters = parameters_of(model)
    assert sum(parameter.numel() for parameter in parameters.values()) == expected["parameters"]
    set_to_numbers(parameters, depth)
    logits = model(numbers("images", (4, 3, 8, 8)))
    loss = cross_entropy(logits, torch.arange(4))
    loss.backward()
    assert logits[0].tolist() == pytest.approx(expected["first logits"], rel=1e-12)
    assert (logits * numbers("logits", (4, 10))).sum().item() == pytest.approx(expected["logits"], rel=1e-12)
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-12)
    slopes: dict[str, float] = {}
    for name, parameter in parameters.items():
        slope = (parameter.grad * numbers(f"direction {name}", tuple(parameter.shape))).sum().item()
        slopes[kind(name)] = slopes.get(kind(name), 0.0) + slope
    # A sum's rounding errors are those of its summands, which partly cancel.
    assert slopes == pytest.approx(expected["derivatives"], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("depth", [20, 110])
def test_laws(depth):
    """All but the first convolution's, which has PyTorch's default in their code and Kaiming's law in the paper."""
    expected = AUTHORS[depth]
    model = ours(depth)
    record = initialize(model, "fixup")
    for name, parameter in parameters_of(model).items():
        [event] = record.tensors[our_name(name)]
        if kind(name) == "block.conv1.weight":
            assert (event["law"], event["std"]) == ("normal", pytest.approx(expected["std"][len(parameter)], rel=1e-15))
        elif name == "conv1.weight":
            assert event["std"] == math.sqrt(2 / (16 * 9))
        else:
            assert parameter.eq(1.0 if name.endswith("scale") else 0.0).all(), name


def test_a_network_whose_scalars_are_bare_parameters():
    """It is set as ours is, weights as far as their names are in the draws, and trains with the same rates."""
    bare, model = Network(20), ours(20)
    set_to_numbers(dict(bare.named_parameters()), 20)
    records = [initialize(network, "fixup", input_shape=(2, 3, 8, 8)) for network in (bare, model)]
    theirs, own = (parameters_of(network) for network in (bare, model))
    assert len(records[0].learning_rate_multipliers) == 1 + 1 + 9 * 5 + 1
    for name in theirs:
        events = records[0].tensors[name], records[1].tensors[our_name(name)]
        assert events[0] == events[1], name
        rates = [r.learning_rate_multipliers.get(n) for r, n in zip(records, (name, our_name(name)), strict=True)]
        assert rates[0] == rates[1], name
        if theirs[name].dim() == 4 and theirs[name].any():
            ratio = (theirs[name].std() / own[name].std()).item()
            assert abs(ratio - 1) < 5 / math.sqrt(theirs[name].numel())
        else:
            assert torch.equal(theirs[name], own[name]), name


@pytest.mark.parametrize("make", [ours, Network])
def test_the_scheme_leaves_them_as_they_are(make):
    """They have its scalars already: the network of a plug-in gets no second set of them."""
    model = make(20)
    set_to_numbers(parameters_of(model), 20)
    x = numbers("images", (4, 3, 8, 8)).float()
    rewritten = rewrite(model, "fixup", inputs=x[:1])
    assert [name for name, _ in rewritten.named_parameters()] == [name for name, _ in model.named_parameters()]
    gates = {name: parameter for name, parameter in rewritten.named_parameters() if name.endswith("scale")}
    assert len(gates) == 9
    assert all(gate.item() == 1 for gate in gates.values())
