"""What a driver that was killed leaves in MLflow is made whole by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from stores import Store, assert_whole, log_trial
from trials import make_record

from initbench.ledger import Ledger
from initbench.tracking.mlflow import MlflowTracker, sync
from initbench.tracking.uri import default_tracking_uri

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("call", ["log_batch", "log_text", "set_terminated", "set_tag"])
def test_what_a_killed_driver_left_is_written_anew(store, call, monkeypatch, tmp_path):
    ledger = Ledger(tmp_path)
    records = [make_record(seed=seed) for seed in range(2)]
    for record in records:
        ledger.write(record)
    tracker = store.tracker()

    def killed(*_args, **_kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tracker._client, call, killed)
        with pytest.raises(KeyboardInterrupt):
            log_trial(tracker, records[0])
    [half] = store.runs(records[0].id)
    assert "initbench.record" not in half.data.tags
    assert sync(ledger, store.tracker()) == Counter(replaced=1, written=1)
    for record in records:
        assert_whole(store, record)
    assert sync(ledger, store.tracker()) == Counter(unchanged=2)


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from trials import make_record
from initbench.ledger import Ledger
from initbench.tracking import contents
from initbench.tracking.mlflow import MlflowTracker
from initbench.tracking.uri import default_tracking_uri
folder = sys.argv[2]
records = [make_record(seed=seed) for seed in range(4)]
ledger = Ledger(folder)
for record in records:
    ledger.write(record)
labels = contents.trial_labels([record.spec for record in records])
tracker = MlflowTracker(folder, default_tracking_uri(folder), "depth")
tracker.log(records[0], labels[0])
tracker.log(records[1], labels[1])
ledger.write_suite("name: depth", {})
tracker.log_suite()
def hang(*args):
    print("half", flush=True)
    time.sleep(60)
tracker._client.log_text = hang
tracker.log(records[2], labels[2])
"""


@pytest.mark.slow
def test_a_driver_that_was_really_killed_and_never_printed_a_word(tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    process = subprocess.Popen(
        [sys.executable, "-W", "error::ResourceWarning", "-c", KILLED, HERE, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        assert process.stdout.readline() == "half\n", process.stderr.read()
        os.kill(process.pid, signal.SIGKILL)
        # Creating the store, writing runs and artifacts: none of it reaches the terminal.
        assert process.communicate() == ("", "")
    store = Store(tmp_path, default_tracking_uri(tmp_path), "depth")
    ledger = Ledger(tmp_path)
    assert sync(ledger, store.tracker()) == Counter(unchanged=2, replaced=1, written=1)
    assert len(store.runs()) == 5
    for record in ledger.records():
        assert_whole(store, record)


OUT_OF_TIME = """
import sys, time
sys.path.insert(0, sys.argv[1])
from trials import make_record
from initbench.ledger import Ledger
from initbench.tracking import contents
from initbench.tracking.mlflow import MlflowTracker
from initbench.tracking.thread import TrackingThread
from initbench.tracking.uri import default_tracking_uri
folder, part = sys.argv[2:]
write = MlflowTracker._write
def slow(self, record, labels, digest):
    if record.spec["seed"] == 2:
        if part == "artifacts":
            self._client.log_text = lambda *_: time.sleep(60)
        else:
            connect = self._client._tracking_client.store.engine.connect()
            connect.exec_driver_sql("begin exclusive")  # SQLite waits for its own process as for any other
    write(self, record, labels, digest)
MlflowTracker._write = slow
records = [make_record(seed=seed) for seed in range(5)]
ledger = Ledger(folder)
for record in records:
    ledger.write(record)
thread = TrackingThread(folder, default_tracking_uri(folder), "depth")
for record, labels in zip(records, contents.trial_labels([record.spec for record in records])):
    thread.put(record, labels)
while thread._done < 2:
    time.sleep(0.01)
[line] = thread.close_by(time.monotonic() + 1)
print(line, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", ["artifacts", "database"])
def test_a_process_whose_time_is_up_ends_amid_a_write_and_nothing_is_doubled(part, tmp_path):
    command = [sys.executable, "-c", OUT_OF_TIME, HERE, tmp_path, part]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        told = process.stdout.readline()
        begun = time.monotonic()
        try:
            assert process.communicate(timeout=20) == ("", "")
        finally:
            process.kill()
        assert time.monotonic() - begun < 10  # what is being written would take a minute, or five seconds a trial
    assert process.returncode == 0
    assert told == f"there was no time left; MLflow may lack 3 trials; to repair it: initbench sync {tmp_path}\n"
    store = Store(tmp_path, default_tracking_uri(tmp_path), "depth")
    ledger = Ledger(tmp_path)
    half = Counter(unchanged=2, replaced=1, written=2) if part == "artifacts" else Counter(unchanged=2, written=3)
    assert sync(ledger, store.tracker()) == half
    assert len(store.runs()) == 5
    for record in ledger.records():
        assert_whole(store, record)


@pytest.mark.slow
def test_a_driver_killed_while_the_store_was_made_leaves_none(tmp_path):
    """MLflow's migrations cannot go on from a half-made store: "table _alembic_tmp_experiments already exists"."""
    uri = default_tracking_uri(tmp_path)
    script = "import sys; from initbench.tracking.mlflow import MlflowTracker; MlflowTracker(*sys.argv[1:], 'depth')"
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), uri])
    part = tmp_path / "mlflow.db.part"
    while not part.exists() or part.stat().st_size < 100_000:  # a whole store has about 900,000 bytes
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert part.exists()
    assert not (tmp_path / "mlflow.db").exists()
    assert log_trial(MlflowTracker(tmp_path, uri, "depth"), make_record()) == "written"
    assert not part.exists()
