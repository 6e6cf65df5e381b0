from __future__ import annotations

import re
import threading
import time

import pytest
from mlflow import MlflowClient
from trials import make_record

from initbench.errors import InitbenchError
from initbench.tracking import contents
from initbench.tracking import mlflow as tracking
from initbench.tracking.thread import TrackingThread
from initbench.tracking.uri import default_tracking_uri


class FakeTracker:
    """Logs to a list; refuses seed 1; waits for `gate` first."""

    logged: list[int]
    gate: threading.Event

    def __init__(self, *_args):
        pass

    def log(self, record, _labels):
        logged = FakeTracker.logged  # of this test, whenever the gate opens
        FakeTracker.gate.wait(30)
        if record.spec["seed"] == 1:
            raise InitbenchError("seed 1 is refused\nand this line is not shown")
        logged.append(record.spec["seed"])


@pytest.fixture
def fake(monkeypatch):
    FakeTracker.logged, FakeTracker.gate = [], threading.Event()
    monkeypatch.setattr(tracking, "MlflowTracker", FakeTracker)
    yield FakeTracker
    FakeTracker.gate.set()


def _put(thread, seeds):
    for seed in seeds:
        thread.put(make_record(seed=seed), {})


def test_everything_is_in_mlflow_after_close(tmp_path):
    uri = default_tracking_uri(tmp_path)
    thread = TrackingThread(tmp_path, uri, "depth")
    records = [make_record(seed=seed) for seed in range(3)]
    for record in records:
        thread.put(record, contents.trial_labels([record.spec])[0])
    thread.put_suite()
    assert thread.close() == []
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("depth")
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.data.tags.get("initbench.trial_id", "report") for run in runs) == sorted(
        [*(record.id for record in records), "report"]
    )


def test_putting_does_not_wait_for_the_store(fake, tmp_path):
    thread = TrackingThread(tmp_path, "uri", "depth")
    begun = time.monotonic()
    _put(thread, [0, 2, 3])
    assert time.monotonic() - begun < 1
    assert fake.logged == []
    fake.gate.set()
    assert thread.close() == []
    assert fake.logged == [0, 2, 3]


def test_a_trial_that_is_refused_does_not_stop_the_others_and_is_told_once(fake, tmp_path):
    fake.gate.set()
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0, 1, 1, 2])
    [line] = thread.close()
    assert line.startswith("seed 1 is refused; ")
    assert line.endswith(f"initbench sync {tmp_path}")
    assert fake.logged == [0, 2]


def test_a_store_that_cannot_be_opened_is_told(monkeypatch, tmp_path):
    def refuse(*_args):
        raise InitbenchError("no store")

    monkeypatch.setattr(tracking, "MlflowTracker", refuse)
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0])
    [line] = thread.close()
    assert line.startswith("no store; the ledger is complete")


def test_a_store_that_does_not_answer_is_asked_again_only_after_a_while(fake, monkeypatch, tmp_path):
    fake.gate.set()
    asked = []

    def refuse(_self, record, _labels):
        asked.append(record.spec["seed"])
        raise InitbenchError("database is locked")

    monkeypatch.setattr(FakeTracker, "log", refuse)
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, range(10))
    [line] = thread.close()
    assert line.startswith("database is locked; ")
    assert asked == [0, 1, 2]


def test_a_store_that_comes_back_is_written_to(fake, monkeypatch, tmp_path):
    fake.gate.set()
    monkeypatch.setattr("initbench.tracking.thread._SECONDS_UNTIL_ASKED_AGAIN", 0.0)
    answers = iter([InitbenchError("down"), InitbenchError("still down"), FakeTracker()])

    def connect(*_args):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(tracking, "MlflowTracker", connect)
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0, 2, 3, 4])
    [line] = thread.close()
    assert line.startswith("down (and 1 more); ")
    assert fake.logged == [3, 4]


def test_close_gives_up_on_a_store_that_hangs(fake, tmp_path):
    thread = TrackingThread(tmp_path, "http://me:secret@host", "depth")
    _put(thread, [0])
    begun = time.monotonic()
    [line] = thread.close(timeout=0.3)
    assert time.monotonic() - begun < 5
    assert line.startswith("MLflow at http://me:***@host has not responded for 0.3 seconds; ")
    assert fake.logged == []


def test_nothing_is_written_after_a_deadline_and_what_is_missing_is_counted(fake, monkeypatch, tmp_path):
    fake.gate.set()
    log = FakeTracker.log

    def slow(self, record, labels):
        time.sleep(0.05)
        log(self, record, labels)

    monkeypatch.setattr(FakeTracker, "log", slow)
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, range(2, 202))  # ten seconds of them
    begun = time.monotonic()
    [line] = thread.close_by(begun + 0.5)
    assert 0.4 < time.monotonic() - begun < 2
    time.sleep(0.2)  # the one that was under way
    written = len(fake.logged)
    assert 0 < written < 50
    told = re.fullmatch(
        rf"there was no time left; MLflow may lack (\d+) trials; to repair it: initbench sync {tmp_path}", line
    )
    assert int(told[1]) in {200 - written, 201 - written}
    time.sleep(0.3)
    assert len(fake.logged) == written


def test_a_deadline_ends_the_waiting_for_a_store_that_hangs(fake, tmp_path):
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0, 2, 2])  # the last one has another label
    begun = time.monotonic()
    [line] = thread.close_by(begun + 0.3)
    assert time.monotonic() - begun < 2
    assert "MLflow may lack 2 trials" in line
    fake.gate.set()
    thread._thread.join(5)
    assert not thread._thread.is_alive()
    assert fake.logged == [0]


def test_a_store_is_not_written_to_that_is_ready_after_the_deadline(fake, monkeypatch, tmp_path):
    made = []

    def make(*_args):
        made.append(fake.gate.wait(30))
        return FakeTracker()

    monkeypatch.setattr(tracking, "MlflowTracker", make)
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0])
    [line] = thread.close_by(time.monotonic() + 0.3)
    assert "MLflow may lack 1 trial;" in line
    fake.gate.set()
    thread._thread.join(5)
    assert not thread._thread.is_alive()
    assert (made, fake.logged) == ([True], [])


def test_before_a_deadline_all_is_written_and_what_is_refused_is_told(fake, tmp_path):
    fake.gate.set()
    begun = time.monotonic()
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0, 2])
    assert thread.close_by(begun + 30) == []
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [3, 1])
    [line] = thread.close_by(begun + 30)
    assert line == f"seed 1 is refused; MLflow may lack 1 trial; to repair it: initbench sync {tmp_path}"
    assert time.monotonic() - begun < 10
    assert fake.logged == [0, 2, 3]


def test_an_abandoned_queue_is_not_written(fake, tmp_path):
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0, 2, 3])
    begun = time.monotonic()
    thread.abandon()
    assert time.monotonic() - begun < 1
    fake.gate.set()
    assert thread.close() == []
    assert set(fake.logged) <= {0}  # the one that was under way
