"""Values by layer and the objectives of tuners as they are drawn."""

from __future__ import annotations

import itertools
import math

import pandas as pd
import pytest
from drawings import SVG, bands_of, drawn, lines_of, marks_of, parsed

from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.legend import legend_of
from initbench.reporting.charts.lines import layer_panel, value_panel
from initbench.reporting.charts.style import HEIGHT

COLOURS = {"kaiming": "#0072b2", "metainit": "#d55e00"}


def layers(values, treatment="kaiming", spread=1.0, **more):
    return [
        {
            "treatment": treatment,
            "layer": f"conv{place}",
            "place": place,
            "value_median": value,
            "value_smallest": value / spread,
            "value_largest": value * spread,
            "unit": "",
            **more,
        }
        for place, value in enumerate(values)
    ]


def layer_drawing(rows, **options):
    return drawn(layer_panel(pd.DataFrame(rows), "gradient norm", COLOURS, **options))


def test_a_norm_that_falls_by_the_same_factor_in_every_layer_is_a_straight_line():
    marks = list(marks_of(layer_drawing(layers([1.0, 0.1, 0.01, 0.001]))).values())
    falls = [b.y - a.y for a, b in itertools.pairwise(marks)]
    assert falls[0] > 0
    assert falls == pytest.approx([falls[0]] * 3)
    assert [mark.x for mark in marks] == pytest.approx([10 + 280 * i / 3 for i in range(4)])


def test_values_within_a_decade_or_below_zero_are_on_a_linear_axis():
    for values in ([1.0, 2.0, 3.0], [-1.0, 100.0, 201.0]):
        heights = [mark.y for mark in marks_of(layer_drawing(layers(values))).values()]
        assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2])


def test_a_point_names_its_layer_and_its_range():
    words = list(marks_of(layer_drawing(layers([1.0, 0.5], spread=2.0))))
    assert words == ["kaiming, layer 0 (conv0): 1 (0.5 to 2)", "kaiming, layer 1 (conv1): 0.5 (0.25 to 1)"]


def test_labels_of_a_logarithmic_axis_are_drawn_however_small():
    drawing = layer_drawing(layers([1e-34, 1.0]))
    texts = ["".join(text.itertext()) for text in parsed(drawing).iter(f"{SVG}text")]
    assert {"1", "10⁻¹⁰", "10⁻²⁵", "10⁻³⁰"} <= set(texts)


def test_every_layer_has_its_name_on_hover_also_where_a_line_has_no_symbol():
    drawing = layer_drawing(layers([1.0] * 40))
    names = [path.get("aria-label") for path in parsed(drawing).iter(f"{SVG}path") if path.get("opacity") == "0"]
    assert names == [f"layer {place} (conv{place})" for place in range(40)]
    assert (
        "<title>layer 39 (conv39)</title>"
        in Figure("f", "t", "a", layer_panel(pd.DataFrame(layers([1.0] * 40)), "norm", COLOURS)).file()
    )


def test_panels_share_their_vertical_axis_unless_one_took_less_than_a_quarter_of_it():
    rows = layers([1.0, 1.5])
    frames = (None, pd.DataFrame(rows + layers([0.4, 1.9])), pd.DataFrame(rows + layers([0.001, 3.0])))
    alone, together, squeezed = (
        [mark.y for mark in marks_of(layer_drawing(rows, beside=frame)).values()] for frame in frames
    )
    assert together[0] - together[1] < alone[0] - alone[1]
    assert squeezed == alone


@pytest.mark.parametrize(("values", "lines"), [([-1.0, 2.0], 2), ([0.01, 3.0], 1)], ids=["linear", "logarithmic"])
def test_values_of_note_have_dashed_lines(values, lines):
    drawing = layer_drawing(layers(values), marked=(0, 1))
    assert len([line for line in parsed(drawing).iter(f"{SVG}line") if line.get("stroke-dasharray") == "4,3"]) == lines


def test_a_gradient_that_vanished_to_zero_is_hollow_at_the_lower_edge_and_explained():
    specification = layer_panel(pd.DataFrame(layers([1.0, 1e-20, 0.0])), "gradient norm", COLOURS)
    marks = marks_of(drawn(specification))
    zero = marks["kaiming, layer 2 (conv2): 0"]
    assert (zero.y, zero.fill, zero.stroke) == (HEIGHT, None, "#0072b2")
    assert len(lines_of(drawn(specification))[0][3]) == 2
    assert [(entry.label, entry.shape) for entry in legend_of(specification)][-1] == ("0", "hollow")


def test_values_that_are_not_finite_are_triangles_at_the_upper_edge():
    specification = layer_panel(pd.DataFrame(layers([1.0, math.inf, math.inf])), "norm", COLOURS)
    marks = marks_of(drawn(specification))
    assert [mark.y for words, mark in marks.items() if words.endswith("not finite")] == [0, 0]
    assert legend_of(specification)[-1].label == "not finite"


def test_before_is_dashed_and_after_solid():
    rows = layers([3.0, 4.0], kind="before") + layers([1.0, 2.0], kind="after")
    specification = layer_panel(pd.DataFrame(rows), "norm", COLOURS)
    before, after = sorted(lines_of(drawn(specification)), key=lambda line: line[3][0][1])
    assert before[1]
    assert not after[1]
    assert [entry.label for entry in legend_of(specification)] == ["kaiming", "after tuning", "before tuning"]
    assert "kaiming, before tuning, layer 0 (conv0): 3" in marks_of(drawn(specification))


def test_curves_over_depth_say_where_they_are():
    values = pd.DataFrame(layers([1.0, 2.0])).rename(columns={"place": "depth"})
    panel = value_panel(values.assign(depth=[10, 28]), "depth", "depth", "gradient quotient", COLOURS)
    assert set(marks_of(drawn(panel))) == {"kaiming, depth 10: 1", "kaiming, depth 28: 2"}


def steps_panel(values, **options):
    rows = [row | {"step": step} for (step, _), row in zip(values, layers([value for _, value in values]), strict=True)]
    return value_panel(pd.DataFrame(rows), "step", "training steps", "error", COLOURS, log_x=True, **options)


def test_a_logarithmic_axis_has_equal_ratios_at_equal_distances_and_zero_hollow_below():
    values = ((1, 0.8), (10, 0.08), (100, 0.008), (1000, 0.0))
    marks = marks_of(drawn(steps_panel(values, log_y=True)))
    *positive, zero = marks.values()
    for axis in ("x", "y"):
        steps = [getattr(b, axis) - getattr(a, axis) for a, b in itertools.pairwise(positive)]
        assert steps[0] == pytest.approx(steps[1])
    assert (zero.y, zero.stroke, zero.fill) == (HEIGHT, "#0072b2", None)


def test_step_zero_is_left_out_where_steps_are_logarithmic():
    assert len(marks_of(drawn(steps_panel([(step, 0.5) for step in (0, 1, 10)])))) == 2


def test_missing_values_are_left_out_and_nothing_is_no_drawing():
    rows = layers([1.0, math.nan, 3.0])
    assert len(marks_of(layer_drawing(rows))) == 2
    assert layer_panel(pd.DataFrame(layers([math.nan])), "norm", COLOURS) is None
    assert layer_panel(pd.DataFrame(layers([math.inf])), "norm", COLOURS) is None
    assert layer_panel(pd.DataFrame(columns=list(rows[0])), "norm", COLOURS) is None


def test_only_zeros_are_drawn_on_a_linear_axis():
    assert len(marks_of(layer_drawing(layers([0.0, 0.0]), log=True))) == 2


def test_the_tuners_objective_falls_on_a_logarithmic_axis_with_a_band_over_seeds():
    rows = [
        {
            "treatment": name,
            "step": step,
            "value_median": start * 0.5**step,
            "value_smallest": start * 0.4**step,
            "value_largest": start * 0.6**step,
        }
        for name, start in (("kaiming", 4.0), ("metainit", 2.0))
        for step in range(6)
    ]
    titles = {"across": "steps of the tuner", "up": "gradient quotient (GQ)"}
    drawing = drawn(value_panel(pd.DataFrame(rows), "step", colours=COLOURS, log_y=True, **titles))
    assert sorted(bands_of(drawing)) == sorted(COLOURS.values())
    for _, _, _, points in lines_of(drawing):
        falls = [b[1] - a[1] for a, b in itertools.pairwise(points)]
        assert falls == pytest.approx([falls[0]] * 5, abs=2e-3)  # drawn to thousandths
    assert ">gradient quotient (GQ), log scale</text>" in drawing
    assert ">steps of the tuner</text>" in drawing
