"""Drawings that are made in a process of their own, whatever becomes of it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import vl_convert

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
REQUEST = f"svg {json.dumps(POINTS)}"
DEADLY = REQUEST.replace("quoted", "\\u0000")  # vl-convert 1.9.0 aborts the process


@pytest.fixture
def drawing():
    """A process of the test's own, and its thread."""
    drawing = rendering._Drawing()
    yield drawing
    drawing.close()


def reason(begun):
    with pytest.raises(rendering.UndrawableError) as error:
        begun.result(60)
    return str(error.value)


def test_the_drawing_is_that_of_vl_convert():
    assert rendering.draw(POINTS).decode() == vl_convert.vegalite_to_svg(json.dumps(POINTS), vl_version="5.20")
    assert rendering.draw(POINTS, "pdf").startswith(b"%PDF")
    assert rendering.draw(POINTS, "png").startswith(b"\x89PNG")


def test_they_come_in_the_order_in_which_they_were_begun():
    specifications = [POINTS | {"width": width} for width in (100, 200, 300)]
    drawn = [begun.result() for begun in [rendering.begin(each) for each in specifications]]
    assert drawn == [rendering.draw(each) for each in specifications]
    assert len(set(drawn)) == 3


def test_what_vl_convert_refuses_is_said_in_one_line_and_the_next_is_drawn(drawing):
    wrong = reason(drawing.submit('svg {"mark": "no such mark"}'))
    assert wrong.startswith("Vega-Lite to SVG conversion failed: ")
    assert "\n" not in wrong
    assert len(wrong) < 200
    assert drawing.submit(REQUEST).result().startswith(b"<svg")


def test_a_figure_that_ends_the_process_costs_that_figure_alone(drawing, capfd):
    begun = [drawing.submit(request) for request in (REQUEST, DEADLY, DEADLY, REQUEST, DEADLY, REQUEST)]
    assert begun[0].result() == begun[3].result() == begun[5].result()
    assert {reason(begun[i]) for i in (1, 2, 4)} == {"the drawing process died of SIGABRT"}
    assert capfd.readouterr() == ("", "")  # no dump of a stack


def test_a_process_that_is_killed_between_two_figures_costs_none(drawing):
    first = drawing.submit(REQUEST).result()
    drawing._process.kill()
    drawing._process.wait()
    assert drawing.submit(REQUEST).result() == first


def test_a_process_that_only_ever_dies_is_given_up(drawing):
    deadly = [drawing.submit(DEADLY) for _ in range(rendering._MOST_DEATHS)]
    begun = drawing.submit(REQUEST)
    assert {reason(each) for each in (*deadly, begun)} == {"the drawing process died of SIGABRT"}
    assert drawing._process is None


def test_a_figure_that_takes_too_long_is_given_up_and_the_next_is_drawn(drawing, monkeypatch):
    drawing.submit(REQUEST).result()
    monkeypatch.setattr(rendering, "MOST_SECONDS", 1.0)
    os.kill(drawing._process.pid, signal.SIGSTOP)
    assert reason(drawing.submit(REQUEST)) == "the drawing process took more than 1 seconds"
    monkeypatch.undo()
    assert drawing.submit(REQUEST).result().startswith(b"<svg")


def test_where_there_can_be_no_process_nothing_is_drawn(drawing, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    begun = [drawing.submit(REQUEST) for _ in range(5)]
    assert {reason(each) for each in begun} == {"the drawing process cannot be started: No such file or directory"}


def test_ctrl_c_does_not_reach_it(drawing):
    drawing.submit(REQUEST).result()
    before = drawing._process.pid
    os.kill(before, signal.SIGINT)
    assert drawing.submit(REQUEST).result()
    assert drawing._process.pid == before


def test_what_is_invisible_or_not_finite_is_drawn():
    values = [{"x": 1, "y": 2, "label": "a\x00\x1b[2J\ud800"}, {"x": float("inf"), "y": float("nan"), "label": "b"}]
    svg = rendering.draw(POINTS | {"data": {"values": values}}).decode()
    assert r"a\x00\x1b[2J\ud800" in svg


def run(code, *, check=True):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(rendering.__file__).parents[3],
        check=check,
    )


def test_the_process_ends_with_python_and_loads_nothing_of_this_package():
    """A drawing process that was left behind would keep its standard output open, and `run` would wait for it."""
    code = (
        "from initbench.reporting.charts import rendering\n"
        f"print(len(rendering.draw({POINTS!r})) > 100)\n"
        "modules = __import__('pathlib').Path(f'/proc/{rendering._drawing()._process.pid}/maps').read_text()\n"
        "print('vl_convert' in modules, 'pandas' in modules, 'torch' in modules)\n"
        "import sys; print('vl_convert' in sys.modules)"
    )
    done = run(code)
    assert done.stdout == "True\nTrue False False\nFalse\n"
    assert done.stderr == ""


def test_python_ends_at_once_whatever_the_process_draws():
    code = (
        "import os, signal\n"
        "from initbench.reporting.charts import rendering\n"
        f"rendering.draw({POINTS!r})\n"
        "pid = rendering._drawing()._process.pid\n"
        "os.kill(pid, signal.SIGSTOP)\n"
        f"begun = [rendering.begin({POINTS!r}) for _ in range(20)]\n"
        "print(pid)"
    )
    begun = time.monotonic()
    done = run(code)
    assert time.monotonic() - begun < 30
    assert done.stderr == ""
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_the_process_ends_where_python_is_killed():
    code = (
        "import os, signal\n"
        "from initbench.reporting.charts import rendering\n"
        f"rendering.draw({POINTS!r})\n"
        "print(rendering._drawing()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = run(code, check=False)
    assert done.returncode == -signal.SIGKILL
    left = Path(f"/proc/{done.stdout.strip()}/cmdline")
    for _ in range(100):
        if not left.exists() or not left.read_bytes():  # a zombie, where nobody waits for orphans
            break
        time.sleep(0.1)
    else:
        pytest.fail("the drawing process is left behind")


def test_a_fork_draws_although_its_parent_has_drawn():
    """A fork has its parent's memory and none of its threads: what waited for the parent's would wait forever."""
    specification = {"mark": "point", "data": {"values": [{"x": 1}]}, "encoding": {"x": {"field": "x"}}}
    drawing = rendering.draw(specification)
    child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(0 if rendering.draw(specification) == drawing else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
