"""GradInit's scales after ten iterations, against its authors' code.

The numbers come from their repository, github.com/zhuchen03/gradinit at 777c4070c86bdf575c8df6254dbbab983173ef4f: the
function `gradinit` of gradinit_utils.py on `network` and `half_batches` below, in float64 and on the CPU, with gradient
clipping, η, γ and the scales' learning rate as stated and all else as in their launch/run_gradinit.sh: normalized
gradients for SGD, a least scale of .01, half of the second batch from the first. A scale is what a parameter was
multiplied by.
"""

from __future__ import annotations

import math

import pytest
import torch
from authors import numbers
from torch import nn

from initbench.initializers.initialize import initialize


def network(norm):
    """Two convolutions and a classifier; a bias in front of BatchNorm would have no derivative."""
    layers = []
    for inputs, outputs, stride in ((3, 6, 1), (6, 8, 2)):
        layers.append(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=norm == "none"))
        layers += [nn.BatchNorm2d(outputs)] if norm == "batch" else []
        layers.append(nn.ReLU())
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.3 * numbers(name, tuple(parameter.shape)))
        for module in model:
            if isinstance(module, nn.BatchNorm2d):
                module.weight.add_(1.0)
    return model


def half_batches():
    index = 0
    while True:
        yield numbers(f"inputs {index}", (6, 3, 8, 8)), (torch.arange(6) + index) % 10
        index += 1


AUTHORS = [
    (
        "none",
        {"optimizer": "sgd", "eta": 1.0, "gamma": 0.5, "tau": 0.05, "clip": 1.0},
        6,
        {
            "0.weight": 0.7111840936156901,
            "0.bias": 1.2902273393887056,
            "2.weight": 0.7270752467965652,
            "2.bias": 0.617548082358437,
            "6.weight": 0.7089329331740788,
            "6.bias": 0.6833075857573344,
        },
    ),
    (
        "none",
        {"optimizer": "sgd", "eta": 1.0, "gamma": math.inf, "tau": 0.05, "clip": 1.0},
        0,
        {
            "0.weight": 1.2174227154411204,
            "0.bias": 0.9472767135329223,
            "2.weight": 1.1661064829531869,
            "2.bias": 0.7935777582503971,
            "6.weight": 0.9153150775774602,
            "6.bias": 0.7497327098891078,
        },
    ),
    (
        "none",
        {"optimizer": "sgd", "eta": 1.0, "gamma": math.inf, "tau": 0.3, "clip": 1.0},
        0,
        {
            "0.weight": 1.3589201397106416,
            "0.bias": 0.6306145781286475,
            "2.weight": 1.1376912929078333,
            "2.bias": 0.0,
            "6.weight": 0.10672698987405617,
            "6.bias": 0.0,
        },
    ),
    (
        "none",
        {"optimizer": "adam", "eta": 0.1, "gamma": 5.0, "tau": 0.05, "clip": 5.0},
        7,
        {
            "0.weight": 0.621747678502665,
            "0.bias": 1.3627608382646514,
            "2.weight": 0.6706738905267485,
            "2.bias": 0.783954739503444,
            "6.weight": 0.6209520417935066,
            "6.bias": 0.6782613158115,
        },
    ),
    (
        "none",
        {"optimizer": "adam", "eta": 0.1, "gamma": math.inf, "tau": 0.05, "clip": 5.0},
        0,
        {
            "0.weight": 0.968245688254966,
            "0.bias": 1.1533481211830516,
            "2.weight": 1.4427369789861386,
            "2.bias": 0.977052271231906,
            "6.weight": 0.8559400120548347,
            "6.bias": 0.7352992039668071,
        },
    ),
    (
        "batch",
        {"optimizer": "sgd", "eta": 1.0, "gamma": 0.5, "tau": 0.05, "clip": 1.0},
        6,
        {
            "0.weight": 1.2363037909780215,
            "1.weight": 1.205864742014675,
            "1.bias": 0.834919503683241,
            "3.weight": 1.2344564584435167,
            "4.weight": 0.6912878431076217,
            "4.bias": 0.6900396624355019,
            "8.weight": 0.6483467265448423,
            "8.bias": 0.6346924423192837,
        },
    ),
    (
        "batch",
        {"optimizer": "sgd", "eta": 1.0, "gamma": math.inf, "tau": 0.05, "clip": 1.0},
        0,
        {
            "0.weight": 0.5288893535200002,
            "1.weight": 0.8248516694163961,
            "1.bias": 1.1593222338637517,
            "3.weight": 0.5116339374030682,
            "4.weight": 1.2142978669687026,
            "4.bias": 0.8187788749153869,
            "8.weight": 0.7161547060640064,
            "8.bias": 0.5515147632577749,
        },
    ),
    (
        "batch",
        {"optimizer": "sgd", "eta": 1.0, "gamma": math.inf, "tau": 0.3, "clip": 1.0},
        0,
        {
            "0.weight": 0.9538551959912488,
            "1.weight": 0.3387997516092283,
            "1.bias": 2.807402196727127,
            "3.weight": 0.21226313277288025,
            "4.weight": 2.1401863375122137,
            "4.bias": 0.5972887068590024,
            "8.weight": 0.2866667676382383,
            "8.bias": 0.0,
        },
    ),
    (
        "batch",
        {"optimizer": "adam", "eta": 0.1, "gamma": 5.0, "tau": 0.05, "clip": 5.0},
        8,
        {
            "0.weight": 1.3684882605670003,
            "1.weight": 1.359944976755232,
            "1.bias": 0.6385463324251567,
            "3.weight": 1.3686085427701489,
            "4.weight": 0.6105557482703082,
            "4.bias": 0.6322082429943012,
            "8.weight": 0.6105998523415181,
            "8.bias": 0.589056237339705,
        },
    ),
    (
        "batch",
        {"optimizer": "adam", "eta": 0.1, "gamma": math.inf, "tau": 0.05, "clip": 5.0},
        0,
        {
            "0.weight": 0.6804748566294339,
            "1.weight": 1.0753936905390067,
            "1.bias": 0.9298478629432017,
            "3.weight": 0.6414187175140179,
            "4.weight": 1.2045306269843998,
            "4.bias": 0.7513178260598997,
            "8.weight": 0.8603154176924083,
            "8.bias": 0.558681452867339,
        },
    ),
]


@pytest.mark.parametrize(("norm", "arguments", "constrained", "scales"), AUTHORS)
def test_the_scales_of_the_authors_code(norm, arguments, constrained, scales):
    """And how often the gradient's norm was descended. Scales of biases that reach 0 stay there."""
    model = network(norm)
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    record = initialize(model, "gradinit", base=None, iterations=10, batches=half_batches(), **arguments)
    assert record.conditions["constrained_steps"] == constrained
    # Ten steps of Adam on derivatives of derivatives, in float64.
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-9, abs=1e-9)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, scales[name] * start[name], rtol=1e-9, atol=1e-9), name
