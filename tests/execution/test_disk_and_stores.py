"""Faults that are really injected: a full disk, a read-only folder, MLflow that goes away, two drivers, a kill."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from ledgers import KAIMING, make_record, make_spec

from initbench.errors import InitbenchError
from initbench.execution.status import StatusReader
from initbench.ledger import Ledger
from initbench.tracking.uri import StoreUnreachableError, check_tracking_uri, default_tracking_uri

SUITE = """\
name: small
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 1, lr: 0.1}
probes: [parameter_norm]
seeds: 6
"""
TRIALS = 24
RUN = ("run", "suite.yaml", "--executor", "in-process")


def start(*arguments, cwd, **environment):
    command = [sys.executable, "-m", "initbench", *map(str, arguments)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "no_proxy": "127.0.0.1"} | environment,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def initbench(*arguments, cwd, check=0):
    """Run the command line and return what it says, on both streams."""
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=300)
    assert process.returncode == check, out + err
    return out, err


def numbers(folder):
    return {record.id: record.numbers() for record in Ledger(folder).records()}


def wait_for(happens, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not happens():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def no_parts(folder):
    return not list(folder.rglob("*.part"))


# --- disks


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@contextmanager
def disk(folder, size):
    """A file system of its own, of this size."""
    folder.mkdir()
    if shutil.which("mount") is None or not mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_leaves_every_record_whole(tmp_path):
    records = [make_record(make_spec(KAIMING, seed=seed)) for seed in range(100)]
    with disk(tmp_path / "disk", "64k") as folder:
        ledger, written = Ledger(folder / "runs"), []

        def write_all():
            for record in records:
                ledger.write(record)
                written.append(record)

        with pytest.raises(InitbenchError, match=r"\.json: cannot be written: No space left on device$") as caught:
            write_all()
        assert "\n" not in str(caught.value)
        assert len(written) > 2
        assert sorted(ledger.records(), key=lambda record: record.spec["seed"]) == written
        assert len(list(ledger.trials.iterdir())) == len(written)


def test_a_folder_that_is_read_only_is_one_line(tmp_path):
    with disk(tmp_path / "disk", "1m") as folder:
        Ledger(folder / "runs").write(make_record(make_spec(KAIMING)))
        assert mount("-o", "remount,ro", str(folder))
        with (
            pytest.raises(InitbenchError, match="cannot be written: Read-only file system"),
            Ledger(folder / "runs").lock(),
        ):
            pass
        assert StatusReader(folder / "runs").read().finished == 1


def test_a_file_in_the_place_of_the_folder_of_trials_is_one_line(tmp_path):
    (tmp_path / "trials").write_text("a file")
    with pytest.raises(InitbenchError, match=r"cannot be written: (File exists|Not a directory)"):
        Ledger(tmp_path).write(make_record(make_spec(KAIMING)))


@pytest.mark.slow
def test_a_sweep_on_a_full_disk_ends_in_one_line_and_goes_on_when_there_is_room(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    initbench(*RUN, cwd=tmp_path)
    with disk(tmp_path / "disk", "32m") as folder:
        (folder / "suite.yaml").write_text(SUITE)
        # What is left is enough for the files beside the ledger and for some records, and for nothing else.
        record = next((tmp_path / "runs/small/trials").iterdir()).stat().st_size
        (folder / "filler").write_bytes(b"0" * (32 * 2**20 - 24 * record))
        store = default_tracking_uri(tmp_path / "elsewhere")
        out, err = initbench(*RUN, "--tracking-uri", store, cwd=folder, check=2)
        assert err.count("\n") == 1, err
        assert "cannot be written: No space left on device" in err
        assert "Traceback" not in out + err
        kept = numbers(folder / "runs/small")
        assert 0 < len(kept) < TRIALS
        assert no_parts(folder)
        (folder / "filler").unlink()
        out, _ = initbench(*RUN, "--tracking-uri", store, "--json", cwd=folder)
        assert json.loads(out)["ran"] == TRIALS - len(kept)
        assert numbers(folder / "runs/small") == numbers(tmp_path / "runs/small")
        # Read only: run, report and sync say so in one line, and the status is told.
        assert mount("-o", "remount,ro", str(folder))
        for command in (RUN, ("report", "runs/small"), ("sync", "runs/small", "--tracking-uri", store)):
            _, err = initbench(*command, cwd=folder, check=2)
            assert err.count("\n") == 1, err
            assert "Read-only file system" in err or "not writable" in err
        out, _ = initbench("status", "runs/small", cwd=folder)
        assert f"{TRIALS} of {TRIALS} trials done" in out


# --- MLflow


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def server(folder, port):
    """A real MLflow server, on the store in this folder."""
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
    command += [
        "--backend-store-uri",
        f"sqlite:///{folder}/server.db",
        "--artifacts-destination",
        str(folder / "files"),
    ]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                check_tracking_uri(f"http://127.0.0.1:{port}")
                break
            except StoreUnreachableError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def runs_in(uri, experiment="small"):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id], max_results=500)
    return sorted(run.data.tags["initbench.trial_id"] for run in found if run.data.tags["initbench.kind"] == "trial")


@pytest.mark.slow
def test_a_server_that_stops_does_not_stop_the_sweep_and_sync_makes_it_level(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "suite.yaml").write_text(SUITE.replace("seeds: 6", "seeds: 30"))
    port = free_port()
    uri = f"http://me:hush@127.0.0.1:{port}"
    with server(tmp_path, port):
        sweep = start(*RUN, "--tracking-uri", uri, cwd=tmp_path)
        # Half way: MLflow has some of the trials by then.
        wait_for(lambda: len(list((tmp_path / "runs/small/trials").glob("*.json"))) > 30, sweep)
    out, err = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, out + err
    told = [line for line in out.splitlines() if "MLflow at" in line]
    assert len(told) == 1, out
    assert told[0].startswith(f"note: MLflow at http://me:***@127.0.0.1:{port}: ")
    assert told[0].endswith("the ledger is complete, MLflow is not; to repair it: initbench sync runs/small")
    assert "hush" not in out + err
    trials = sorted(numbers(tmp_path / "runs/small"))
    assert len(trials) == 120
    _, err = initbench("sync", "runs/small", "--tracking-uri", uri, cwd=tmp_path, check=2)
    assert err.count("\n") == 1
    assert "does not answer" in err
    with server(tmp_path, port):
        initbench("sync", "runs/small", "--tracking-uri", f"http://127.0.0.1:{port}", cwd=tmp_path)
        assert runs_in(f"http://127.0.0.1:{port}") == trials


@pytest.mark.slow
def test_a_store_that_is_locked_does_not_stop_the_sweep_and_sync_makes_it_level(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    initbench(*RUN, "--only", "seed=0", cwd=tmp_path)
    home = tmp_path / "runs/small"
    with sqlite3.connect(home / "mlflow.db", isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        out, err = initbench(*RUN, cwd=tmp_path)
        holder.execute("ROLLBACK")
    assert "to repair it: initbench sync runs/small" in out
    assert out.count("MLflow is not") == 1
    assert "Traceback" not in out + err
    assert len(numbers(home)) == TRIALS
    initbench("sync", "runs/small", cwd=tmp_path)
    assert runs_in(default_tracking_uri(home)) == sorted(numbers(home))


@pytest.mark.slow
def test_a_disk_that_fills_while_mlflow_is_written_is_one_note_and_sync_makes_it_level(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    with disk(tmp_path / "disk", "1300k") as folder:  # an empty store has 0.9 MB
        store = default_tracking_uri(folder)
        out, err = initbench(*RUN, "--tracking-uri", store, cwd=tmp_path)
        assert err == ""
        [told] = [line for line in out.splitlines() if "MLflow at" in line]
        assert told.startswith(f"note: MLflow at {store}: (sqlite3.OperationalError) database or disk is full")
        assert told.endswith("the ledger is complete, MLflow is not; to repair it: initbench sync runs/small")
        assert len(runs_in(store)) < TRIALS
        assert mount("-o", "remount,size=32m", str(folder))
        initbench("sync", "runs/small", "--tracking-uri", store, cwd=tmp_path)
        assert runs_in(store) == sorted(numbers(tmp_path / "runs/small"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["what?", "a%41b"])
def test_a_folder_of_any_name_is_run_synced_read_back_and_served(name, tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE.replace("seeds: 6", "seeds: 1"))
    out, _ = initbench(*RUN, "--out", name, cwd=tmp_path)
    assert "note: " not in out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "suite.yaml"])
    home = tmp_path / name / "small"
    store = default_tracking_uri(home)
    assert runs_in(store) == sorted(numbers(home))
    out, _ = initbench("sync", home, cwd=tmp_path)
    assert out == "MLflow: 4 unchanged\n"
    out, _ = initbench("report", "--from", "mlflow:small", "--tracking-uri", store, "--out", "read", cwd=tmp_path)
    # The experiment's page is told only where the server finds the experiment.
    with start("ui", home, "--port", 0, cwd=tmp_path) as served:
        line = served.stdout.readline()
        served.terminate()
    assert "/#/experiments/1/" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "read", "suite.yaml"])


SLOW_STORE = """
import time
from initbench.__main__ import main
from initbench.tracking.mlflow import MlflowTracker
log = MlflowTracker.log
def slow(*arguments):
    time.sleep(2)
    log(*arguments)
MlflowTracker.log = slow
main()
"""


@pytest.mark.slow
def test_a_terminated_run_does_not_wait_for_a_store_that_is_behind(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE.replace("seeds: 6", "seeds: 15"))
    command = [sys.executable, "-c", SLOW_STORE, *RUN]
    home, trials = tmp_path / "runs/small", 60
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sweep:
        wait_for(lambda: len(list((home / "trials").glob("*.json"))) == trials, sweep)
        sweep.terminate()
        begun = time.monotonic()
        out, err = sweep.communicate(timeout=300)
        assert time.monotonic() - begun < 20  # on an idle machine 12; for all of it MLflow would take two minutes
    assert sweep.returncode == 143, out + err
    assert err == ""
    [told] = [line for line in out.splitlines() if "MLflow may lack" in line]
    assert told.startswith("note: there was no time left; MLflow may lack ")
    assert told.endswith(" trials; to repair it: initbench sync runs/small")
    assert len(numbers(home)) == trials
    initbench("sync", "runs/small", cwd=tmp_path)
    assert runs_in(default_tracking_uri(home)) == sorted(numbers(home))


# --- drivers


@pytest.mark.slow
def test_two_drivers_at_one_folder_cannot_harm_each_other(tmp_path):
    suite = SUITE.replace("seeds: 6", "seeds: 25")
    for name in ("alone", "both"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "suite.yaml").write_text(suite)
    initbench(*RUN, cwd=tmp_path / "alone")
    home = tmp_path / "both/runs/small"
    first = start(*RUN, cwd=tmp_path / "both")
    wait_for(lambda: list((home / "trials").glob("*.json")), first)
    assert StatusReader(home).read().running
    _, err = initbench(*RUN, cwd=tmp_path / "both", check=2)
    assert err == "initbench: runs/small: another initbench run is writing here; wait for it or stop it\n"
    # Without its lock the first stops, and the second goes on from there.
    assert first.poll() is None
    (home / ".lock").unlink()
    second = start(*RUN, cwd=tmp_path / "both")
    (_, stopped), (out, err) = (driver.communicate(timeout=300) for driver in (first, second))
    assert first.returncode == 2
    assert "was moved, emptied or removed while this run was writing to it" in stopped
    assert second.returncode == 0, out + err
    assert numbers(home) == numbers(tmp_path / "alone/runs/small")
    initbench("sync", "runs/small", cwd=tmp_path / "both")
    assert runs_in(default_tracking_uri(home)) == sorted(numbers(home))


@pytest.mark.slow
def test_the_status_of_a_driver_that_was_killed(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE.replace("seeds: 6", "seeds: 30"))
    driver = start(*RUN, cwd=tmp_path)
    home = tmp_path / "runs/small"
    wait_for(lambda: len(list((home / "trials").glob("*.json"))) > 3, driver)
    out, _ = initbench("status", "runs/small", cwd=tmp_path)
    assert "runs/small: running since " in out
    driver.kill()
    driver.communicate()
    found = StatusReader(home).read()
    assert (found.running, found.ended_at, found.total) == (False, None, 120)
    assert found.finished == len(numbers(home))
    out, _ = initbench("status", "runs/small", cwd=tmp_path)
    assert "not running; the last run began " in out
    assert f"{found.finished} of 120 trials done, {120 - found.finished} left" in out
    out, _ = initbench("retry", "runs/small", "--executor", "in-process", "--json", cwd=tmp_path)
    assert json.loads(out)["ran"] == 120 - found.finished
