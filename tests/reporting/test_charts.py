"""Test error against gradient quotient as it is drawn, and the colours of initializers."""

from __future__ import annotations

import re

from drawings import SVG, parsed
from ledgers import (
    DELTA_2,
    KAIMING,
    WRN,
    cell,
    make_record,
    make_spec,
    quickstart_records,
)
from reports import compared

from initbench.reporting.charts import PALETTE, colours, panels, styles


def panels_of(records):
    found = compared(records)
    return panels(found.trials, found.by_workload)


def marks(svg):
    """Return the drawn trials of a panel: label → (y, shape, fill opacity)."""
    found = {}
    for path in parsed(svg).iter(f"{SVG}path"):
        if path.get("aria-roledescription") == "point":
            y = float(re.search(r",(.*)\)", path.get("transform"))[1])
            shape = "circle" if "A" in path.get("d") else "triangle"
            found[path.get("aria-label")] = (y, shape, float(path.get("fill-opacity")))
    return found


def test_chart_marks_saturated_and_diverged_trials():
    drawn = panels_of(quickstart_records())
    assert list(drawn) == ["plain[depth=28, width=1]", "wrn[depth=28, width=1]"]
    plain, wrn = (marks(svg) for svg in drawn.values())
    assert len(plain) == len(wrn) == 12
    saturated = {label for label, (_, _, opacity) in plain.items() if opacity == 0}
    assert saturated == {label for label in plain if label.startswith(("kaiming", "delta_orthogonal[gain=1]"))}
    assert all(label.endswith("GQ saturated (vanished gradient)") for label in saturated)
    triangles = {label: y for label, (y, shape, _) in wrn.items() if shape == "triangle"}
    assert triangles == {"delta_orthogonal[gain=2], seed 1: diverged": 0}
    assert min(y for y, shape, _ in wrn.values() if shape == "circle") > 0


def test_chart_of_diverged_trials_alone_and_of_nothing():
    lone = panels_of(cell([None, None], quotient=1.0, saturated=True))
    assert {mark[1:] for mark in marks(next(iter(lone.values()))).values()} == {("triangle", 0)}
    assert panels_of(cell([0.1], quotient=None)) == {}
    assert panels_of([make_record(make_spec(KAIMING), status="failed")]) == {}


def test_chart_panels_share_the_quotients_axis():
    records = [*cell([0.1], quotient=1.0), make_record(make_spec(DELTA_2, WRN), quotient=1e6)]
    labels = [re.findall(r">([\d.e+]+)</text>", svg.split("role-axis-title")[0]) for svg in panels_of(records).values()]
    assert labels[0] == labels[1]


def test_colours_do_not_depend_on_the_order_and_begin_again():
    names = [f"initializer_{i}" for i in range(12)]
    assigned = colours(names)
    assert assigned == colours(names[::-1])
    assert [assigned[name] for name in names[:10]] == list(PALETTE)
    assert assigned["initializer_10"] == PALETTE[0]


def test_colours_of_every_forty_are_told_apart():
    names = [f"initializer_{i}" for i in range(40)]
    assert len(set(styles(colours(names)).values())) == 40
