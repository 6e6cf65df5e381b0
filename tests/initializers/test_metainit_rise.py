"""What MetaInit says where the gradient quotient rises: its record, its warning, and an oracle that rises alike."""

from __future__ import annotations

import json
from statistics import median

import pytest
from cases import batch, small
from test_metainit_oracle import oracle, reference_of

from initbench.architectures.create import create_model
from initbench.initializers.initialize import initialize

pytestmark = pytest.mark.filterwarnings("ignore:delta_orthogonal does not keep the norm")
BATCHES = [batch((8, 3, 4, 4), seed=1000 + index) for index in range(25)]


def swish_resnet():
    """A small one of suites/papers/twins/metainit_table2.yaml: ResNet-18, channels of 2, images of 4×4, in float64."""
    arguments = {"stem": "cifar", "norm": "none", "activation": "swish", "scheme": "fixup", "input_shape": (3, 4, 4)}
    model = create_model("imagenet_resnet", depth=18, width=2, **arguments).double()
    initialize(model, "delta_orthogonal")
    return model


def tuned(model, steps, momentum=0.9):
    return initialize(model, "metainit", base=None, steps=steps, momentum=momentum, batches=BATCHES[:steps])


def quotients(record):
    return [entry["gradient_quotient"] for entry in record.history]


def test_a_rise_that_lasts_is_warned_of_and_the_oracle_rises_alike():
    model = swish_resnet()
    expected, _, _ = oracle(reference_of(model, "eval"), BATCHES[:14])
    with pytest.warns(UserWarning, match=r"momentum 0\.5 or 0\.9 by cross-validation") as caught:
        record = tuned(model, 14)
    assert quotients(record) == pytest.approx(expected, rel=1e-8)
    first, peak, end = expected[0], max(expected), median(expected[-10:])
    assert peak > 1000 * first
    assert end > 20 * first
    rise = {"from": first, "to": peak, "at_step": expected.index(peak), "end": end}
    assert record.conditions["rise"] == pytest.approx(rise, rel=1e-8)
    text = f"rose from {first:.3g} to {peak:.3g} at step {expected.index(peak)} and ended near {end:.3g};"
    assert [text in str(warning.message) for warning in caught] == [True]
    assert json.loads(json.dumps(record.to_json()))["conditions"]["rise"] == record.conditions["rise"]


def test_a_peak_from_which_it_comes_back_is_recorded_without_a_warning():
    record = tuned(swish_resnet(), 25)
    values = quotients(record)
    assert max(values) > 1000 * values[0]
    assert median(values[-10:]) < values[0]
    assert record.conditions["rise"] == {
        "from": values[0],
        "to": max(values),
        "at_step": values.index(max(values)),
        "end": median(values[-10:]),
    }


def test_fewer_than_ten_steps_have_no_end_to_be_warned_of():
    record = tuned(swish_resnet(), 7)
    first, *later = quotients(record)
    rise = {"from": first, "to": max(later), "at_step": 1 + later.index(max(later)), "end": median(later)}
    assert record.conditions["rise"] == rise
    assert rise["end"] > 10 * first


def test_a_peak_below_a_hundred_times_the_first_is_no_rise():
    record = tuned(swish_resnet(), 14, momentum=0.5)
    values = quotients(record)
    assert 10 * values[0] < max(values) < 100 * values[0]
    assert record.conditions["rise"] is None


@pytest.mark.parametrize("steps", [1, 5])
def test_a_quotient_that_falls_did_not_rise(steps):
    record = initialize(small("plain"), "metainit", steps=steps, input_shape=(8, 3, 8, 8), num_classes=10)
    assert max(quotients(record)) == quotients(record)[0]
    assert record.conditions["rise"] is None
