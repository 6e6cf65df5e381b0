from __future__ import annotations

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
        FakeTracker.gate.wait(30)
        if record.spec["seed"] == 1:
            raise InitbenchError("seed 1 is refused\nand this line is not shown")
        FakeTracker.logged.append(record.spec["seed"])


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
    assert line.startswith("MLflow at http://me:***@host has answered nothing for 0.3 seconds; ")
    assert fake.logged == []


def test_an_abandoned_queue_is_not_written(fake, tmp_path):
    thread = TrackingThread(tmp_path, "uri", "depth")
    _put(thread, [0, 2, 3])
    begun = time.monotonic()
    thread.abandon()
    assert time.monotonic() - begun < 1
    fake.gate.set()
    assert thread.close() == []
    assert set(fake.logged) <= {0}  # the one that was under way
