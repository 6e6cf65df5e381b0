"""The outcome against a probe as it is drawn, and the colours of treatments."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from drawings import drawn, marks_of

from initbench.metric import Metric
from initbench.reporting.charts.legend import legend_of
from initbench.reporting.charts.scatter import Against, scatter_panels
from initbench.reporting.charts.style import HEIGHT, PALETTE, SHAPES, WIDTH, colours, styles

ERROR = Metric("error", "lower", label="test error", unit="%", scale=100, show="{:.1f}", best=0)
ACCURACY = Metric("accuracy", "higher", label="accuracy", unit="%", scale=100, show="{:.1f}", best=1)
GQ = "probe.gradient_quotient"
SATURATED = "GQ saturated (vanished gradient)"


def trial(treatment="kaiming", seed=1, outcome=0.5, quotient=1.0, *, saturated=False, workload="plain-28", status=None):
    return {
        "workload": workload,
        "treatment": treatment,
        "seed": seed,
        "status": status or ("diverged" if math.isnan(outcome) else "finished"),
        "outcome": outcome,
        GQ: quotient,
        f"{GQ}.saturated": saturated,
    }


def panels_of(trials, metric=ERROR, against=None):
    frame = pd.DataFrame(trials)
    metrics = dict.fromkeys(frame["workload"], metric)
    return scatter_panels(frame, metrics, colours(frame["treatment"]), against or Against())


def test_chart_marks_saturated_and_diverged_trials():
    trials = [
        *(trial("kaiming", seed, 0.897, 1.0, saturated=True) for seed in (1, 2, 3)),
        trial("metainit", 1, 0.025, 0.1),
        trial("delta", 1, 0.025, 3.0),
        trial("delta", 2, math.nan, 3.0),
        trial("delta", 3, math.nan, 3.0, saturated=True),
        trial("metainit", 1, 0.036, 0.1, workload="WRN-28"),
    ]
    panels = panels_of(trials)
    assert list(panels) == ["plain-28", "WRN-28"]
    marks = marks_of(drawn(panels["plain-28"]))
    assert len(marks) == 7
    hollow = {words for words, mark in marks.items() if mark.fill_opacity == 0}
    assert {words for words in marks if SATURATED in words} == hollow
    assert len(hollow) == 4
    diverged = {words: mark for words, mark in marks.items() if "diverged" in words}
    assert set(diverged) == {"delta, seed 2: diverged", f"delta, seed 3: diverged, {SATURATED}"}
    assert {mark.y for mark in diverged.values()} == {0}
    others = [mark for words, mark in marks.items() if words not in diverged]
    assert min(mark.y for mark in others) > 0
    assert not {mark.outline for mark in diverged.values()} & {mark.outline for mark in others}
    labels = [entry.label for entry in legend_of(panels["plain-28"])]
    assert labels == ["delta", "kaiming", "metainit", SATURATED, "diverged"]
    assert [entry.label for entry in legend_of(panels["WRN-28"])] == ["metainit"]


def test_where_higher_is_better_diverged_trials_stand_at_the_lower_edge():
    marks = marks_of(drawn(panels_of([trial(outcome=0.9), trial(seed=2, outcome=math.nan)], ACCURACY)["plain-28"]))
    assert marks["kaiming, seed 2: diverged"].y == HEIGHT


def test_chart_of_diverged_trials_alone_and_of_nothing():
    lone = panels_of([trial(seed=seed, outcome=math.nan, saturated=True) for seed in (1, 2)])
    assert {(mark.y, mark.fill_opacity) for mark in marks_of(drawn(lone["plain-28"])).values()} == {(0, 0)}
    assert panels_of([trial(quotient=math.nan)]) == {}
    assert panels_of([trial(quotient=0.0)]) == {}
    assert panels_of([trial(status="failed")]) == {}


def test_a_diverged_trial_beyond_the_others_stands_at_the_end_of_the_axis():
    trials = [trial(quotient=1.0), trial("metainit", quotient=10.0), trial(seed=2, outcome=math.nan, quotient=1e6)]
    panels = panels_of([*trials, trial(quotient=1e-3, workload="WRN-28")])
    first, second, diverged = sorted(marks_of(drawn(panels["plain-28"])).values(), key=lambda mark: mark.x)
    assert diverged.x == WIDTH
    assert second.x - first.x > WIDTH / 2
    assert ">gradient quotient (GQ), log scale</text>" in drawn(panels["WRN-28"])


def test_of_treatments_at_one_place_each_is_seen_around_the_next():
    marks = panels_of([trial(name) for name in ("a", "b", "c")])["plain-28"]["datasets"]["marks"]
    assert [mark["words"][0] for mark in marks] == ["a", "b", "c"]  # drawn in this order
    assert marks[0]["size"] > marks[1]["size"] > marks[2]["size"]


def test_any_probe_is_drawn_also_on_a_linear_axis():
    trials = [trial(seed=seed) | {"probe.loss": value} for seed, value in ((1, -1.0), (2, 0.0), (3, 1.0))]
    panel = panels_of(trials, against=Against("probe.loss", "loss before training", log=False))["plain-28"]
    places = [mark.x for mark in marks_of(drawn(panel)).values()]
    assert places == pytest.approx([10, 150, 290])
    assert ">loss before training</text>" in drawn(panel)


def test_treatments_are_told_apart_by_shape_as_well_as_colour():
    names = [f"t{i}" for i in range(7)]
    marks = marks_of(drawn(panels_of([trial(name) for name in names])["plain-28"]))
    assert len({mark.outline for mark in marks.values()}) == 7


def test_colours_do_not_depend_on_the_order_and_begin_again():
    names = [f"initializer_{i}" for i in range(12)]
    assigned = colours(names)
    assert assigned == colours(names[::-1])
    assert [assigned[name] for name in names[:10]] == list(PALETTE)
    assert assigned["initializer_10"] == PALETTE[0]


def test_colours_of_every_forty_are_told_apart():
    names = [f"initializer_{i}" for i in range(40)]
    found = styles(colours(names)).values()
    assert len({(style.colour, style.dash) for style in found}) == 40
    assert len({(style.colour, style.shape) for style in found}) == 40
    assert {style.shape for style in found} == set(SHAPES)
