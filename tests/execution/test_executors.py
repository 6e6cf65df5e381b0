"""The executors: the same ledger from each, and from one that was interrupted; every fault told and survived."""

import gc
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import weakref
from collections import Counter
from pathlib import Path

import pytest

from initbench import plugins
from initbench.cli.command_line import main
from initbench.cli.progress import Display
from initbench.errors import InitbenchError
from initbench.execution.driver import run_suite
from initbench.execution.executor import Job
from initbench.execution.in_process import run_in_process
from initbench.execution.ray_cluster import _shut_down, chosen_address, cluster
from initbench.execution.ray_tune import run_with_ray_tune
from initbench.ledger import Ledger
from initbench.reporting import overview, read_results
from initbench.suite.load import describe_datasets, load_suite
from initbench.suite.plan import plan

PLUGIN = Path(__file__).with_name("faults.py")
SUITE = """
name: faults
dataset: {name: digits, train_size: 256}
architectures: [{name: tiny, width: [8, 12]}]
initializers:
  - kaiming
  - {name: metainit, base: xavier, steps: 3, batch_size: 4}
  - {name: fault, kind: leak}
  - {name: fault, kind: diverge}
recipe: {epochs: 2, batch_size: 32, lr: 0.05, mixup: 1.0, crop: 1, flip: true}
seeds: 2
"""


def start(*arguments, cwd):
    command = [sys.executable, "-m", "initbench", *map(str, arguments)]
    # A shell starts what it runs in the background with Ctrl-C ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def initbench(*arguments, cwd, check=0):
    """Run the command line in a process of its own and return its standard output."""
    process = start(*arguments, cwd=cwd)
    out, err = process.communicate(timeout=300)
    assert process.returncode == check, out + err
    assert "--json" in arguments or err == ""
    return out


def run_here(folder, *only):
    """Run the suite in this process, and return how many trials ran and what was said."""
    plugin = plugins.read_file(PLUGIN)
    plugins.load_file(plugin)
    suite = load_suite(folder / "suite.yaml")
    planned = plan(suite, only, descriptions=describe_datasets(suite))
    display = Display(planned)
    display.console.file = io.StringIO()
    summary = run_suite(suite, planned, folder / "runs/faults", run_in_process, plugins=(plugin,), progress=display)
    display.summary(summary)
    return summary.ran, display.console.file.getvalue()


def numbers(folder):
    return {record.id: record.numbers() for record in Ledger(folder).records()}


def active_runs(folder):
    """Trial id of every MLflow run that is not deleted, straight from the database."""
    with sqlite3.connect(folder / "mlflow.db") as database:
        rows = database.execute(
            "select tags.value from runs join tags using (run_uuid)"
            " where runs.lifecycle_stage = 'active' and tags.key = 'initbench.trial_id'"
        )
        return Counter(value for (value,) in rows)


@pytest.fixture(scope="module")
def in_process(tmp_path_factory):
    """The uninterrupted run that all others have to equal."""
    folder = tmp_path_factory.mktemp("in_process")
    (folder / "suite.yaml").write_text(SUITE)
    run_here(folder)
    return folder


@pytest.fixture(scope="module")
def on_ray(tmp_path_factory, in_process):
    folder = tmp_path_factory.mktemp("on_ray")
    shutil.copy(in_process / "suite.yaml", folder)
    return folder, initbench("run", "suite.yaml", "--plugin", PLUGIN, cwd=folder)


@pytest.mark.slow
def test_ray_and_in_process_agree_bitwise(in_process, on_ray):
    folder, _ = on_ray
    assert len(numbers(in_process / "runs/faults")) == 16
    assert numbers(folder / "runs/faults") == numbers(in_process / "runs/faults")


@pytest.mark.slow
def test_ray_is_silent_but_for_our_lines(on_ray):
    folder, out = on_ray
    lines = out.splitlines()
    assert lines[0] == "16 trials to run"
    assert all(line.startswith("[") for line in lines[1:17])
    assert lines[17].startswith("16 trials: 12 finished, 4 diverged; 16 ran now")
    sentences = [str(sentence) for sentence in overview(read_results(folder / "runs/faults")).sentences]
    # Lines are as wide as the terminal.
    assert " ".join(lines[18:-2]) == " ".join(sentences)
    assert lines[-2:] == ["report: runs/faults/report/index.html", "MLflow: initbench ui runs/faults"]


def test_a_diverged_trial_says_where(in_process):
    records = list(Ledger(in_process / "runs/faults").records())
    diverged = [r for r in records if r.spec["initializer"]["arguments"].get("kind") == "diverge"]
    assert len(diverged) == 4
    for record in diverged:
        assert record.status == "diverged"
        assert record.metrics["diverged_at_step"] == 0
        assert record.metrics["test_error"] is None
        assert record.task["primary"] == "test_error"
        assert "step 0" in record.metrics["test_error_reason"]


def test_every_probe_is_timed_by_itself(in_process):
    for record in Ledger(in_process / "runs/faults").records():
        if record.status != "failed":
            own = [record.timing[f"{probe['name']}_probe_seconds"] for probe in record.spec["probes"]]
            assert own
            assert 0 < sum(own) <= record.timing["probes_seconds"] <= record.timing["total_seconds"]


@pytest.mark.slow
def test_nothing_leaks_from_one_trial_to_the_next(in_process, tmp_path):
    """`fault[kind=leak]` changes default dtype, threads, seeds and grad mode; without it, the others are the same."""
    shutil.copy(in_process / "suite.yaml", tmp_path)
    run_here(tmp_path, "initializer=kaiming,metainit")
    alone, together = numbers(tmp_path / "runs/faults"), numbers(in_process / "runs/faults")
    assert len(alone) == 8
    assert all(together[trial] == alone[trial] for trial in alone)


def test_the_same_command_again_runs_nothing_and_says_so(in_process):
    before = {path: path.stat().st_mtime_ns for path in (in_process / "runs/faults/trials").iterdir()}
    ran, said = run_here(in_process)
    assert ran == 0
    assert "nothing to run: all 16 trials have a result (12 finished, 4 diverged)" in said
    assert {path: path.stat().st_mtime_ns for path in (in_process / "runs/faults/trials").iterdir()} == before
    assert set(active_runs(in_process / "runs/faults").values()) == {1}


def test_a_deleted_record_is_run_again_bitwise(in_process):
    folder = in_process / "runs/faults"
    before = numbers(folder)
    victim = sorted(before)[5]
    Ledger(folder).path(victim).unlink()
    assert run_here(in_process)[0] == 1
    assert numbers(folder) == before
    assert active_runs(folder) == Counter(list(before))


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["in-process", "ray"])
def test_kill_9_of_the_driver_and_the_same_command(in_process, tmp_path, executor):
    """Killed in the middle of the sweep, then run again: the ledger of the uninterrupted run, no MLflow run doubled."""
    shutil.copy(in_process / "suite.yaml", tmp_path)
    arguments = ["run", "suite.yaml", "--executor", executor, "--plugin", str(PLUGIN)]
    driver = start(*arguments, cwd=tmp_path)
    trials = tmp_path / "runs/faults/trials"
    deadline = time.monotonic() + 300  # of a busy machine
    while not trials.is_dir() or len(list(trials.glob("*.json"))) < 4:
        assert driver.poll() is None, "the driver ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    kept = set(numbers(tmp_path / "runs/faults"))
    assert 4 <= len(kept) < 16
    again = initbench(*arguments, "--json", cwd=tmp_path)
    assert json.loads(again)["ran"] == 16 - len(kept)
    expected = numbers(in_process / "runs/faults")
    assert numbers(tmp_path / "runs/faults") == expected
    assert active_runs(tmp_path / "runs/faults") == Counter(list(expected))


@pytest.mark.slow
def test_ctrl_c_ends_at_once_and_keeps_what_is_finished(tmp_path):
    (tmp_path / "suite.yaml").write_text(
        SUITE.replace("  - kaiming\n", "  - kaiming\n  - {name: fault, kind: sleep}\n")
    )
    driver = start("run", "suite.yaml", "--plugin", PLUGIN, cwd=tmp_path)
    trials = tmp_path / "runs/faults/trials"
    while not trials.is_dir() or not list(trials.glob("*.json")):
        assert driver.poll() is None
        time.sleep(0.05)
    begun = time.monotonic()
    driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert time.monotonic() - begun < 20  # the trial under way would have slept for 600 s
    kept = len(list(trials.glob("*.json")))
    assert kept >= 1
    assert f"interrupted: {kept} of 20 trials are kept in runs/faults, " in out
    assert re.search(r"(1 running is|2 running are) given up ", out)  # a short trial may have run beside it
    assert f"to go on from here: initbench run suite.yaml --plugin {PLUGIN}\n" in out
    assert err == ""


FAULTS = """
name: faults
dataset: {name: digits, train_size: 64}
architectures: [tiny]
initializers:
  - {name: fault, kind: [raise, kill, system_exit, data_root]}
  - kaiming
recipe: {epochs: 1}
"""


@pytest.mark.slow
def test_a_fault_fails_its_trial_alone_and_is_tried_again(tmp_path):
    (tmp_path / "suite.yaml").write_text(FAULTS)
    out = initbench("run", "suite.yaml", "--plugin", PLUGIN, cwd=tmp_path, check=1)
    records = {
        r.spec["initializer"]["arguments"].get("kind", "kaiming"): r for r in Ledger(tmp_path / "runs/faults").records()
    }
    assert {kind: record.status for kind, record in records.items()} == {
        "raise": "failed", "kill": "failed", "system_exit": "failed", "data_root": "failed",
        "kaiming": "finished",
    }  # fmt: skip
    assert records["raise"].error["type"] == "RuntimeError"
    assert records["raise"].error["message"] == "the first line"
    assert "in apply" in records["raise"].error["traceback"]
    assert records["kill"].error["type"] == "WorkerLost"
    assert "the trial's process died of SIGKILL" in records["kill"].error["message"]
    # A relative data root means the same folder to the workers as to the driver.
    assert records["data_root"].error["message"] == str(tmp_path / "data")
    assert "5 trials: 1 finished, 4 failed" in out
    # The same command tries failed trials again; one of them is enough to see it.
    only = ("--only", "initializer.kind=raise", "--executor", "in-process")
    again = initbench("run", "suite.yaml", "--plugin", PLUGIN, "--json", *only, cwd=tmp_path, check=1)
    assert json.loads(again)["ran"] == 1


HARMLESS = """
name: harmless
dataset: digits
architectures: [{name: mlp, width: 8}]
initializers: [xavier]
recipe: {epochs: 1}
"""


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:port"])
def test_an_address_without_a_cluster_is_said_at_once_and_nothing_is_written(tmp_path, address, monkeypatch, capsys):
    (tmp_path / "suite.yaml").write_text(HARMLESS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["initbench", "run", "suite.yaml", "--address", address])
    begun = time.monotonic()
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert time.monotonic() - begun < 30
    assert capsys.readouterr().err.startswith(f"initbench: --address {address}: no Ray cluster answers: ")
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]


def test_the_address_of_ray_is_obeyed_and_the_option_comes_first(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(InitbenchError, match=r"^RAY_ADDRESS=127\.0\.0\.1:1: no Ray cluster answers: "):
        run_with_ray_tune(Job([]), None)
    with pytest.raises(InitbenchError, match=r"^--address 127\.0\.0\.1:2: no Ray cluster answers: "):
        run_with_ray_tune(Job([]), None, "127.0.0.1:2")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert chosen_address(None) is None


def test_an_autoscaler_learns_of_more_trials_that_wait_than_a_local_cluster(monkeypatch):
    def fail(**_):
        raise ConnectionError("there is none")

    monkeypatch.setattr("ray.init", fail)
    for address, pending in ((None, "16"), ("auto", "200"), (None, "16")):
        with pytest.raises(InitbenchError, match="there is none"), cluster(address):
            pass
        assert os.environ["TUNE_MAX_PENDING_TRIALS_PG"] == pending


@pytest.mark.slow
def test_nothing_that_ray_knows_is_collected_while_it_shuts_down():
    # A reference to one of Ray's objects that another thread frees meanwhile ends the process with exit code 1.
    class Cycle:
        def __init__(self):
            self.itself = self

    cycle = weakref.ref(Cycle())

    def shut_down():
        assert cycle() is None
        assert not gc.isenabled()

    _shut_down(shut_down)
    assert gc.isenabled()


def test_ray_client_is_refused():
    job = Job([])
    with pytest.raises(InitbenchError, match="give HOST:PORT of the head"):
        run_with_ray_tune(job, None, "ray://127.0.0.1:10001")


@pytest.mark.slow
def test_resources_that_the_cluster_lacks_are_refused_and_nothing_is_written(tmp_path):
    (tmp_path / "suite.yaml").write_text(HARMLESS + "resources: {cpus: 1000}\n")
    driver = start("run", "suite.yaml", cwd=tmp_path)
    out, err = driver.communicate(timeout=120)
    assert (driver.returncode, out) == (2, "")
    assert err.startswith("initbench: resources.cpus: 1000 asked for, but the cluster has ")
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]
