"""Ray itself is killed amid a run: one line says so, and what has finished is kept."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from test_executors import PLUGIN, initbench, start

from initbench.errors import InitbenchError
from initbench.execution import ray_cluster
from initbench.execution.processes import family
from initbench.execution.ray_cluster import RayEndedError, Server, end_with_ray
from initbench.ledger import Ledger

SUITE = """
name: ends
dataset: {name: digits, train_size: 64}
architectures: [tiny]
initializers: [{name: fault, kind: pause}]
recipe: {epochs: 1}
seeds: 5
"""


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_server_that_is_there_or_comes_back_is_waited_for_and_one_that_does_not_has_ended(listening):
    host, port = listening.getsockname()
    with closing(Server("raylet", host, port, 0.5)) as server:
        server.check()
        server.check()  # by the connection that is open
        listening.close()
        with pytest.raises(RayEndedError, match=f"its raylet at 127.0.0.1:{port} no longer answers"):
            server.check()
    back = []
    timer = threading.Timer(0.5, lambda: back.append(socket.create_server((host, port))))
    timer.start()
    with closing(Server("GCS server", host, port, 20.0)) as server:
        server.check()
    timer.join()
    back[0].close()


def test_what_fails_once_ray_has_ended_is_not_told_and_what_failed_before_is(listening, monkeypatch):
    host, port = listening.getsockname()
    monkeypatch.setattr(ray_cluster, "_servers", lambda **_: [Server("GCS server", host, port, 0.0)])
    with pytest.raises(KeyError), end_with_ray(is_local=True):
        raise KeyError("a mistake")
    ended = (
        rf"^Ray has ended: its GCS server at 127.0.0.1:{port} no longer answers; finished trials are kept, and the same"
    )
    listening.close()
    with pytest.raises(InitbenchError, match=ended), end_with_ray(is_local=True) as check, suppress(Exception):
        check()  # nothing that catches exceptions, as Tune does, keeps it
    with pytest.raises(InitbenchError, match=ended), end_with_ray(is_local=True):
        raise RuntimeError("rpc_code: 14")


WAITING_FOR_RAY = """
import sys, time
from initbench.execution import ray_cluster
from initbench.execution.ray_cluster import Server, end_with_ray
host, port = sys.argv[1], int(sys.argv[2])
ray_cluster._servers = lambda **_: [Server("GCS server", host, port, 0.0)]
ray_cluster._SECONDS_OF_A_CONNECTION = ray_cluster._SECONDS_TO_NOTICE = 0.1
with end_with_ray(is_local=True):
    print("calls Ray", flush=True)
    time.sleep(100)
"""


def test_a_call_to_ray_that_never_returns_ends_with_the_line(listening):
    host, port = listening.getsockname()
    command = [sys.executable, "-c", WAITING_FOR_RAY, host, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "calls Ray\n"
        time.sleep(0.5)
        assert process.poll() is None  # while it answers
        listening.close()
        _, err = process.communicate(timeout=50)
    assert process.returncode == 2
    assert err == (
        f"initbench: Ray has ended: its GCS server at {host}:{port} no longer answers; finished trials are kept, and "
        "the same command continues\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("victim", ["gcs_server", "raylet"])
def test_ray_is_killed_amid_a_run_and_the_same_command_goes_on(tmp_path, victim):
    (tmp_path / "suite.yaml").write_text(SUITE)
    arguments = ("run", "suite.yaml", "--plugin", PLUGIN, "--workers", "1")
    driver = start(*arguments, cwd=tmp_path)
    folder = tmp_path / "runs/ends"
    while not list(folder.glob("trials/*.json")):
        assert driver.poll() is None
        time.sleep(0.05)
    processes = list(family(driver.pid))
    [server] = [one for one in processes if Path(f"/proc/{one}/comm").read_text().strip() == victim]
    os.kill(server, signal.SIGKILL)
    try:
        _, err = driver.communicate(timeout=90)
    finally:
        driver.kill()
    what = {"gcs_server": "GCS server", "raylet": "raylet"}[victim]
    assert err.startswith(f"initbench: Ray has ended: its {what} at ")
    assert err.endswith(" no longer answers; finished trials are kept, and the same command continues\n")
    assert err.count("\n") == 1
    assert driver.returncode == 2
    deadline = time.monotonic() + 20  # an idle worker notices that its raylet is gone a moment later
    while any(Path(f"/proc/{one}").exists() for one in processes):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kept = [record.status for record in Ledger(folder).records()]
    assert set(kept) == {"finished"}
    assert 1 <= len(kept) < 5
    assert f"5 trials: 5 finished; {5 - len(kept)} ran now" in initbench(*arguments, cwd=tmp_path)
