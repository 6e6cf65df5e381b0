"""SIGTERM and Ctrl-C at any moment: 143 and 130 as a shell has them, in order, and not a word of what was under way."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ledgers import make_record, make_spec
from short_run import AFTER_FIRST, SUITE, TRIALS, command, environment

from initbench.ledger import Ledger

SIGNALS = [signal.SIGTERM, signal.SIGINT]
BEFORE = "initbench: interrupted before anything was run or written\n"
DUMPS = re.compile(r"Traceback|terminate called|SIGTERM received|core dumped|Fatal|Exception ignored")


def start(folder, line, **more):
    """Start a shell that runs a command and says its exit code."""
    # A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            ["sh", "-c", 'echo $$; "$@"; echo "exit code $?"', "sh", *map(str, line)],
            cwd=folder,
            env=environment(folder, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def ended(shell, seconds=60):
    """Wait for the end; return the exit code that the shell saw, and what was said on both streams."""
    try:
        out, err = shell.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
        raise
    said, _, code = out.rpartition("exit code ")
    return int(code), said.partition("\n")[2], err


def child(shell):
    """The number of the process that the shell runs, as soon as it does."""
    children = Path(f"/proc/{shell.pid}/task/{shell.pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.001)
    return int(found[0])


def alive(session):
    """The command lines of a session's processes that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found.append(stat.with_name("cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended meanwhile
            continue
    return [words for words in found if words]  # one that is ending has given its memory back already


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def after_first(folder, *, while_imported="", work="pass"):
    """Start a run that imports a module when its first trial has ended, and then works with it."""
    imports = "import atexit, os, signal, threading, time\n"
    (folder / "surprise.py").write_text(f"{imports}{while_imported}\ndef work():\n    {work}\n")
    return start(folder, command(), **{AFTER_FIRST: "surprise"})


def kept(out):
    return f"interrupted: 1 of {TRIALS} trials are kept in runs/small" in out and "to go on from here: " in out


@pytest.mark.parametrize("number", SIGNALS)
def test_before_the_first_trial_a_signal_ends_the_process_at_once(folder, number):
    # While a plug-in is imported, which is when `torch` is, and starts something.
    plugin = "import os, signal, subprocess, time\nsubprocess.Popen(['sleep', '60'])\n"
    (folder / "plugin.py").write_text(f"{plugin}os.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n")
    shell = start(folder, [sys.executable, "-m", "initbench", "run", "suite.yaml", "--plugin", "plugin.py"])
    assert ended(shell) == (128 + number, "", BEFORE)
    assert alive(shell.pid) == []
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("moment", [0.0, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6])
def test_a_signal_while_libraries_are_imported(folder, moment):
    shell = start(folder, [sys.executable, "-m", "initbench", "run", "suite.yaml", "--executor", "in-process"])
    process = child(shell)
    time.sleep(moment)
    os.kill(process, signal.SIGTERM)
    code, _, err = ended(shell)
    assert code == 143
    assert DUMPS.search(err) is None
    assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("number", SIGNALS)
def test_an_import_is_ended_before_the_run(folder, number):
    """An exception amid the import of a library in C++ would abort the process."""
    code = f"os.kill(os.getpid(), {int(number)})\ntime.sleep(0.2)\nopen('whole', 'w').close()"
    found, out, err = ended(after_first(folder, while_imported=code))
    assert (found, err) == (128 + number, "")
    assert kept(out)
    assert (folder / "whole").exists()


def test_a_second_signal_amid_an_import_ends_the_process_at_once(folder):
    shell = after_first(folder, while_imported="print('importing', flush=True)\ntime.sleep(60)")
    while shell.stdout.readline() != "importing\n":
        pass
    process = child(shell)
    os.kill(process, signal.SIGTERM)
    time.sleep(0.5)
    assert shell.poll() is None
    os.kill(process, signal.SIGTERM)
    assert ended(shell, 10)[0] == 143


def test_an_interruption_that_a_finalizer_swallows_comes_again(folder):
    last = "class Last:\n    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)\n"
    code, out, err = ended(after_first(folder, while_imported=last, work="Last()"), 30)
    assert (code, err) == (143, "")
    assert kept(out)


def test_neither_threads_nor_exit_handlers_of_others_keep_an_interrupted_process(folder):
    others = "threading.Thread(target=time.sleep, args=(60,)).start()\natexit.register(time.sleep, 60)"
    shell = after_first(folder, while_imported=others, work="os.kill(os.getpid(), signal.SIGTERM)")
    code, out, err = ended(shell, 30)
    assert (code, err) == (143, "")
    assert kept(out)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_watching_a_run_ends_by_ctrl_c_as_it_should_and_by_sigterm(folder, number, code):
    ledger = Ledger(folder / "runs/small")
    ledger.write(make_record(make_spec({"name": "kaiming"})))
    with ledger.lock():
        shell = start(folder, [sys.executable, "-m", "initbench", "status", "--watch", "--every", "60"])
        process = child(shell)
        deadline = time.monotonic() + 10
        while "nanosleep" not in Path(f"/proc/{process}/wchan").read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process, number)
        found, out, err = ended(shell, 30)
    assert (found, err) == (code, "")
    assert "1 trials done" in out


@pytest.mark.slow
@pytest.mark.parametrize("moments", [[(8 * i + k) * 0.25 for k in range(8)] for i in range(5)], ids=lambda m: str(m[0]))
def test_sigterm_at_forty_moments_of_the_first_ten_seconds(folder, moments):
    for moment in moments:
        shell = start(folder, [sys.executable, "-m", "initbench", "run", "suite.yaml", "--out", f"runs{moment}"])
        process = child(shell)
        time.sleep(moment)
        os.kill(process, signal.SIGTERM)
        code, out, err = ended(shell, 120)
        assert code == 143, (moment, out, err)
        assert DUMPS.search(out + err) is None, (moment, out, err)
        deadline = time.monotonic() + 10
        while alive(shell.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert alive(shell.pid) == [], moment
        assert not list(folder.rglob("*.part")), moment
