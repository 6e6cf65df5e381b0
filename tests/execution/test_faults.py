"""Faults of trials, really injected: each ends its own trial, and the record says which it was."""

import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_executors import FAULTS, PLUGIN, SUITE, initbench, start

from initbench import plugins
from initbench.execution import trial_process
from initbench.execution.executor import Limits
from initbench.execution.failure import MEMORY_LIMIT, TIME_LIMIT, WORKER_LOST
from initbench.execution.processes import family, memory_of
from initbench.execution.trial_process import TrialProcess
from initbench.ledger import Ledger
from initbench.suite.document import parse
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.plan import plan

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are seen in /proc")
# A shell that starts the tests in its background has them ignore Ctrl-C, and so would what they start.
WORKER = f"""
import signal
from pathlib import Path
from test_faults import plugins, specs_of
from initbench.execution.trial_process import TrialProcess
signal.signal(signal.SIGINT, signal.default_int_handler)
process = TrialProcess("cpu")
process.run(specs_of("leave_behind_and_sleep")[0], options={{"plugins": (plugins.read_file(Path({str(PLUGIN)!r})),)}})
"""


def specs_of(*kinds):
    """Return a trial for each kind of fault."""
    plugins.load_file(plugins.read_file(PLUGIN))
    text = FAULTS.replace("raise, kill, system_exit, data_root", ", ".join(kinds)).replace("  - kaiming\n", "")
    suite = suite_of(parse(text, "faults.yaml"))
    planned = plan(suite, descriptions=describe_datasets(suite)).trials
    by_kind = {spec.initializer.arguments["kind"]: spec for spec in planned}
    return [by_kind[kind] for kind in kinds]


@pytest.fixture
def left(tmp_path, monkeypatch):
    """The path of a file that trials make when they have started processes, and that all these know by its name."""
    monkeypatch.setenv("INITBENCH_TEST_LEFT", str(tmp_path / "left"))
    yield tmp_path / "left"
    for process in still_running(tmp_path / "left"):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def still_running(left):
    """Return the processes, but for this one and those that have ended, that have the path in their environment."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            known = f"INITBENCH_TEST_LEFT={left}\0".encode() in file.read_bytes()
        except OSError:
            continue
        if known and int(file.parent.name) != os.getpid():
            found.append(int(file.parent.name))
    return found


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


@pytest.mark.slow
def test_whatever_ends_a_trial_its_worker_lives_and_tells():
    options = {"plugins": (plugins.read_file(PLUGIN),)}
    kinds = (
        "black_hole", "crash", "kill", "system_exit", "interrupt", "untellable", "run_out_of_memory", "take_memory",
        "sleep",
    )  # fmt: skip
    records = {}
    process = TrialProcess("cpu", Limits(memory_gb=1.5))  # a trial's process takes about half a gigabyte
    for spec in specs_of(*kinds):
        kind = spec.initializer.arguments["kind"]
        if kind == "sleep":
            process.limits = Limits(minutes=0.15)  # a trial takes milliseconds, loading libraries seconds
        records[kind] = process.run(spec, options=options)
    process.close()
    assert records.pop("black_hole").status == "finished"
    errors = {kind: record.error for kind, record in records.items()}
    assert {kind: error["type"] for kind, error in errors.items()} == {
        "crash": WORKER_LOST, "kill": WORKER_LOST, "system_exit": "SystemExit", "interrupt": "KeyboardInterrupt",
        "untellable": "UntellableError",
        "sleep": TIME_LIMIT, "run_out_of_memory": "RuntimeError", "take_memory": MEMORY_LIMIT,
    }  # fmt: skip
    assert errors["crash"]["message"] == "the trial's process died of SIGSEGV"
    assert "in crash" in errors["crash"]["traceback"]
    assert "died of SIGKILL, as the kernel does if memory runs out" in errors["kill"]["message"]
    assert errors["system_exit"]["message"] == "3"
    for kind in ("system_exit", "interrupt", "untellable"):
        assert errors[kind]["message"]
        assert "in apply" in errors[kind]["traceback"]
    assert errors["sleep"]["message"].startswith("the trial took longer than resources.minutes: 0.15")
    assert "in apply" in errors["sleep"]["traceback"]
    assert "allocate" in errors["run_out_of_memory"]["message"]
    assert errors["take_memory"]["message"].endswith("GB of memory, more than resources.memory_gb: 1.5")
    for record in records.values():
        assert record.environment["host"] == platform.node()
        assert record.environment["torch"]


def test_memory_of_a_process_and_its_children_counts_shared_pages_once():
    # The child shares all that its parent has: together they take hardly more than the parent alone.
    code = "import os,time; x=bytearray(200_000_000); os.fork(); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline(), process.stdout.readline()
            resident, shares = memory_of(process.pid, 1e12), memory_of(process.pid)
        finally:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            process.kill()
    assert resident > 400e6
    assert 200e6 < shares < 250e6
    assert memory_of(process.pid) == 0  # it is no more


@NEEDS_PROC
def test_memory_is_looked_at_while_messages_come_faster_than_the_looks(monkeypatch):
    monkeypatch.setattr(trial_process, "_SECONDS_BETWEEN_LOOKS", 600.0)  # the first look is at once
    process = TrialProcess("cpu", Limits(memory_gb=1e-6))
    process._process, process._used = SimpleNamespace(pid=os.getpid(), poll=lambda: None), True
    process._connection, trial = Pipe()
    for epoch in range(3):
        trial.send(("progress", (epoch, 3)))
    kind, taken = process._next_message(math.inf)
    assert kind == "memory"
    assert taken > 1e6
    assert process._next_message(math.inf) == ("progress", (0, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "limits", "error"),
    [
        ("leave_behind_and_crash", Limits(), WORKER_LOST),
        ("leave_behind_and_exit", Limits(), WORKER_LOST),
        ("leave_behind_and_sleep", Limits(minutes=0.1), TIME_LIMIT),
        ("orphan_takes_memory", Limits(memory_gb=0.8), MEMORY_LIMIT),
    ],
)
def test_what_a_trial_has_started_has_ended_when_its_record_comes(left, kind, limits, error):
    process, options = TrialProcess("cpu"), {"plugins": (plugins.read_file(PLUGIN),)}
    process.run(specs_of("black_hole")[0], options=options)  # loads libraries, for seconds
    process.limits = limits
    record = process.run(specs_of(kind)[0], options=options)
    assert still_running(left) == []
    assert record.error["type"] == error
    assert left.exists() or kind == "orphan_takes_memory"
    process.close()


@pytest.mark.slow
@NEEDS_PROC
def test_what_a_finished_trial_has_left_takes_no_cores_of_the_next(left):
    process, options, numbers = TrialProcess("cpu"), {"plugins": (plugins.read_file(PLUGIN),)}, []
    for spec in specs_of("leave_behind", "black_hole", "pool", "fork", "diverge"):
        record = process.run(spec, options=options)
        assert (record.id, record.error) == (spec.id, None)
        numbers.append(process._process and process._process.pid)
        if spec.initializer.arguments["kind"] == "leave_behind":
            assert left.exists()
            assert still_running(left) == []
    assert numbers[0] is None
    assert numbers[1] == numbers[2]  # it runs trial after trial where they leave nothing but helpers
    process.close()


@pytest.mark.slow
@NEEDS_PROC
@pytest.mark.parametrize(
    ("whom", "number"),
    [
        ("worker", signal.SIGKILL),
        ("group", signal.SIGKILL),
        ("group", signal.SIGINT),  # as a terminal sends it
        ("first keeper", signal.SIGKILL),  # as Ray does where a worker ends
        ("second keeper", signal.SIGKILL),
        ("trial", signal.SIGKILL),
    ],
)
def test_nothing_is_left_whoever_is_killed(left, whom, number):
    paths = os.pathsep.join([str(PLUGIN.parent), str(PLUGIN.parent.parent), *filter(None, sys.path)])
    worker = subprocess.Popen([sys.executable, "-c", WORKER], env=os.environ | {"PYTHONPATH": paths}, process_group=0)
    try:
        wait_until(lambda: left.exists() or worker.poll() is not None, 60)
        who = dict(zip(("worker", "first keeper", "second keeper", "trial"), family(worker.pid), strict=False))
        if whom == "group":
            os.killpg(worker.pid, number)
        else:
            os.kill(who[whom], number)
        wait_until(lambda: still_running(left) == [], 20)
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.slow
@pytest.mark.parametrize(("to_group", "twice"), [(False, False), (True, False), (True, True)])
def test_sigterm_does_what_ctrl_c_does(tmp_path, left, to_group, twice):
    (tmp_path / "suite.yaml").write_text(
        SUITE.replace("  - kaiming\n", "  - kaiming\n  - {name: fault, kind: leave_behind_and_sleep}\n")
    )
    command = [sys.executable, "-m", "initbench", "run", "suite.yaml", "--plugin", str(PLUGIN)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    driver = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes)
    trials = tmp_path / "runs/faults/trials"
    while not left.exists() or not trials.is_dir() or not list(trials.glob("*.json")):
        assert driver.poll() is None
        time.sleep(0.05)
    begun = time.monotonic()
    for _ in range(1 + twice):
        if to_group:  # as SLURM does: Ray's processes and the trials get it, too
            os.killpg(driver.pid, signal.SIGTERM)
        else:
            driver.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 143
    assert err == ""
    assert time.monotonic() - begun < (5 if twice else 25)  # the trial under way would have slept for 600 s
    if not twice:
        kept = len(list(trials.glob("*.json")))
        assert f"interrupted: {kept} of 20 trials are kept in runs/faults, " in out
        assert f"to go on from here: initbench run suite.yaml --plugin {PLUGIN}\n" in out
        assert (tmp_path / "runs/faults/report/index.html").exists()
    deadline = time.monotonic() + 20
    while still_running(left) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert still_running(left) == []  # nothing that the run and its trials have started outlives it


@pytest.mark.slow
@NEEDS_PROC
def test_kill_9_of_a_run_ends_what_its_trials_have_started(tmp_path, left):
    (tmp_path / "suite.yaml").write_text(
        FAULTS.replace("raise, kill, system_exit, data_root", "leave_behind_and_sleep")
    )
    driver = start("run", "suite.yaml", "--plugin", PLUGIN, cwd=tmp_path)
    while not left.exists():
        assert driver.poll() is None
        time.sleep(0.05)
    wait_until(lambda: len(sleeping(left)) == 4, 5)
    driver.kill()
    driver.communicate()
    wait_until(lambda: sleeping(left) == [], 20)


def sleeping(left):
    return [process for process in still_running(left) if is_sleep(process)]


def is_sleep(process):
    with suppress(OSError):  # it may end between the two looks
        return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"sleep\0")
    return False


@pytest.mark.slow
def test_trials_that_ray_ends_for_want_of_memory_are_lost_and_the_others_run(tmp_path, monkeypatch):
    """Ray looks at the memory every 40 seconds, and finds more taken than the 1 % that is allowed here."""
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.01")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "40000")
    initializers = "  - {name: fault, kind: sleep}\n  - kaiming\n"
    (tmp_path / "suite.yaml").write_text(f"{SUITE.partition('  - kaiming')[0]}{initializers}recipe: {{epochs: 1}}\n")
    out = initbench("run", "suite.yaml", "--plugin", PLUGIN, cwd=tmp_path, check=1)
    assert "4 trials: 2 finished, 2 failed" in out
    records = Ledger(tmp_path / "runs/faults").records()
    assert Counter((record.spec["initializer"]["name"], record.status) for record in records) == {
        ("kaiming", "finished"): 2,
        ("fault", "failed"): 2,
    }
    for record in records:
        if record.status == "failed":
            assert record.error["type"] == WORKER_LOST
            assert record.error["message"].startswith("its machine ran low on memory (")
