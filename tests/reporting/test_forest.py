"""What forest plots and performance profiles draw, read back from their SVG."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from drawings import SVG, drawn, marks_of, parsed

from initbench.reporting.charts.lines import profile_panel
from initbench.reporting.charts.rows import ForestRow, forest_panel
from initbench.statistics.intervals import Estimate
from initbench.statistics.profiles import performance_profiles


def points(drawing):
    """Return the marks of a drawing: words → place."""
    return {words: (mark.x, mark.y) for words, mark in marks_of(drawing).items()}


def rules(drawing):
    """Return the lengths of the lines that are neither grid nor axis: those with half of their opacity and 2 wide."""
    lines = [e for e in parsed(drawing).iter(f"{SVG}line") if e.get("stroke-width") == "2"]
    return [abs(float(line.get("x2", 0))) for line in lines]


def test_estimates_stand_where_the_axis_has_them():
    rows = [
        ForestRow("a", Estimate(-0.5, -1.0, 0.0, 5), "a is -.5"),
        ForestRow("b", Estimate(0.5, 0.0, 1.0, 5), "b is .5"),
        ForestRow("no interval", Estimate(0.0, math.nan, math.nan, 2), "c is 0"),
        ForestRow("nothing", Estimate(math.nan, math.nan, math.nan, 0), "d is not"),
    ]
    drawing = drawn(forest_panel(rows, "ρ", domain=(-1.0, 1.0)))
    found = points(drawing)
    across = {words: x for words, (x, _) in found.items()}
    assert across == pytest.approx({"a is -.5": 75, "b is .5": 225, "c is 0": 150})
    heights = [y for _, y in found.values()]
    assert np.diff(heights) == pytest.approx([22, 22])  # in the order given
    assert rules(drawing) == pytest.approx([150, 150])  # half of the axis each; none for the third
    assert "nothing" not in drawing


def test_an_estimate_without_an_interval_keeps_its_row():
    """Vega-Lite orders names by the first layer that has them, and the layer of intervals lacks this one."""
    rows = [
        ForestRow("no interval", Estimate(0.0, math.nan, math.nan, 2), "first"),
        ForestRow("a", Estimate(-0.5, -1.0, 0.0, 5), "second"),
        ForestRow("mean", Estimate(0.5, 0.0, 1.0, 5), "third", pooled=True),
    ]
    found = points(drawn(forest_panel(rows, "ρ", domain=(-1.0, 1.0))))
    assert sorted(found, key=lambda words: found[words][1]) == ["first", "second", "third"]


def test_nothing_finite_is_no_drawing():
    assert forest_panel([ForestRow("a", Estimate(math.nan, math.nan, math.nan, 0), "a")], "ρ") is None


def test_a_profile_rises_where_an_initializer_comes_within_a_factor():
    """Costs 1, 2 and 2, 1 and a miss of the second: ratios 1, 2 | 2, 1 | 1, ∞."""
    costs = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, 1.0, np.inf]}, index=["x", "y", "z"])
    drawing = drawn(profile_panel(performance_profiles(costs), "factor", {"a": "#111111", "b": "#222222"}))
    found = points(drawing)
    assert set(found) == {
        f"{name}: within a factor of {tau} of the best on {share} % of the workloads"
        for name, tau, share in (("a", 1, 67), ("a", 2, 100), ("b", 1, 33), ("b", 2, 67))
    }
    heights = [y for _, y in found.values()]
    assert min(heights) == pytest.approx(found["a: within a factor of 2 of the best on 100 % of the workloads"][1])
