"""Every text of the page can be read on its ground, computed from the colours that stand in its style."""

from __future__ import annotations

import re

import pytest
from made_page import contents, render_html

from initbench.reporting.charts.style import contrast
from initbench.reporting.page.shades import STEPS, ramp, step

AA = 4.5
ON = [
    ("text", "ground"),
    ("quiet", "ground"),
    ("accent", "ground"),
    ("bad", "ground"),
    ("text", "raised"),
    ("bad", "bad-ground"),
    ("quiet", "hatch"),
    ("quiet", "hatch-ground"),
]


def split_style():
    """The page's style: what holds for light, and what stands in the queries for dark."""
    style = re.search(r"<style>(.*?)</style>", render_html(contents()), re.DOTALL)[1]
    dark, light, end = "", "", 0
    for start in re.finditer(r"@media screen and \(prefers-color-scheme: dark\) \{", style):
        depth, at = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(style[at], 0)
            at += 1
        light += style[end : start.start()]
        dark += style[start.end() : at - 1]
        end = at
    return {"light": light + style[end:], "dark": dark}


STYLE = split_style()


@pytest.mark.parametrize(("one", "other", "expected"), [("#000000", "#ffffff", 21), ("#ffffff", "#ffffff", 1)])
def test_contrast_at_its_ends(one, other, expected):
    assert contrast(one, other) == pytest.approx(expected)
    assert contrast(other, one) == pytest.approx(expected)


def test_contrast_of_a_known_grey():
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)  # the first grey that fails AA on white


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_every_level_can_be_read(scheme):
    levels = re.findall(r"\.l(\d+)\{background:(#\w{6});color:(#\w{6})\}", STYLE[scheme])
    assert [int(number) for number, _, _ in levels] == list(range(STEPS))
    for number, ground, ink in levels:
        assert contrast(ground, ink) >= AA, number


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_every_other_part_can_be_read(scheme):
    root = re.search(r":root \{(.*?)\}", STYLE[scheme], re.DOTALL)[1]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", root))
    for text, ground in ON:
        assert contrast(colours[text], colours[ground]) >= AA, (text, ground)


@pytest.mark.parametrize("dark", [False, True])
def test_better_values_stand_out_more_from_the_page(dark):
    page = "#10151b" if dark else "#ffffff"
    distances = [contrast(ground, page) for ground, _ in ramp(dark=dark)]
    assert distances == sorted(distances)
    assert len(set(distances)) == STEPS


@pytest.mark.parametrize(("level", "expected"), [(0, 0), (1, STEPS - 1), (0.5, 10), (-3, 0), (7, STEPS - 1)])
def test_levels_outside_are_taken_as_the_ends(level, expected):
    assert step(level) == expected
