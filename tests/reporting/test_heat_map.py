"""The overview as a chart: what each cell shows, by more than colour."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from drawings import SVG, drawn, parsed
from PIL import Image

from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.heat_map import colour_of, heat_map
from initbench.reporting.charts.style import ink_on

STATES = ["trained", "untrained", "diverged", "incompatible", "failed", "missing", "measured"]


def cell(state, treatment="kaiming", workload="plain-28", text="2.5 %", note="", level=math.nan):
    return {"treatment": treatment, "workload": workload, "text": text, "note": note, "level": level, "state": state}


def drawing(*cells):
    return parsed(drawn(heat_map(pd.DataFrame(cells))))


def boxes(root):
    return {e.get("aria-label"): e for e in root.iter(f"{SVG}path") if e.get("aria-roledescription") == "rect mark"}


def texts(root):
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def look(state):
    """Return what a cell shows whatever its colours: stripes, crosses, full frames, dashed frames, a ground."""
    root = drawing(cell(state, level=0.5))
    (box,) = boxes(root).values()
    paths = [path for path in root.iter(f"{SVG}path") if path.get("aria-hidden") != "true"]
    stripes = [line for line in root.iter(f"{SVG}line") if line.get("opacity") == "0.22"]
    crosses = [path for path in paths if "rotate(45)" in (path.get("transform") or "")]
    dashed = [e for e in root.iter() if e.get("stroke-dasharray") == "4,3"]
    frame = box.get("stroke") not in {None, "transparent"}
    return bool(stripes), len(crosses), frame, len(dashed), box.get("fill") not in {None, "transparent"}


def test_states_are_told_apart_by_more_than_colour():
    looks = {state: look(state) for state in STATES}
    assert looks == {
        "trained": (False, 0, False, 0, True),
        "measured": (False, 0, False, 0, True),
        "untrained": (True, 0, True, 0, False),
        "diverged": (False, 1, True, 0, True),
        "failed": (False, 0, False, 1, False),
        "incompatible": (False, 0, False, 0, False),
        "missing": (False, 0, False, 0, False),
    }


def test_better_is_darker_and_its_text_has_contrast_on_every_ground():
    grounds = [colour_of(level / 20) for level in range(21)]
    brightness = [sum(int(ground[i : i + 2], 16) for i in (1, 3, 5)) for ground in grounds]
    assert brightness == sorted(brightness, reverse=True)
    assert len(set(brightness)) == 21
    for ground in [*grounds, colour_of(math.nan)]:
        light, dark = sorted((luminance(ground), luminance(ink_on(ground))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_levels_beyond_the_ends_have_the_ends_colours():
    assert colour_of(-1.0) == colour_of(0.0)
    assert colour_of(2.0) == colour_of(1.0)


def test_cells_stand_in_the_order_of_the_frame_and_say_what_they_are():
    root = drawing(
        cell("missing", "metainit", "WRN-28", "missing"),
        cell("trained", "metainit", "plain-28", "2.5 %", level=1.0),
        cell("trained", "kaiming", "plain-28", "89.7 %", level=0.0),
        cell("diverged", "kaiming", "WRN-28", "diverged", note="3 of 3"),
    )
    found = boxes(root)
    places = {
        label: tuple(map(float, re.match(r"M([\d.]+),([\d.]+)", e.get("d")).groups())) for label, e in found.items()
    }
    best, worst, diverged = (
        places["metainit on plain-28: 2.5 %"],
        places["kaiming on plain-28: 89.7 %"],
        places["kaiming on WRN-28: diverged, 3 of 3"],
    )
    assert best[0] == worst[0]
    assert diverged[1] == worst[1]
    assert best[1] < worst[1]
    assert diverged[0] < worst[0]
    assert found["metainit on plain-28: 2.5 %"].get("fill") == colour_of(1.0)
    assert {"metainit", "kaiming", "WRN-28", "plain-28", "2.5 %", "89.7 %", "diverged", "3 of 3"} <= set(texts(root))


def test_names_and_texts_are_not_read_as_code():
    odd = "a'b\"c</script>${1}\\"
    root = drawing(cell("trained", odd, odd, odd, level=1.0))
    assert texts(root).count(odd) == 3


@pytest.mark.parametrize(("treatments", "workloads"), [(1, 1), (30, 40)])
def test_from_one_cell_to_many(treatments, workloads):
    rows = [
        cell(STATES[(i + j) % 7], f"t{i}", f"w{j}", f"{i}.{j}", level=i / 30)
        for i in range(treatments)
        for j in range(workloads)
    ]
    root = drawing(*rows)
    assert len(boxes(root)) == treatments * workloads
    assert {f"t{treatments - 1}", f"w{workloads - 1}"} <= set(texts(root))


def test_on_paper_a_slanted_name_is_not_cut_at_the_edge(tmp_path):
    """The margin of 6 px, which are 25 dots, is blank: a name that is cut reaches the edge."""
    names = [f"a network with a long name, number {number}" for number in range(5)]
    specification = heat_map(pd.DataFrame([cell("trained", workload=name, level=0.5) for name in names]))
    path = Figure("overview", "What happened", "", specification).save(tmp_path / "overview.png")
    dots = np.asarray(Image.open(path).convert("L"))
    assert dots[:, -18:].min() == 255
    assert dots.min() < 128


def test_where_cells_are_narrow_a_note_is_short():
    def noted(columns):
        root = drawing(*(cell("trained", workload=f"w{i}", note="3 of 5 seeds", level=0.5) for i in range(columns)))
        assert {label.endswith("3 of 5 seeds") for label in boxes(root)} == {True}
        return {text for text in texts(root) if text.startswith("3 of 5")}

    assert noted(4) == {"3 of 5 seeds"}
    assert noted(5) == {"3 of 5"}
