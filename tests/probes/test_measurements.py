"""What probes return: how it is stored, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext, label, measure
from initbench.probes.measurement import Curve, PerLayer, Scalar, entries
from initbench.registry import Initializer, register_probe


def test_a_scalar():
    assert entries("p", Scalar(0.5, {"eps": 1e-5, "per_batch": [0.5, 0.25]}, "nats")) == [
        {
            "name": "p",
            "kind": "scalar",
            "value": 0.5,
            "unit": "nats",
            "conditions": {"eps": 1e-5, "per_batch": [0.5, 0.25]},
        }
    ]


def test_a_curve_has_places_of_its_own_or_the_first_integers():
    expected = {"name": "p", "kind": "curve", "y": [1.0, 0.5], "over": "depth", "unit": "", "log": False}
    expected["conditions"] = {}
    assert entries("p", Curve([1.0, 0.5])) == [expected | {"x": [0, 1]}]
    assert entries("p", Curve([1.0, 0.5], over="step", x=[10, 100], log=True)) == [
        expected | {"x": [10, 100], "over": "step", "log": True}
    ]


def test_a_value_per_layer_keeps_the_order_of_the_layers():
    [entry] = entries("p", PerLayer({"stem.weight": 2, "a.bias": 1.0}, "nats", {"batches": 3}))
    assert entry == {
        "name": "p",
        "kind": "per_layer",
        "values": {"stem.weight": 2, "a.bias": 1.0},
        "unit": "nats",
        "conditions": {"batches": 3},
    }
    assert list(entry["values"]) == ["stem.weight", "a.bias"]


def test_several_measurements_of_one_probe_are_told_apart_by_a_suffix():
    found = entries("p[mode=train]", {"": Scalar(1.0), "per_layer": PerLayer({"a": 1.0}), "by_depth": Curve([1.0])})
    assert [(entry["name"], entry["kind"]) for entry in found] == [
        ("p[mode=train]", "scalar"),
        ("p[mode=train].per_layer", "per_layer"),
        ("p[mode=train].by_depth", "curve"),
    ]


def test_what_is_not_finite_is_missing_and_its_text_beside_it():
    [scalar] = entries("p", Scalar(math.inf, {"per_batch": [1.0, -math.inf], "eps": math.nan}))
    assert (scalar["value"], scalar["value_reason"]) == (None, "inf")
    assert scalar["conditions"] == {
        "per_batch": [1.0, None],
        "per_batch_reason": "-inf",
        "eps": None,
        "eps_reason": "nan",
    }
    [curve] = entries("p", Curve([1.0, math.nan, math.inf, math.nan]))
    assert (curve["y"], curve["y_reason"]) == ([1.0, None, None, None], "nan, inf")
    # Not among the layers, one of which may be called so.
    [layers] = entries("p", PerLayer({"a": math.nan, "a_reason": 1.0}))
    assert (layers["values"], layers["values_reason"]) == ({"a": None, "a_reason": 1.0}, "nan")


def test_numbers_of_torch_and_numpy_are_numbers():
    tensor = torch.tensor([1.0, 2.0], dtype=torch.float64)
    measured = {
        "s": Scalar(tensor[0]),
        "n": Scalar(np.float32(0.5), {"count": np.int64(3)}),
        "c": Curve(tensor, x=np.arange(2)),
        "l": PerLayer({"a": tensor[1]}),
    }
    found = json.loads(json.dumps(entries("p", measured)))
    assert [entry.get("value", entry.get("y", entry.get("values"))) for entry in found] == [1, 0.5, [1, 2], {"a": 2}]
    assert found[1]["conditions"] == {"count": 3}
    assert found[2]["x"] == [0, 1]


@pytest.mark.parametrize(
    "measured",
    [
        0.5,
        None,
        {"a": 0.5},
        Scalar([0.5, 0.25]),
        Scalar("0.5"),
        Scalar(True),
        Scalar(torch.ones(1)),
        Scalar(0.5, {"model": torch.nn.Linear(1, 1)}),
        Curve([0.5, "a"]),
        Curve([0.5, 0.25], x=[1]),
        Curve([0.5, 0.25], x=["stem", "head"]),
        PerLayer({"a": [1.0]}),
    ],
    ids=repr,
)
def test_anything_else_is_refused_in_one_line_that_names_the_probe(measured):
    with pytest.raises(InitbenchError) as caught:
        entries("my_probe", measured)
    assert str(caught.value).startswith("probe my_probe")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("scratch_registry")
def test_an_entry_is_named_after_the_arguments_that_are_not_at_their_defaults():
    @register_probe("random_number")
    def random_number(scale: float = 1.0, keys: tuple[str, ...] = (), base: Initializer = Initializer("kaiming")):
        assert isinstance(base, Initializer)

        def measure(_, context):
            return Scalar(scale * torch.rand((), generator=context.generator("number", *keys)).item())

        return measure

    assert label("random_number", {"scale": 1}) == "random_number"
    assert label("random_number", {"scale": 2.0}) == "random_number[scale=2.0]"
    assert label("random_number", {"base": "kaiming"}) == "random_number"
    assert label("random_number", {"base": "xavier"}) == "random_number[base=xavier]"
    context = ProbeContext(seed=0, inputs=Inputs((1,)), outputs=1)
    model = torch.nn.Linear(1, 1)
    [once], [twice] = (measure("random_number", {"scale": scale}, model, context) for scale in (1.0, 2.0))
    assert twice == once | {"name": "random_number[scale=2.0]", "value": 2 * once["value"]}
    [other] = measure("random_number", {"keys": ["other"]}, model, context)
    assert other["value"] != once["value"]
