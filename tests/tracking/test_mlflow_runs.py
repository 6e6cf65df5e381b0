from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType
from trials import EPOCHS, STEPS_PER_EPOCH, make_record, metainit

from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.tracking import contents
from initbench.tracking import mlflow as tracking
from initbench.tracking.mlflow import MlflowTracker, sync
from initbench.tracking.uri import default_tracking_uri

HERE = Path(__file__).parent


class Store:
    """One store for the whole module (creating one takes seconds), with one experiment per test."""

    def __init__(self, folder, uri, suite):
        self.folder, self.uri, self.suite = folder, uri, suite
        self.client = MlflowClient(tracking_uri=uri)

    def tracker(self):
        return MlflowTracker(self.folder, self.uri, self.suite)

    def runs(self, trial_id=None):
        experiment = self.client.get_experiment_by_name(self.suite)
        runs = self.client.search_runs([experiment.experiment_id], run_view_type=ViewType.ACTIVE_ONLY, max_results=500)
        return [run for run in runs if trial_id in {None, run.data.tags.get("initbench.trial_id")}]

    def curve(self, run, name):
        return [(m.step, m.value) for m in self.client.get_metric_history(run.info.run_id, f"curves/{name}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("a folder & its store")


@pytest.fixture
def store(folder, request):
    return Store(folder, default_tracking_uri(folder), request.node.name)


def _log(tracker, record):
    return tracker.log(record, contents.trial_labels([record.spec])[0])


def _assert_whole(store, record):
    [run] = store.runs(record.id)
    assert run.data.tags["initbench.record"] == contents.record_digest(record)
    assert run.info.status == ("FAILED" if record.status == "failed" else "FINISHED")
    curve = [(entry["step"], entry["test_error"]) for entry in record.history]
    assert store.curve(run, "test_error") == curve
    assert run.data.params == contents.parameters(record)
    assert run.data.metrics.get("test_error") == record.metrics.get("test_error")
    path = store.client.download_artifacts(run.info.run_id, "trial.json")
    assert json.loads(Path(path).read_text()) == json.loads(json.dumps(record.to_json()))
    return run


def test_logging_twice_gives_one_run(store):
    record = make_record(initializer=metainit())
    tracker = store.tracker()
    assert _log(tracker, record) == "written"
    before = _assert_whole(store, record)
    assert _log(tracker, record) == "unchanged"
    assert _log(store.tracker(), record) == "unchanged"
    assert _assert_whole(store, record).info.run_id == before.info.run_id


def test_a_run_tells_when_the_trial_ran(store):
    record = make_record(seconds=12.5)
    record.timing["ended_at"] = 1_000_000.25
    store.tracker().log(record, contents.trial_labels([record.spec])[0])
    [run] = store.runs()
    assert (run.info.start_time, run.info.end_time) == (999_987_750, 1_000_000_250)


def test_more_than_one_call_can_carry(store):
    record = make_record(epochs=450)
    record.probes[0]["conditions"].update({f"condition_{i}": i for i in range(150)})
    assert len(contents.metrics(record)) > 2 * 1000
    assert len(contents.parameters(record)) > 100
    _log(store.tracker(), record)
    run = _assert_whole(store, record)
    assert len(store.curve(run, "lr")) == 450


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
            _log(tracker, records[0])
    [half] = store.runs(records[0].id)
    assert "initbench.record" not in half.data.tags
    assert sync(ledger, store.tracker()) == Counter(replaced=1, written=1)
    for record in records:
        _assert_whole(store, record)
    assert sync(ledger, store.tracker()) == Counter(unchanged=2)


def test_an_error_of_mlflow_is_one_line_and_the_next_attempt_mends_the_run(store, monkeypatch):
    record, tracker = make_record(), store.tracker()
    with monkeypatch.context() as patch:
        patch.setattr(tracker._client, "log_text", lambda *_args: 1 / 0)
        with pytest.raises(InitbenchError, match=r"^MLflow at sqlite:.*: division by zero$"):
            _log(tracker, record)
    assert _log(tracker, record) == "replaced"
    _assert_whole(store, record)


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
tracker.log_suite(ledger.path(records[0].id), ledger.trials)
def hang(*args):
    print("half", flush=True)
    time.sleep(60)
tracker._client.log_text = hang
tracker.log(records[2], labels[2])
"""


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
        _assert_whole(store, record)


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
    assert _log(MlflowTracker(tmp_path, uri, "depth"), make_record()) == "written"
    assert not part.exists()


def test_nothing_is_printed_in_this_process_either(store, capfd):
    tracker = store.tracker()
    _log(tracker, make_record())
    tracker.log_suite(__file__, HERE)
    assert capfd.readouterr() == ("", "")


def test_a_failed_trial_that_was_tried_again_has_one_run(store):
    failed, finished = make_record(status="failed"), make_record()
    assert failed.id == finished.id
    tracker = store.tracker()
    _log(tracker, failed)
    run = _assert_whole(store, failed)
    assert run.data.tags["status"] == "failed"
    assert _log(tracker, finished) == "replaced"
    run = _assert_whole(store, finished)
    assert run.data.tags["status"] == "finished"
    assert "error" not in run.data.tags


def test_a_diverged_trial_has_no_test_error(store):
    record = make_record(status="diverged")
    _log(store.tracker(), record)
    run = _assert_whole(store, record)
    assert run.info.status == "FINISHED"
    assert run.data.tags["status"] == "diverged"
    assert "test_error" not in run.data.metrics
    assert run.data.metrics["diverged_at_step"] == 30


def test_labels_that_change_with_the_suite_are_brought_up_to_date(store, tmp_path):
    ledger = Ledger(tmp_path)
    first = make_record(initializer=metainit(100))
    ledger.write(first)
    sync(ledger, store.tracker())
    [before] = store.runs()
    assert before.info.run_name == "metainit(delta_orthogonal) · wrn[depth=28, width=1] · seed 0"
    ledger.write(make_record(initializer=metainit(500)))
    assert sync(ledger, store.tracker()) == Counter(relabelled=1, written=1)
    after = _assert_whole(store, first)
    assert after.info.run_id == before.info.run_id
    assert after.data.tags["initializer"] == "metainit[steps=100](delta_orthogonal)"
    assert after.info.run_name == "metainit[steps=100](delta_orthogonal) · wrn[depth=28, width=1] · seed 0"
    assert after.info.end_time == before.info.end_time
    assert sync(ledger, store.tracker()) == Counter(unchanged=2)


def test_of_two_runs_of_one_trial_one_is_kept(store):
    record = make_record()
    first, second = store.tracker(), store.tracker()
    _log(first, record)
    _log(second, record)
    assert len(store.runs(record.id)) == 2
    assert _log(store.tracker(), record) == "replaced"
    _assert_whole(store, record)


def test_existing_runs_are_read_page_by_page(store, monkeypatch):
    monkeypatch.setattr(tracking, "_RUNS_PER_PAGE", 2)
    records = [make_record(seed=seed) for seed in range(5)]
    tracker = store.tracker()
    for record in records:
        _log(tracker, record)
    again = store.tracker()
    assert {_log(again, record) for record in records} == {"unchanged"}


def test_an_experiment_that_the_user_deleted_comes_back_without_doubles(store):
    failed, finished = make_record(status="failed"), make_record()
    tracker = store.tracker()
    _log(tracker, failed)
    _log(tracker, finished)
    store.client.delete_experiment(store.client.get_experiment_by_name(store.suite).experiment_id)
    _log(store.tracker(), finished)
    _assert_whole(store, finished)


def test_a_run_that_the_user_deleted_comes_back(store):
    record = make_record()
    _log(store.tracker(), record)
    store.client.delete_run(store.runs()[0].info.run_id)
    assert _log(store.tracker(), record) == "written"
    _assert_whole(store, record)


def test_the_report_is_refreshed_and_not_doubled(store, tmp_path):
    report, suite_file = tmp_path / "report", tmp_path / "suite.yaml"
    report.mkdir()
    for text in ("first", "second"):
        (report / "index.html").write_text(f"<h1>{text}</h1>")
        (report / "cells.csv").write_text(text)
        suite_file.write_text(f"name: {text}")
        store.tracker().log_suite(suite_file, report)
    [run] = store.runs()
    assert run.info.run_name == "report"
    assert run.info.status == "FINISHED"
    assert run.data.tags["initbench.kind"] == "report"
    assert not run.data.metrics
    artifacts = Path(store.client.download_artifacts(run.info.run_id, ""))
    files = {str(path.relative_to(artifacts)): path.read_text() for path in artifacts.rglob("*") if path.is_file()}
    assert files == {
        "report/index.html": "<h1>second</h1>",
        "report/cells.csv": "second",
        "suite.yaml": "name: second",
    }


def test_artifacts_lie_beside_the_ledger_and_the_working_directory_stays_clean(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = make_record()
    _log(store.tracker(), record)
    [run] = store.runs()
    assert (store.folder / "mlartifacts" / run.info.run_id / "artifacts" / "trial.json").exists()
    assert list(tmp_path.iterdir()) == []


def test_the_store_of_a_folder_that_was_moved_is_refused(tmp_path):
    tmp_path.joinpath("old").mkdir()
    MlflowTracker(tmp_path / "old", default_tracking_uri(tmp_path / "old"), "depth")
    new = (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(InitbenchError, match=r"new/mlflow.db was made in .*old/mlartifacts; delete it and run"):
        MlflowTracker(new, default_tracking_uri(new), "depth")


def test_a_curve_in_the_store_has_one_value_per_increasing_step(store):
    record = make_record()
    tracker = store.tracker()
    for _ in range(2):
        _log(tracker, record)
    [run] = store.runs()
    assert [step for step, _ in store.curve(run, "train_loss")] == [
        STEPS_PER_EPOCH * (epoch + 1) for epoch in range(EPOCHS)
    ]
