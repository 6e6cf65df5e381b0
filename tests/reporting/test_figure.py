"""A figure for a page, for a file of its own and for a paper."""

from __future__ import annotations

import math
import re
import shutil
import struct
import subprocess

import pytest
from drawings import SVG, marks_of, parsed

from initbench.errors import InitbenchError
from initbench.reporting.charts.axis import axis
from initbench.reporting.charts.figure import MARKER, Figure
from initbench.reporting.charts.legend import legend_of
from initbench.reporting.charts.lines import lines
from initbench.reporting.charts.style import PAGE_INK

COLOURS = {"kaiming & co": "#0072b2", "metainit": "#d55e00"}
NO_BAND = {"low": math.nan, "high": math.nan}
FINDING = 'On plain-28, metainit ends at 2.5 %, kaiming & co at "89.7 %".'


def figure(name="steps-plain-28", labels=2, title="Error by training step: plain-28", colours=COLOURS):
    points = [
        {"series": label, "kind": kind, "x": x, "value": x * (k + 1), "words": f"{label}, step {x}", **NO_BAND}
        for k, label in enumerate(list(colours)[:labels])
        for x in (1, 2, 3)
        for kind in ("test", "train")
    ]
    panel = lines(points, colours, axis("training steps"), axis("error (%)"))
    return Figure(name, title, FINDING, panel)


def texts(svg):
    return ["".join(text.itertext()) for text in parsed(svg).iter(f"{SVG}text")]


def test_page_form_has_the_pages_colour_the_finding_and_no_words_of_its_own():
    svg = figure().svg
    root = parsed(svg)
    assert (root.get("role"), root.get("aria-label")) == ("img", FINDING)
    painted = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg)) - {"none", "transparent"}
    assert painted == {"currentColor", *COLOURS.values()}
    assert not {"kaiming & co", "metainit", "train"} & set(texts(svg))  # the page has the legend
    assert {"training steps", "error (%)"} <= set(texts(svg))
    assert not re.findall(r"<style|<script|<image|\bid=|https?://(?!www\.w3\.org)", svg)


def test_equal_figures_have_equal_texts_however_they_are_drawn():
    ahead = [figure(f"f{i}") for i in range(4)]
    for one in ahead:
        one.begin()
    assert {one.svg for one in ahead} == {figure().svg}
    assert figure().file() == figure().file()


def test_the_legend_has_the_colours_of_what_is_drawn():
    def coloured(one):
        return {entry.label: entry.colour for entry in one.legend if entry.colour != PAGE_INK}

    assert coloured(figure()) == COLOURS
    assert coloured(figure(labels=1)) == {"kaiming & co": "#0072b2"}
    assert figure().legend == legend_of(figure().specification)
    assert Figure("a", "A", "A.", {**figure().specification, "usermeta": {}}).legend == []


def test_legend_tells_labels_apart_by_shape_and_train_from_test_by_dash():
    legend = legend_of(figure().specification)
    assert [entry.label for entry in legend] == [*COLOURS, "test", "train"]
    assert [entry.shape for entry in legend] == ["circle", "square", "line", "dashed"]
    assert len({entry.path for entry in legend}) == 4


def test_file_stands_alone_with_title_legend_finding_and_fixed_colours():
    text = figure().file()
    assert MARKER in text[:200]
    assert "currentColor" not in text
    root = parsed(text)
    assert root.find(f"{SVG}title").text == "Error by training step: plain-28"
    assert root.find(f"{SVG}desc").text == FINDING
    found = texts(text)
    assert found[0] == "Error by training step: plain-28"
    assert found[-4:] == ["kaiming & co", "metainit", "test", "train"]
    # Nothing is cut: the legend's last line is within the picture.
    lowest = max(float(node.get("y")) for node in root.findall(f"{SVG}text"))
    assert lowest < float(root.get("height"))


def test_a_wide_drawing_takes_two_panels():
    assert not figure().is_wide
    wide = Figure("a", "A", "A.", {**figure().specification, "width": 500})
    assert wide.is_wide


@pytest.mark.skipif(not shutil.which("pdffonts"), reason="needs pdffonts of poppler-utils")
def test_pdf_has_its_size_and_embeds_its_fonts(tmp_path):
    path = figure().save(tmp_path / "f.pdf", width=4.0, height=2.5)
    fonts = subprocess.run(["pdffonts", path], capture_output=True, text=True, check=True).stdout.splitlines()
    heading, rows = fonts[0], fonts[2:]
    assert rows
    assert all(row[heading.index("emb") :].startswith("yes") for row in rows)
    size = subprocess.run(["pdfinfo", path], capture_output=True, text=True, check=True).stdout
    assert re.search(r"Page size:\s+288 x 180 pts", size)
    words = subprocess.run(["pdftotext", path, "-"], capture_output=True, text=True, check=True).stdout
    for text in ("kaiming & co", "metainit", "train", "error (%)", "training steps", "plain-28"):
        assert text in words


def test_png_has_three_hundred_dots_per_inch(tmp_path):
    data = figure().save(tmp_path / "f.png", width=4.0, height=2.5).read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1200, 750)


def test_svg_for_paper_is_dark_on_white_with_legend_title_and_description(tmp_path):
    text = figure().save(tmp_path / "f.svg", width=4.0, height=2.5).read_text(encoding="utf-8")
    root = parsed(text)
    assert (root.get("width"), root.get("height")) == ("4in", "2.5in")
    assert root.get("viewBox") == "0 0 288 180"
    assert root.find(f"{SVG}desc").text == FINDING
    assert "currentColor" not in text
    assert {"kaiming & co", "metainit", "test", "train", "Error by training step: plain-28"} <= set(texts(text))
    without = figure().save(tmp_path / "g.svg", title=False).read_text(encoding="utf-8")
    assert "Error by training step: plain-28" not in texts(without)


def test_a_legend_of_thirty_leaves_room_for_the_drawing():
    colours = {f"initializer of a long name {i}": "#0072b2" for i in range(30)}
    paper = figure(labels=30, colours=colours).on_paper(5.0, 3.2)
    assert paper["width"] == 360
    assert paper["height"] > 3.2 * 72
    assert figure().on_paper(5.0, 3.2)["height"] == pytest.approx(3.2 * 72)


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("f.jpg", {}, "f.jpg: a figure's file ends in .svg, .pdf or .png"),
        ("f", {}, "f: a figure's file ends in .svg, .pdf or .png"),
        ("f.pdf", {"width": 0.0}, "f.pdf: width must be from 1 to 100 inches, got 0"),
        ("f.pdf", {"height": float("nan")}, "f.pdf: height must be from 1 to 100 inches, got nan"),
        ("no/such/f.svg", {}, "no/such/f.svg: No such file or directory"),
    ],
)
def test_what_cannot_be_saved_is_said_in_one_line(tmp_path, monkeypatch, name, sizes, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InitbenchError, match=f"^{re.escape(message)}$"):
        figure().save(name, **sizes)
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_shows_the_file():
    shown = figure()._repr_mimebundle_()
    assert shown["image/svg+xml"] == figure().file()
    assert FINDING in shown["text/plain"]


def test_marks_say_what_they_are():
    assert set(marks_of(figure().svg)) == {f"{label}, step {x}" for label in COLOURS for x in (1, 2, 3)}


def test_names_of_eighty_characters_leave_the_figure_its_width(tmp_path):
    colours = {f"{i} " + "long " * 16: "#0072b2" for i in range(2)}
    text = figure(colours=colours).save(tmp_path / "f.svg", width=3.0).read_text(encoding="utf-8")
    assert parsed(text).get("width") == "3in"
    cut = [label for label in texts(text) if "long" in label]
    assert len(cut) == 2
    assert all(label.endswith("…") for label in cut)
