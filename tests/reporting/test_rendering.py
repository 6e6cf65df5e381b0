"""Drawings that are made in a process of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from initbench.reporting.charts import rendering

POINTS = {
    "data": {"values": [{"x": 1, "y": 2, "label": "β ≥ 1\nline"}, {"x": 2, "y": 3, "label": '"quoted"'}]},
    "mark": "point",
    "encoding": {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
        "shape": {"field": "label", "type": "nominal"},
    },
}


def test_the_drawing_is_the_one_of_this_process():
    assert rendering.begin(POINTS).result() == rendering.to_svg(POINTS)


def test_they_come_in_the_order_in_which_they_were_begun():
    specifications = [POINTS | {"width": width} for width in (100, 200, 300)]
    drawn = [begun.result() for begun in [rendering.begin(each) for each in specifications]]
    assert drawn == [rendering.to_svg(each) for each in specifications]


def test_what_cannot_be_drawn_raises_as_it_does_here():
    wrong = POINTS | {"mark": "no such mark"}
    with pytest.raises(ValueError, match="conversion failed") as here:
        rendering.to_svg(wrong)
    with pytest.raises(ValueError, match="conversion failed") as there:
        rendering.begin(wrong).result()
    assert str(there.value) == str(here.value)
    assert rendering.begin(POINTS).result() == rendering.to_svg(POINTS)


def test_where_the_process_is_killed_they_are_drawn_here():
    drawing = rendering._Drawing()
    assert drawing.submit(POINTS).result() == rendering.to_svg(POINTS)
    drawing._process.kill()
    drawing._process.wait()
    assert drawing.submit(POINTS).result() == rendering.to_svg(POINTS)


def test_where_there_can_be_no_process_they_are_drawn_here(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert rendering._Drawing().submit(POINTS).result() == rendering.to_svg(POINTS)


def test_the_process_ends_with_python_and_loads_nothing_of_this_package():
    """A drawing process that was left behind would keep its standard output open, and `run` would wait for it."""
    code = (
        "from initbench.reporting.charts import rendering\n"
        f"print(len(rendering.begin({POINTS!r}).result()) > 100)\n"
        "modules = __import__('pathlib').Path(f'/proc/{rendering._drawing()._process.pid}/maps').read_text()\n"
        "print('vl_convert' in modules, 'pandas' in modules, 'torch' in modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=Path(rendering.__file__).parents[3],
    )
    assert done.stdout == "True\nTrue False False\n"
    assert done.stderr == ""
