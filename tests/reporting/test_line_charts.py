"""Training curves and depth curves as they are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from drawings import bands_of, drawn, lines_of, marks_of, parsed

from initbench.metric import Metric
from initbench.reporting.charts.legend import legend_of
from initbench.reporting.charts.lines import line_panel
from initbench.reporting.charts.style import DASHES, HEIGHT, colours

ERROR = Metric("error", "lower", label="test error", unit="%", scale=100, show="{:.2f}", best=0)
ACCURACY = Metric("accuracy", "higher", label="accuracy", unit="%", scale=100, show="{:.2f}", best=1)
COLOURS = {"kaiming": "#0072b2", "metainit": "#d55e00"}


def row(treatment, place, median, low=math.nan, high=math.nan, x="step", seeds=3, diverged=0, **more):
    ends = {"outcome_median": median, "outcome_smallest": low, "outcome_largest": high}
    return {"treatment": treatment, x: place, "seeds": seeds, "diverged": diverged, **ends, **more}


def panel(rows, x="step", metric=ERROR, palette=COLOURS):
    return line_panel(pd.DataFrame(rows), x, "training steps", palette, metric)


def test_points_stand_where_the_axis_has_them():
    """From 0 to 100 steps over 300 px with 10 px at both ends; an error of 0 at the bottom."""
    rows = [row("kaiming", step, error) for step, error in ((0, 0.8), (50, 0.4), (100, 0.0))]
    marks = list(marks_of(drawn(panel(rows))).values())
    assert [mark.x for mark in marks] == pytest.approx([10, 150, 290])
    assert marks[2].y == pytest.approx(HEIGHT)
    assert marks[1].y - marks[0].y == pytest.approx(marks[2].y - marks[1].y)
    assert marks[0].y < marks[1].y


def test_a_point_says_its_value_its_range_and_its_seeds():
    rows = [row("kaiming", 1200, 0.164, 0.161, 0.168), row("metainit", 1200, 0.1, seeds=1)]
    assert set(marks_of(drawn(panel(rows)))) == {
        "kaiming, step 1,200: 16.40\N{NO-BREAK SPACE}% (16.10\N{NO-BREAK SPACE}% to 16.80\N{NO-BREAK SPACE}%), 3 seeds",
        "metainit, step 1,200: 10.00\N{NO-BREAK SPACE}%, 1 seed",
    }


def test_train_is_a_thin_dashed_line_beside_the_solid_one_of_test():
    rows = [
        row("kaiming", step, error + gap, split=split)
        for split, gap in (("train", 0.0), ("test", 0.1))
        for step, error in ((0, 0.9), (100, 0.2))
    ]
    specification = panel(rows)
    drawing = drawn(specification)
    train, test = sorted(lines_of(drawing), key=lambda line: line[2])
    assert train[0] == test[0] == "#0072b2"
    assert train[1]
    assert not test[1]
    assert train[2] < test[2]
    assert train[3][1][1] > test[3][1][1]  # the smaller error is further down
    assert [entry.label for entry in legend_of(specification)] == ["kaiming", "test", "train"]
    assert "kaiming, train, step 100: 20.00\N{NO-BREAK SPACE}%, 3 seeds" in marks_of(drawing)


def test_without_splits_no_line_is_dashed_and_no_kind_is_explained():
    specification = panel([row("kaiming", step, 0.1) for step in (0, 1)])
    assert [line[1] for line in lines_of(drawn(specification))] == [()]
    assert [entry.label for entry in legend_of(specification)] == ["kaiming"]


def test_bands_are_drawn_only_where_both_ends_are_finite():
    with_band = [row("kaiming", step, 0.5, 0.4, 0.6) for step in (0, 1)]
    without = [row("metainit", step, 0.5, 0.4, math.inf, diverged=1) for step in (0, 1)]
    assert bands_of(drawn(panel(with_band + without))) == ["#0072b2"]


@pytest.mark.parametrize(
    ("metric", "worst", "edge"), [(ERROR, math.inf, 0.0), (ACCURACY, -math.inf, float(HEIGHT))], ids=["lower", "higher"]
)
def test_a_diverged_line_ends_in_one_triangle_at_the_edge_of_the_worst(metric, worst, edge):
    rows = [row("kaiming", 0, 0.5), row("kaiming", 10, 0.4)]
    rows += [row("kaiming", step, worst, worst, worst, diverged=3) for step in (20, 30)]
    specification = panel([*rows, row("metainit", 30, 0.1)], metric=metric)
    drawing = drawn(specification)
    triangles = {words: mark for words, mark in marks_of(drawing).items() if "diverged" in words}
    assert list(triangles) == ["kaiming, step 20: diverged, 3 seeds, 3 diverged"]
    (triangle,) = triangles.values()
    assert triangle.y == edge
    assert triangle.x == pytest.approx(10 + 280 * 20 / 30)
    assert triangle.fill == "#0072b2"
    assert len(next(line for line in lines_of(drawing) if line[0] == "#0072b2")[3]) == 2
    assert [entry.shape for entry in legend_of(specification)][-1] == "triangle-up"


def test_at_every_depth_a_diverged_network_has_its_triangle():
    rows = [row("kaiming", depth, math.inf, x="depth", diverged=3) for depth in (16, 28)]
    rows += [row("metainit", depth, 0.1, x="depth") for depth in (10, 16, 28)]
    found = marks_of(drawn(panel(rows, x="depth")))
    assert sum("diverged" in words for words in found) == 2


def test_triangles_of_two_that_diverged_at_one_step_are_both_seen():
    rows = [row(name, step, value) for name in COLOURS for step, value in ((0, 0.5), (10, math.inf))]
    triangles = [mark for words, mark in marks_of(drawn(panel(rows))).items() if "diverged" in words]
    assert triangles[0].x == triangles[1].x
    assert triangles[0].size > 1.2 * triangles[1].size  # the larger one is behind


def test_train_and_test_that_diverge_together_have_one_triangle():
    rows = [
        row("kaiming", step, value, split=split)
        for split in ("test", "train")
        for step, value in ((0, 0.5), (10, math.inf))
    ]
    assert sum("diverged" in words for words in marks_of(drawn(panel(rows)))) == 1


def test_a_long_line_is_drawn_whole_and_says_its_first_and_its_last_value():
    rows = [row("kaiming", step, 0.9 - step / 1000) for step in range(500)]
    drawing = drawn(panel(rows))
    assert len(lines_of(drawing)[0][3]) == 500
    words = list(marks_of(drawing))
    assert 2 < len(words) <= 12
    assert words[0].startswith("kaiming, step 0:")
    assert words[-1].startswith("kaiming, step 499:")


def test_lines_beyond_the_palette_are_dashed():
    palette = colours([f"t{i}" for i in range(12)])
    rows = [row(name, step, 0.1 + i / 50) for i, name in enumerate(palette) for step in (0, 1)]
    dashes = {line[1] for line in lines_of(drawn(panel(rows, palette=palette)))}
    assert dashes == {(), tuple(map(float, DASHES[1]))}


def test_nothing_finite_is_no_drawing():
    assert panel([row("kaiming", 0, math.inf, diverged=3)]) is None
    assert panel([row("kaiming", math.nan, 0.5)]) is None


def test_axis_titles_have_the_metrics_words_and_unit():
    drawing = drawn(panel([row("kaiming", 0, 0.5)], metric=replace(ERROR, label="validation loss", unit="nats")))
    texts = {"".join(node.itertext()) for node in parsed(drawing).iter() if node.tag.endswith("text")}
    assert {"validation loss (nats)", "training steps"} <= texts
