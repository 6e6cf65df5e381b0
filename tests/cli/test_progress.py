import io
import sys
from contextlib import redirect_stdout

import pytest
from ledgers import KAIMING, PLAIN, WRN, make_record, make_spec
from rich.console import Console

from initbench.cli.progress import Display, duration
from initbench.execution import time_left
from initbench.execution.time_left import TimeLeft
from suites import plan_of_trials


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(time_left.time, "monotonic", lambda: Clock.now)
    return Clock


def trials(*pairs):
    return tuple(make_spec(KAIMING, architecture, seed) for architecture, seed in pairs)


def test_the_time_left_is_that_of_trials_of_the_same_kind(clock):
    specs = trials((PLAIN, 0), (PLAIN, 1), (WRN, 0), (WRN, 1))
    left = TimeLeft(specs)
    assert left.seconds() is None
    for spec, seconds in ((specs[0], 10), (specs[2], 40)):
        left.started(spec.id)
        clock.now += seconds
        assert left.finished(spec.id) == seconds
    assert left.seconds() == 10 + 40  # one at a time: the plain trial and the WRN trial that are left
    left.started(specs[1].id)
    left.started(specs[3].id)
    clock.now += 4
    assert left.seconds() == (6 + 36) / 2  # two at a time now, 4 seconds of each done


def test_the_time_left_before_any_trial_has_ended_comes_from_what_running_ones_tell(clock):
    specs = trials((PLAIN, 0), (PLAIN, 1))
    left = TimeLeft(specs)
    left.started(specs[0].id)
    clock.now += 30
    left.fractions[specs[0].id] = 0.25
    assert left.seconds() == (120 - 30) + 120


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (61, "1 min 1 s"), (3599.7, "1 h 0 min"), (7265, "2 h 1 min")],
)
def test_durations_read_as_a_person_would_say_them(seconds, text):
    assert duration(seconds) == text


def shown(display, terminal):
    display.console = Console(file=io.StringIO(), force_terminal=terminal, width=200, highlight=False)
    return display.console.file


def test_without_a_terminal_each_finished_trial_is_one_line(clock):
    specs = trials((PLAIN, 0), (PLAIN, 1), (WRN, 0))
    display = Display(plan_of_trials(specs))
    out = shown(display, terminal=False)
    display.begin(specs, 0, 0)
    for spec, status, error in zip(specs, ("finished", "diverged", "failed"), (0.125, None, None), strict=True):
        display.started(spec)
        clock.now += 5
        display.finished(make_record(spec, test_error=error, status=status))
    display.end()
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[0] == "3 trials to run"
    assert lines[1].startswith("[1/3] finished  plain[depth=28, width=1] · kaiming · seed 0  test error 12.50 %  5.0 s")
    assert "(10 s left)" in lines[1]
    assert lines[2].startswith("[2/3] diverged  plain[depth=28, width=1] · kaiming · seed 1  at step")
    assert lines[3].startswith("[3/3] failed    wrn[depth=28, width=1] · kaiming · seed 0")


def test_a_line_says_what_tells_its_trial_from_the_others():
    plain = make_spec(KAIMING, PLAIN, 0)
    other = plain.dataset.model_copy(update={"name": "gaussian"})
    specs = (
        plain,
        plain.model_copy(update={"dataset": other}),
        plain.model_copy(update={"recipe": plain.recipe.model_copy(update={"lr": 0.25})}),
    )
    display = Display(plan_of_trials(specs))
    out = shown(display, terminal=False)
    display.begin(specs, 0, 0)
    for spec in specs:
        display.finished(make_record(spec, test_error=0.125, status="finished"))
    names = [line.partition("finished  ")[2].split("  ")[0] for line in out.getvalue().splitlines()[1:]]
    lr = f"lr={plain.recipe.lr}"
    assert names == [
        f"plain[depth=28, width=1] · kaiming · {plain.dataset.name} · {lr} · seed 0",
        f"plain[depth=28, width=1] · kaiming · gaussian · {lr} · seed 0",
        f"plain[depth=28, width=1] · kaiming · {plain.dataset.name} · lr=0.25 · seed 0",
    ]


def test_one_trial_is_one():
    specs = trials((PLAIN, 0), (PLAIN, 1))
    display = Display(plan_of_trials(specs))
    out = shown(display, terminal=False)
    display.begin(specs[:1], 1, 0)
    assert out.getvalue() == "1 trial to run, 1 has a result already\n"


def test_the_display_leaves_the_standard_output_alone(clock):  # it must not wait
    """It begins while an executor keeps the libraries silent, and ends after that."""
    specs = trials((PLAIN, 0))
    display = Display(plan_of_trials(specs))
    shown(display, terminal=True)
    before = sys.stdout
    with redirect_stdout(io.StringIO()):
        display.begin(specs, 0, 0)
    display.end()
    assert sys.stdout is before


def test_on_a_terminal_the_counts_and_the_time_left_are_shown(clock):
    specs = trials((PLAIN, 0), (PLAIN, 1), (WRN, 0))
    display = Display(plan_of_trials(specs))
    out = shown(display, terminal=True)
    display.begin(specs[1:], 1, 0)
    display.started(specs[1])
    clock.now += 8
    display.finished(make_record(specs[1], test_error=None, status="diverged"))
    display.started(specs[2])
    display.live.refresh()
    display.end()
    text = out.getvalue()
    assert "2/3" in text
    assert "1 running, 1 diverged, 0 failed, 8.0 s left" in text
