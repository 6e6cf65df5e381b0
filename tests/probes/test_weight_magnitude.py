"""`weight_magnitude`: by hand, and proportional to the weights."""

import pytest
import torch
from cases import randomize, small
from torch import nn

from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.registry import PROBES

IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10)


def measure(model):
    return PROBES.get("weight_magnitude").build({})(model, IMAGES)


def test_by_hand():
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -2.0], [3.0, -6.0]]))
        model.bias.copy_(torch.tensor([0.0, 5.0]))
    found = measure(model)
    assert found["per_layer"].values == {"weight": 3.0, "bias": 2.5}
    # Mean -1, mean square 12.5; mean 2.5, mean square 12.5.
    expected = {"weight": 11.5**0.5, "bias": 6.25**0.5}
    assert found["standard_deviation"].values == pytest.approx(expected, rel=1e-15)


def test_a_scale_multiplies_both_and_names_are_those_of_the_parameters():
    model = randomize(small("wrn"))
    before = measure(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-4.0)  # a power of two: no rounding
    after = measure(model)
    for name in ("per_layer", "standard_deviation"):
        assert list(after[name].values) == [parameter for parameter, _ in model.named_parameters()]
        assert after[name].values == {layer: 4 * value for layer, value in before[name].values.items()}


def test_a_tuner_beside_its_base_at_one_seed_has_the_learned_scales_as_ratio():
    """GradInit, caption of Figure 4. So a figure of both can be drawn from two treatments' own records."""
    base, tuned = (small("wrn", norm="batch", activation="relu") for _ in range(2))
    shape = {"input_shape": (4, 3, 8, 8), "num_classes": 10, "seed": 5}
    initialize(base, "kaiming", **shape)
    record = initialize(tuned, "gradinit", base="kaiming", iterations=5, data="random", **shape)
    factors = {
        name: event["factor"] for name, events in record.to_json()["tensors"].items() for event in events
        if event["event"] == "scaled"
    }  # fmt: skip
    before, after = (measure(model)["per_layer"].values for model in (base, tuned))
    ratios = {name: after[name] / before[name] for name in factors if before[name]}
    assert len(ratios) > 10
    # float32: a weight is rounded once when it is multiplied.
    assert ratios == pytest.approx({name: factors[name] for name in ratios}, rel=1e-6)
    assert any(abs(ratio - 1) > 1e-3 for ratio in ratios.values())
