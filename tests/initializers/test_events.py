"""Events in words: the one place where the wording of records is asserted, and the table that a record prints."""

from __future__ import annotations

import json

import pytest
from recorded import ZEROED, drawn, filled, left, scaled, set_to, tied
from torch import nn

from initbench.initializers.coverage import Coverage
from initbench.initializers.initialize import initialize
from initbench.initializers.record import REASONS, InitializationRecord, changes, describe

WORDS = [
    (drawn("normal", std=0.117851), "drawn: normal, std 0.1179"),
    (drawn("uniform", bound=0.5), "drawn: uniform, within ±0.5"),
    (
        drawn("normal", std=0.02, part="embedding", padding_row=0),
        "drawn as embedding: normal, std 0.02, row 0 is padding and 0",
    ),
    (drawn("normal", std=0.1, kaiming_factor=0.25), "drawn: normal, std 0.1, kaiming × 0.25"),
    (drawn("normal", std=0.1, direction=True), "drawn: normal, std 0.1, as v"),
    (
        drawn("delta_orthogonal", gain=1.0, centre=[1, 2], keeps_norm=False),
        "drawn: delta_orthogonal, gain 1, even kernel, centre at (1, 2), more inputs than outputs, norm not kept",
    ),
    (drawn("scaled Hadamard matrix", order=8), "drawn: scaled Hadamard matrix, of order 8"),
    (drawn("cauchy", width=0.123456), "drawn: cauchy, width 0.1235"),  # a plug-in's
    (drawn("signs"), "drawn: signs"),
    (ZEROED, "zeroed"),
    (filled(1.0), "set to 1"),
    (filled(0.5) | {"direction": True}, "set to 0.5, as v"),
    (scaled(0.43001), "scaled by 0.43"),
    (scaled(2.0, runs=3), "scaled by 2; its layer runs 3 times, this is for the first"),
    ({"event": "shifted", "by": -0.25}, "shifted by -0.25"),
    (set_to("norms"), "set to ‖v‖"),
    (set_to("norms", zeros=True), "set to ‖v‖, 0 where the weight is 0"),
    (set_to("inverse_deviations"), "set to 1/σ of each channel"),
    (set_to("its own rotation"), "set to its own rotation"),
    ({"event": "set_by", "initializer": "mine"}, "set by mine"),
    (left(None), "untouched"),
    (left("frozen"), "untouched: frozen"),
    (
        left("not_called", layer="fc"),
        "not scaled: it is passed directly to a function, so the outputs of fc alone cannot be observed",
    ),
    (left("not_run", layer="fc"), "untouched: fc does not run in the forward pass"),
    (left("shared", layer="fc"), "not scaled for fc, which shares it"),
    (left("too small"), "untouched: too small"),
    (tied("a.weight"), "tied to a.weight"),
]


@pytest.mark.parametrize(("event", "words"), WORDS, ids=lambda value: value if isinstance(value, str) else "")
def test_words(event, words):
    assert describe(event) == words


def test_what_changes_a_parameter():
    unchanged = [event for event, _ in WORDS if not changes(event)]
    assert {event["event"] for event in unchanged} == {"left", "tied"}
    assert {event["event"] for event, _ in WORDS if changes(event)} == {
        *("drawn", "filled", "scaled", "shifted", "set_to", "set_by"),
    }


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_words(reason):
    words = describe(left(reason, layer="fc"))
    assert words.startswith(("untouched: ", "kept: ", "not scaled"))
    assert not set("_{}") & set(words)


def test_the_methods_of_a_record_make_the_events():
    record = InitializationRecord("mine")
    record.drawn("w", "normal", std=0.5)
    record.filled("w", 0.0)
    record.scaled("w", 2.0)
    record.scaled("w", 2.0, runs=2)
    record.shifted("w", 1.0)
    record.set_to("w", "norms")
    record.set_by("w", "other")
    record.left("w")
    record.left("w", "not_run", "fc")
    record.tied("v", "w")
    events = [
        drawn("normal", std=0.5),
        ZEROED,
        scaled(2.0),
        scaled(2.0, runs=2),
        {"event": "shifted", "by": 1.0},
        set_to("norms"),
        {"event": "set_by", "initializer": "other"},
        left(None),
        left("not_run", layer="fc"),
    ]
    assert record.tensors == {"w": events, "v": [tied("w")]}
    assert json.loads(json.dumps(record.to_json()))["tensors"] == record.tensors


def test_the_table_that_is_printed():
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 100, bias=False)).double()
    record = initialize(model, "gaussian", std=0.5, seed=3)
    assert str(record) == "gaussian, seed 3: 2 of 2 weights set\n  drawn    2  normal, std 0.5\n  set      1  to 0"
    assert record.lines() == [
        "0.weight  drawn: normal, std 0.5",
        "0.bias    zeroed",
        "1.weight  drawn: normal, std 0.5",
    ]


def test_the_table_says_how_many_and_by_how_much():
    record = InitializationRecord("mine", seed=1)
    for index, std in enumerate((0.25, 0.5, 2.0)):
        record.drawn(f"{index}.weight", "normal", std=std)
        record.scaled(f"{index}.weight", 1 / (index + 1))
        record.filled(f"{index}.bias", float(index % 2))
    record.left("0.weight", "not_run", "0")
    record.left("scale")
    record.left("gate", "frozen")
    record.tied("head", "0.weight")
    record.coverage = Coverage(5, 3, {f"x{index}": "it is new" for index in range(5)})
    assert str(record).splitlines() == [
        "mine, seed 1: 3 of 5 weights set",
        "  drawn    3  normal, std 0.25 to 2",
        "  scaled   3  by 0.3333 to 1",
        "  set      3  to 0 (2), to 1 (1)",
        "  left     2  as the model was built (1), frozen (1)",
        "  tied     1  to others",
        *[f"  passed over: x{index}: it is new" for index in range(3)],
        "  passed over: 2 more, see record.coverage",
    ]
