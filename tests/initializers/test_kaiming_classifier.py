"""Kaiming's law with a classifier of another deviation, as GradInit's authors draw VGG."""

from __future__ import annotations

import math

import pytest
import torch
from recorded import ZEROED, drawn
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize

STD = 0.01


def vgg():
    return create_model("vgg", depth=11, width=0.25, norm="batch", conv_bias=True, num_classes=100)


def test_only_the_classifiers_weight_is_another():
    whole, model = vgg(), vgg()
    initialize(whole, "kaiming", mode="fan_out", seed=3)
    with torch.no_grad():
        model.classifier.bias.fill_(5.0)
    record = initialize(model, "kaiming", mode="fan_out", classifier_std=STD, seed=3)
    theirs = dict(whole.named_parameters())
    others = [name for name, p in model.named_parameters() if not torch.equal(p, theirs[name])]
    assert others == ["classifier.weight"]
    assert not model.classifier.bias.any()
    weight = model.classifier.weight.detach()
    # 12,800 entries: five standard errors of the deviation, and of the mean.
    assert weight.std().item() == pytest.approx(STD, rel=5 / math.sqrt(2 * weight.numel()))
    assert abs(weight.mean().item()) < 5 * STD / math.sqrt(weight.numel())
    # The stream of a parameter is that of its name: the same draw at another deviation.
    assert torch.allclose(weight, whole.classifier.weight * STD / math.sqrt(2 / 100), rtol=1e-5)
    assert record.tensors["classifier.weight"] == [drawn("normal", std=STD, part="classifier")]
    assert record.tensors["classifier.bias"] == [ZEROED]
    assert "classifier" not in str(record.tensors["features.convolution1.weight"])


def test_the_classifier_is_normal_beside_a_uniform_law():
    model = vgg()
    initialize(model, "kaiming", distribution="uniform", classifier_std=STD)
    assert model.classifier.weight.abs().max() > math.sqrt(3) * STD
    assert model.features.convolution8.weight.abs().max() <= math.sqrt(3) * math.sqrt(2 / (128 * 9)) * (1 + 1e-6)


def test_a_tuner_starts_from_it():
    model, started = vgg(), vgg()
    start = {"name": "kaiming", "mode": "fan_out", "classifier_std": STD}
    initialize(started, **start)
    batches = [(torch.randn(4, 3, 32, 32), torch.arange(4))] * 3
    record = initialize(model, "gradinit", base=start, iterations=1, batches=batches, gamma=1e9)
    assert record.tensors["classifier.weight"][0] == drawn("normal", std=STD, part="classifier")
    scale = record.conditions["scales"]["classifier.weight"]
    assert torch.allclose(model.classifier.weight, scale * started.classifier.weight, rtol=1e-5)


def test_every_layer_that_gives_an_output_is_a_classifier():
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.first, self.second = nn.Linear(12, 300), nn.Linear(300, 100), nn.Linear(300, 100)

        def forward(self, x):
            features = self.body(x.flatten(1)).relu()
            return self.first(features) + self.second(features)

    model = TwoHeads()
    initialize(model, "kaiming", classifier_std=STD, input_shape=(2, 3, 2, 2))
    deviations = [layer.weight.std().item() for layer in (model.body, model.first, model.second)]
    assert deviations == pytest.approx([math.sqrt(2 / 12), STD, STD], rel=0.06)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens).mean(1))


@pytest.mark.parametrize(
    ("model", "inputs", "error"),
    [
        (nn.BatchNorm1d(3), torch.zeros(2, 3), "the classifier cannot be determined: no weight layer gives"),
        (Tied(), torch.zeros(2, 3, dtype=torch.long), "does not reach the weight of head, which is tied to an embed"),
        (nn.Sequential(nn.Linear(3, 3), spectral_norm(nn.Linear(3, 3))), torch.zeros(2, 3), "the weight of 1, which"),
    ],
    ids=["none", "tied to an embedding", "parametrized"],
)
def test_what_is_refused(model, inputs, error):
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(InitializationError, match=error) as caught:
        initialize(model, "kaiming", classifier_std=STD, inputs=inputs)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan])
def test_its_range(value):
    with pytest.raises(ArgumentError) as caught:
        initialize(nn.Linear(3, 3), "kaiming", classifier_std=value)
    assert caught.value.argument == "classifier_std"
