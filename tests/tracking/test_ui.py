from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browser import CHROMIUM, opened
from trials import make_record, metainit

from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.suite.spec import ComponentSpec
from initbench.tracking.mlflow import MlflowTracker, sync
from initbench.tracking.server import _experiment, _free_port, _terminated_cleanly, serve
from initbench.tracking.uri import check_tracking_uri, default_tracking_uri


def test_there_is_nothing_to_show_before_the_first_run(tmp_path):
    with pytest.raises(InitbenchError, match=f"^no runs yet in {tmp_path}: initbench run SUITE first$"):
        serve(default_tracking_uri(tmp_path), tmp_path, 5000)
    assert list(tmp_path.iterdir()) == []


def test_a_server_is_not_served_again(tmp_path, capsys):
    serve("http://me:secret@tracking.example/mlflow", tmp_path, 5000)
    assert capsys.readouterr().out == "MLflow is a server already: http://me:***@tracking.example/mlflow\n"


def test_a_port_that_is_taken_gives_way_to_another_and_the_reason_is_known():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = taken.getsockname()[1]
        port, problem = _free_port("127.0.0.1", wanted)
    assert port != wanted
    assert problem == "Address already in use"


def test_a_port_that_the_system_refuses_gives_way_to_another_and_the_reason_is_known(monkeypatch):
    bind = socket.socket.bind

    def refuse(listener, address):
        if address[1] == 80:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        bind(listener, address)

    monkeypatch.setattr(socket.socket, "bind", refuse)
    port, problem = _free_port("127.0.0.1", 80)
    assert port not in {0, 80}
    assert problem == "Permission denied"


def test_a_port_that_is_free_is_taken_without_a_word():
    port, problem = _free_port("127.0.0.1", 0)
    assert port > 0
    assert problem == ""


def test_the_experiment_is_that_of_the_suite_even_if_its_folder_was_renamed(tmp_path):
    Ledger(tmp_path / "renamed").write(make_record())
    assert _experiment(tmp_path / "renamed") == "depth"
    assert _experiment(tmp_path / "not run yet") == "not run yet"


def test_the_experiment_of_records_of_another_version_is_called_like_their_folder(tmp_path):
    trials = tmp_path / "older/trials"
    trials.mkdir(parents=True)
    (trials / "a.json").write_text('{"schema": 1, "id": "a"}')
    assert _experiment(tmp_path / "older") == "older"


def test_a_closed_terminal_that_is_ignored_stays_ignored():
    """As `nohup initbench ui` ignores it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _terminated_cleanly():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(SystemExit) as stop:
                os.kill(os.getpid(), signal.SIGTERM)
        assert stop.value.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """24 trials: two architectures, four initializers, three seeds."""
    folder = tmp_path_factory.mktemp("runs") / "depth"
    ledger = Ledger(folder)
    initializers = [None, metainit(100), metainit(500), ComponentSpec(name="delta_orthogonal", arguments={"gain": 1.0})]
    for architecture in ("plain", "wrn"):
        for quality, initializer in enumerate(initializers):
            for seed in range(3):
                error = 0.1 + 0.2 * quality + 0.01 * seed
                ledger.write(
                    make_record(architecture=architecture, initializer=initializer, seed=seed, test_error=error)
                )
    sync(ledger, MlflowTracker(folder, default_tracking_uri(folder), "depth"))
    return folder


def _start(folder, port=0):
    """Run `initbench ui`."""
    # A proxy that does not exist: a server on this machine must be reached without one.
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    # A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "initbench", "ui", folder, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def _processes(port):
    """Return the command lines of the processes that serve this port, read from /proc."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if str(port) in arguments and any(word in arguments for word in ("mlflow", "uvicorn")):
            lines.append(arguments)
    return lines


@pytest.mark.slow  # starting MLflow's server takes 5 to 20 seconds
@pytest.mark.skipif(not Path("/proc").exists(), reason="lists processes through /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_takes_a_free_port_and_leaves_no_process_behind(folder, number):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wanted = taken.getsockname()[1]
        with _start(folder, wanted) as process:
            told, line = process.stdout.readline(), process.stdout.readline()
            port = int(line.split("127.0.0.1:")[1].split("/")[0])
            assert told == f"port {wanted}: Address already in use; {port} is used instead\n"
            check_tracking_uri(f"http://127.0.0.1:{port}")
            assert len(_processes(port)) >= 2
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()  # where it did not end, so that the test does
            assert process.wait() == (0 if number == signal.SIGINT else 128 + number)
            assert process.stderr.read() == ""
            assert _processes(port) == []


async def _page_with(url, wanted, profile, seconds=120):
    """Open a page in a browser and return its HTML as soon as all that is wanted stands in it, or after the time."""
    deadline, page = time.monotonic() + seconds, ""
    # Tall, because charts are drawn when they come into view.
    async with opened(url, profile, size=(1600, 4000), seconds=seconds) as tab:
        while time.monotonic() < deadline and not all(text in page for text in wanted):
            await asyncio.sleep(0.5)
            page = await tab.evaluate("document.documentElement.outerHTML")
    return page


@pytest.mark.slow  # as above, and a browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_finds_the_runs_and_charts_of_outcome_and_layers(folder, tmp_path):
    names = [
        f"{initializer} · {architecture}[depth=28, width=1] · seed {seed}"
        for initializer in ("kaiming", "metainit[steps=100](delta_orthogonal)", "delta_orthogonal")
        for architecture in ("plain", "wrn")
        for seed in range(3)
    ]
    charts = ("test_error", "outcome", "curves/test_error", "layers/gradient_norm")
    wanted = [*names, *(f'title="{chart}"' for chart in charts)]
    with _start(folder) as process:
        try:
            url = process.stdout.readline().split()[1]
            page = asyncio.run(_page_with(url, wanted, tmp_path))
        finally:
            process.terminate()
    assert [text for text in wanted if text not in page] == []


@pytest.mark.slow  # as above
def test_trials_reach_a_server_and_an_unreachable_one_is_told(folder, tmp_path, capfd):
    with _start(folder) as process:
        try:
            uri = process.stdout.readline().split()[1].partition("/#")[0]
            check_tracking_uri(uri)
            ledger = Ledger(tmp_path)
            ledger.write(make_record(status="diverged"))
            ledger.write(make_record(seed=1))
            assert sync(ledger, MlflowTracker(tmp_path, uri, "remote")) == {"written": 2}
            assert sync(ledger, MlflowTracker(tmp_path, uri, "remote")) == {"unchanged": 2}
        finally:
            process.terminate()
    assert not (tmp_path / "mlartifacts").exists()
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InitbenchError, match="does not answer"):
        check_tracking_uri(uri)
