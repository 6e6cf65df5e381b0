"""`gradient_deviation` against the gradients of all batches, stacked in float64."""

import statistics
from dataclasses import replace

import pytest
import torch
from cases import randomize, small
from torch import nn
from torch.nn.functional import cross_entropy

from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.registry import PROBES

IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10)


def measure(model, context=IMAGES, **arguments):
    return PROBES.get("gradient_deviation").build({"data": "random"} | arguments)(model, context)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_of_stacked_gradients(mode):
    model = randomize(small("wrn", norm="batch", activation="relu"), 0.3)
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = measure(model, mode=mode, batch_size=8, batches=5)
    model.train(mode == "train")
    rows = [
        torch.autograd.grad(cross_entropy(model(x.double()), y), parameters) for x, y in IMAGES.batches("random", 8, 5)
    ]
    deviations = [torch.stack(column).std(0) for column in zip(*rows, strict=True)]
    expected = dict(zip(names, [float(deviation.mean()) for deviation in deviations], strict=True))
    assert found["per_layer"].values == pytest.approx(expected, rel=1e-10)
    whole = float(torch.cat([deviation.flatten() for deviation in deviations]).mean())
    assert found[""].value == pytest.approx(whole, rel=1e-10)
    assert found[""].conditions == {"data": "random", "batch_size": 8, "batches": 5, "mode": mode}


def test_a_small_deviation_beside_a_large_mean_is_not_lost():
    # The gradient is 10⁸ + the mean of the inputs: in float64 a difference of sums of squares would be all rounding.
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.ones(1, dtype=torch.float64))
            self.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))

        def forward(self, inputs):
            return self.theta * (1e8 + inputs.mean())

    context = replace(IMAGES, loss_fn=lambda outputs, _: outputs.sum())
    found = measure(Model(), context, batch_size=2, batches=4)
    means = [float(x.double().mean()) for x, _ in IMAGES.batches("random", 2, 4)]
    # The gradients have 16 digits, of which 8 are the deviation's.
    assert found["per_layer"].values == {"theta": pytest.approx(statistics.stdev(means), rel=1e-6), "unused": 0.0}
    assert found[""].value == pytest.approx(statistics.stdev(means) / 4, rel=1e-6)


def test_equal_batches_have_no_deviation_and_frozen_parameters_no_value():
    model = randomize(small("plain"))
    model.stem.weight.requires_grad_(False)
    batch = next(IMAGES.batches("random", 4, 1))
    context = replace(IMAGES, real_batches=lambda *_: iter([batch] * 3))
    found = measure(model, context, data="real", batch_size=4, batches=3)
    assert set(found["per_layer"].values.values()) == {0.0}
    assert "stem.weight" not in found["per_layer"].values


def test_falls_with_the_root_of_the_batch_size():
    """Of a mean of independent samples: with 4 times as many half the deviation."""
    model = randomize(small("plain", activation="relu"), 0.2)
    one, four = (measure(model, batch_size=size, batches=40)[""].value for size in (8, 32))
    assert one / four == pytest.approx(2, rel=0.1)  # 1 / √(2 · 39) = 11 % by entry, over many that are correlated


@pytest.mark.parametrize("batches", [0, 1])
def test_one_batch_has_no_deviation(batches):
    with pytest.raises(ArgumentError, match="at least 2 for a deviation between batches, got"):
        measure(small("plain"), batches=batches)
