"""Chaos: drivers and workers of a sweep on Ray are killed, again and again, and nothing is lost, doubled or moved."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from slow_epochs import LOG, STEPS_PER_EPOCH

from initbench.ledger import Ledger

PLUGIN = Path(__file__).with_name("slow_epochs.py")
KILLS, TRIALS, EPOCHS = 20, 12, 30
SUITE = f"""
name: chaos
dataset: {{name: digits, train_size: 64}}
architectures: [{{name: slow_epochs, width: {[*range(4, 4 + TRIALS)]}}}]
initializers: [kaiming]
recipe: {{epochs: {EPOCHS}, batch_size: 16, lr: 0.02, mixup: 0.5, crop: 1, flip: true, optimizer: adam}}
probes: [gradient_norm]
checkpoints: {{every_epochs: 1}}
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")


def start(folder, *arguments, log=None):
    command = [sys.executable, "-m", "initbench", "run", "suite.yaml", "--plugin", str(PLUGIN), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != LOG}
    environment |= {} if log is None else {LOG: str(log)}
    with (folder / "out.txt").open("a") as out:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)


def stat(pid):
    """Parent and start time of a process, None where there is none, or a dead one that nobody has asked for."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else (int(fields[1]), fields[19])
    return None


def descendants(pid):
    """The processes below one: pid → start time, which tells a process from a later one of the same number."""
    found = {int(path.name): stat(path.name) for path in Path("/proc").glob("[0-9]*")}
    family, size = {pid}, 0
    while size < len(family):
        size = len(family)
        family |= {child for child, state in found.items() if state and state[0] in family}
    return {child: found[child][1] for child in family - {pid}}


def is_alive(pid, started):
    return (stat(pid) or (0, None))[1] == started


def is_worker(pid):
    """Whether a process is an actor of Ray that runs trials."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::ImplicitFunc")
    return False


def end(driver, processes):
    """Kill the driver, and wait until nothing is left of what it had started."""
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + 20
    while any(is_alive(*process) for process in processes.items()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid, started in processes.items():  # Ray ends them itself; what it leaves must not outlive the test
        if is_alive(pid, started):
            os.kill(pid, signal.SIGKILL)


class Sweep:
    """What is on the disk of a sweep."""

    def __init__(self, folder):
        self.folder = folder
        self.runs = folder / "runs/chaos"
        self.log = folder / "epochs.txt"
        self.widths = {}

    def lines(self):
        """(width, epoch) of every epoch that was trained, in order."""
        text = self.log.read_text() if self.log.exists() else ""
        return [tuple(map(int, line.split())) for line in text.splitlines()]

    def kept(self):
        """Trial → epochs that are finished and kept; all of them where the trial has its record."""
        epochs = Counter()
        for path in self.runs.glob("checkpoints/*/step-*.pt"):
            steps = int(path.name.split("-")[1])
            epochs[path.parent.name] = max(epochs[path.parent.name], steps // STEPS_PER_EPOCH)
        for record in list(self.runs.glob("trials/*.json")):
            if '"status": "failed"' not in record.read_text():
                epochs[record.stem] = EPOCHS
        return epochs

    def is_done(self):
        """Whether every trial has its record."""
        return sum(epochs == EPOCHS for epochs in self.kept().values()) == TRIALS

    def observe(self):
        """(What is kept, how many epochs were trained until then): from here on no kept epoch may be trained."""
        kept = self.kept()  # first: an epoch is in the log before it is kept
        return kept, len(self.lines())


def wait_for_epochs(sweep, driver, more):
    """Wait until so many more epochs are trained; return whether that came about before the sweep ended."""
    target, deadline = len(sweep.lines()) + more, time.monotonic() + 240
    while len(sweep.lines()) < target:
        if driver.poll() is not None:
            return False
        assert time.monotonic() < deadline, (sweep.folder / "out.txt").read_text()
        time.sleep(0.02)
    return True


def torment(sweep, chance):
    """Kill drivers and workers until there were enough kills; return how many of each, and what was seen after each."""
    killed, seen = Counter(), []
    while killed.total() < KILLS:
        driver, processes = start(sweep.folder, log=sweep.log), {}
        try:
            while killed.total() < KILLS and wait_for_epochs(sweep, driver, chance.randint(2, 12)):
                time.sleep(chance.uniform(0.0, 0.1))
                alive = descendants(driver.pid)
                processes |= alive
                workers = sorted(filter(is_worker, alive))
                kind = "driver" if chance.random() < 0.2 or not workers else "worker"
                with suppress(ProcessLookupError):  # it may have ended meanwhile
                    os.kill(driver.pid if kind == "driver" else chance.choice(workers), signal.SIGKILL)
                    killed[kind] += 1
                seen.append(sweep.observe())
                if kind == "driver":
                    break
        finally:
            end(driver, processes | descendants(driver.pid))
        seen.append(sweep.observe())
        assert killed.total() == KILLS or not sweep.is_done(), "too few trials for so many kills"
    return killed, seen


def numbers(folder):
    return {record.id: record.numbers() for record in Ledger(folder / "runs/chaos").records()}


@pytest.mark.slow
def test_twenty_kills_of_drivers_and_workers(tmp_path):
    uninterrupted, folder = tmp_path / "uninterrupted", tmp_path / "tormented"
    for each in (uninterrupted, folder):
        each.mkdir()
        (each / "suite.yaml").write_text(SUITE)
    assert start(uninterrupted, "--executor", "in-process").wait(300) == 0
    sweep = Sweep(folder)
    killed, seen = torment(sweep, random.Random(23))  # noqa: S311  # the same kills again
    assert killed.total() == KILLS
    assert min(killed["driver"], killed["worker"]) >= 4
    for _ in range(3):  # a worker's trial that was killed in the last run is tried again by the next
        done = start(folder, log=sweep.log).wait(300)
        seen.append(sweep.observe())
        if done == 0:
            break
    expected, records = numbers(uninterrupted), list(Ledger(folder / "runs/chaos").records())
    assert done == 0, (folder / "out.txt").read_text()
    assert numbers(folder) == expected
    assert len(expected) == TRIALS
    assert {record.status for record in records} == {"finished"}
    # No finished epoch was trained again once it was kept.
    trials = {record.spec["architecture"]["arguments"]["width"]: record.id for record in records}
    lines = sweep.lines()
    for kept, trained in seen:
        again = [(width, epoch) for width, epoch in lines[trained:] if epoch <= kept[trials[width]]]
        assert again == []
    assert sum(kept.total() for kept, _ in seen) > 0
    # And of those that were not kept yet at most the one under way, and its successor, for each worker of a kill.
    assert TRIALS * EPOCHS <= len(lines) <= TRIALS * EPOCHS + 2 * 2 * KILLS
    assert set(lines) == {(width, epoch) for width in trials for epoch in range(1, EPOCHS + 1)}
    assert sum("resumed_at_step" in record.timing for record in records) >= TRIALS // 2
    assert not (folder / "runs/chaos/checkpoints").exists()
    # In MLflow each trial is one run, and each curve has each of its points once.
    with sqlite3.connect(folder / "runs/chaos/mlflow.db") as database:
        runs = database.execute(
            "select tags.value from runs join tags using (run_uuid)"
            " where runs.lifecycle_stage = 'active' and tags.key = 'initbench.trial_id'"
        )
        assert Counter(value for (value,) in runs) == Counter(list(expected))
        points = database.execute(
            "select key, step from metrics join runs using (run_uuid) where runs.lifecycle_stage = 'active'"
        ).fetchall()
        doubled = database.execute(
            "select run_uuid, key, step from metrics join runs using (run_uuid)"
            " where runs.lifecycle_stage = 'active' group by run_uuid, key, step having count(*) > 1"
        ).fetchall()
    assert doubled == []
    assert sum(key.startswith("curves/") for key, _ in points) >= TRIALS * EPOCHS
