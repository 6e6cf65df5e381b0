"""Output that nobody reads or that cannot be printed ends no command, and no foreign text reaches the terminal raw."""

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from ledgers import make_record, make_spec
from rich.live import Live
from rich.text import Text
from short_run import SUITE, TRIALS, command, environment

from initbench.cli.command_line import main
from initbench.cli.console import VisibleConsole
from initbench.cli.output import OutputStream, say_json
from initbench.cli.progress import Display
from initbench.ledger import Ledger
from suites import plan_of_trials

HOSTILE = "\x1b]0;title\x07 \x1b[2J \x9b31m \r \u202e txt.exe \x00"
RAW = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
SPEC = make_spec({"name": "kaiming"}, {"name": "mlp", "depth": 2})


@pytest.fixture
def folder(tmp_path):
    """A folder with a suite, and the ledger of a suite of which one trial has failed with hostile words."""
    (tmp_path / "suite.yaml").write_text(SUITE)
    ledger = Ledger(tmp_path / "runs/other")
    failed = make_record(
        SPEC, status="failed", error={"type": "ValueError", "message": "PLACEHOLDER", "traceback": "line 1"}
    )
    ledger.write(failed)
    record = ledger.path(failed.id)  # as somebody gives it, who has not written it with this library
    record.write_text(record.read_text().replace("PLACEHOLDER", json.dumps(HOSTILE)[1:-1]))
    return tmp_path


def records(folder):
    return len(list((folder / "runs/small/trials").glob("*.json")))


def test_a_reader_that_leaves_ends_no_sweep(folder):
    process = subprocess.Popen(
        command(), cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == f"{TRIALS} trials to run\n"  # as `| head -n 1`
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert records(folder) == TRIALS


def test_a_full_disk_behind_the_output_ends_no_sweep_and_is_told_once(folder):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(), cwd=folder, env=environment(folder), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "initbench: the standard output cannot be written: No space left on device\n"
    assert done.returncode == 2
    assert records(folder) == TRIALS


def test_a_terminal_that_is_closed_ends_no_sweep(folder):
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` and `disown` have it
    try:
        process = subprocess.Popen(command(), cwd=folder, env=environment(folder), **streams)
    finally:
        signal.signal(signal.SIGHUP, before)
    os.close(theirs)
    os.read(ours, 1)
    os.close(ours)
    assert process.wait(60) == 0
    assert records(folder) == TRIALS


def test_what_an_encoding_lacks_is_escaped(folder):
    done = subprocess.run(
        command(), cwd=folder, env=environment(folder, PYTHONIOENCODING="ascii"), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"finished  mlp[depth=2, width=8] \xb7 kaiming \xb7 seed 0" in done.stdout
    assert records(folder) == TRIALS


def test_on_a_terminal_there_are_colours_and_a_bar(folder):
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    terminal = {"TERM": "xterm-256color", "COLUMNS": "200", "NO_COLOR": "", "PYTHONUTF8": "1"}
    process = subprocess.Popen(command(), cwd=folder, env=environment(folder, **terminal), **streams)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # EIO at its end
        while select.select([ours], [], [], 60)[0] and (more := os.read(ours, 65536)):
            shown += more
    os.close(ours)
    assert process.wait(60) == 0
    assert b"\x1b[32m[1/8] finished " in shown
    assert "━".encode() in shown
    assert f"{TRIALS} trials: {TRIALS} finished".encode() in shown


@pytest.mark.slow
def test_a_reader_that_leaves_ends_no_sweep_on_ray(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    process = subprocess.Popen(
        [sys.executable, "-m", "initbench", "run", "suite.yaml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(300) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
    assert records(tmp_path) == TRIALS
    assert (tmp_path / "runs/small/report/index.html").exists()


COMMANDS = [("list",), ("--help",), ("status", "runs/other"), ("status", "runs/other", "--json")]


def initbench(folder, *arguments, **given):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | given
    process = [sys.executable, "-m", "initbench", *arguments]
    return subprocess.run(process, cwd=folder, text=True, check=False, **pipes)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_without_a_reader_ends_as_if_it_had_one(folder, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    done = initbench(folder, *arguments, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_says_which_of_its_streams_cannot_be_written(folder, arguments):
    with Path("/dev/full").open("w") as full:
        done = initbench(folder, *arguments, stdout=full)
    assert done.returncode == 2
    assert done.stderr == "initbench: the standard output cannot be written: No space left on device\n"


def test_closed_streams_are_none_to_write_to(folder):
    line = f"{sys.executable} -m initbench list >&- 2>&-"
    assert subprocess.run(line, shell=True, cwd=folder, check=False).returncode == 0  # noqa: S602  # a shell closes them


def test_errors_that_cannot_be_printed_keep_their_exit_code(folder):
    with Path("/dev/full").open("w") as full:
        assert initbench(folder, "status", "nowhere", stderr=full).returncode == 2
        assert initbench(folder, "report", "runs/other", stderr=full).returncode == 0


def test_json_is_whole_whatever_the_encoding(folder):
    def status(**given):
        return json.loads(initbench(folder, "status", "runs/other", "--json", **given).stdout)

    assert status(env={**os.environ, "PYTHONIOENCODING": "ascii"}) == status()


def test_characters_that_are_none_to_look_at_are_escaped_as_json_has_it(capsys):
    data = {"text": f"{HOSTILE} \x7f é"}
    say_json(json.dumps(data, ensure_ascii=False))
    out = capsys.readouterr().out
    assert RAW.search(out) is None
    assert "é" in out
    assert json.loads(out) == data


def test_a_stream_is_otherwise_the_one_below(tmp_path):
    with (tmp_path / "out.txt").open("w", encoding="ascii") as file:
        stream = OutputStream(file, "the standard output")
        assert (stream.fileno(), stream.isatty(), stream.encoding) == (file.fileno(), False, "ascii")
        assert stream.write("a·b\n") == 4
        stream.writelines(["c\n", "d\n"])
        stream.flush()
    assert (tmp_path / "out.txt").read_text() == "a\\xb7b\nc\nd\n"


def run(monkeypatch, capsys, *arguments):
    """Run the command line here; return its exit code and what it says on both streams."""
    monkeypatch.setattr(sys, "argv", ["initbench", *map(str, arguments)])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


def test_what_a_record_says_cannot_steer_the_terminal(folder, monkeypatch, capsys):
    (folder / "runs/other/trials/a\x1b]0;title\x07.json").write_text("no record")
    code, out, _ = run(monkeypatch, capsys, "status", folder / "runs/other")
    assert code == 0
    assert out.count("\\x1b]0;title\\x07") == 2
    assert RAW.search(out) is None
    code, out, err = run(monkeypatch, capsys, "report", folder / "runs/other", "--format", "md")
    assert code == 1
    assert RAW.search(out + err) is None
    assert "skipped" in err
    assert "\\x1b]0;title\\x07" in err


def test_what_a_command_is_given_cannot_steer_the_terminal(monkeypatch, capsys):
    for arguments in (["plan", "a\x1b[2J\x00.yaml"], ["status", "a\u202eb"], [f"--{HOSTILE}"]):
        code, out, err = run(monkeypatch, capsys, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("initbench: ")
        assert RAW.search(err) is None


@pytest.mark.usefixtures("scratch_registry")
def test_what_a_plug_in_says_cannot_steer_the_terminal(folder, monkeypatch, capsys):
    plugin = folder / "plugin.py"
    plugin.write_text(
        "import initbench\n@initbench.register_initializer('hostile')\ndef hostile(text: str = 'a\\x1b[2Jb\\u202ec'):\n"
        "    'It is \\x1b]0;title\\x07 so \\x9b31m.'\n    return lambda model, context: None\n"
    )
    for arguments in (["list"], ["describe", "hostile"]):
        code, out, _ = run(monkeypatch, capsys, *arguments, "--plugin", plugin)
        assert code == 0
        assert "\\x1b]0;title" in out
        assert RAW.search(out) is None


def test_the_display_keeps_its_own_colours_alone():
    display = Display(plan_of_trials((SPEC,)))
    display.console = VisibleConsole(
        file=io.StringIO(), force_terminal=True, color_system="standard", width=300, soft_wrap=True, highlight=False
    )
    error = {"type": "ValueError", "message": HOSTILE, "traceback": "line 1"}
    display.begin((SPEC,), 0, 0)
    display.finished(replace(make_record(SPEC, status="failed"), error=error))
    display.note(HOSTILE)
    display.end()
    with Live(Text(HOSTILE), console=display.console, auto_refresh=False):
        pass
    shown = display.console.file.getvalue()
    assert "\x1b[31m[1/1] failed " in shown
    assert shown.count("\\x1b]0;title") == shown.count("\\u202e") == 4  # what is live is drawn twice
    own = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[hl]|[12]?K|1A)|\r")  # colours and what Live does
    assert RAW.search(own.sub("", shown)) is None
