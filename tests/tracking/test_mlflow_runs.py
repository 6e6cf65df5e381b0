"""The runs of MLflow: one for each trial, whole, whatever happened before."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from stores import Store, assert_whole, log_trial
from trials import EPOCHS, STEPS_PER_EPOCH, make_record, metainit

from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.reporting.manifest import recorded
from initbench.tracking import contents, mlflow
from initbench.tracking.contents import metrics
from initbench.tracking.mlflow import MlflowTracker, connect, sync
from initbench.tracking.uri import default_tracking_uri, sqlite_path


def test_logging_twice_gives_one_run(store):
    record = make_record(initializer=metainit())
    tracker = store.tracker()
    assert log_trial(tracker, record) == "written"
    before = assert_whole(store, record)
    assert log_trial(tracker, record) == "unchanged"
    assert log_trial(store.tracker(), record) == "unchanged"
    assert assert_whole(store, record).info.run_id == before.info.run_id


def test_a_run_tells_when_the_trial_ran(store):
    record = make_record(seconds=12.5)
    record.timing["ended_at"] = 1_000_000.25
    store.tracker().log(record, contents.trial_labels([record.spec])[0])
    [run] = store.runs()
    assert (run.info.start_time, run.info.end_time) == (999_987_750, 1_000_000_250)


def test_more_than_one_call_can_carry(store):
    record = make_record(epochs=450)
    record.probes[0]["conditions"].update({f"condition_{i}": i for i in range(150)})
    assert len(metrics(record)) > 2 * 1000
    assert len(contents.parameters(record)) > 100
    log_trial(store.tracker(), record)
    run = assert_whole(store, record)
    assert len(store.curve(run, "lr")) == 450


def test_an_error_of_mlflow_is_one_line_and_the_next_attempt_mends_the_run(store, monkeypatch):
    record, tracker = make_record(), store.tracker()
    with monkeypatch.context() as patch:
        patch.setattr(tracker._client, "log_text", lambda *_args: 1 / 0)
        with pytest.raises(InitbenchError, match=r"^MLflow at sqlite:.*: division by zero$"):
            log_trial(tracker, record)
    assert log_trial(tracker, record) == "replaced"
    assert_whole(store, record)


def test_nothing_is_printed_in_this_process_either(store, capfd):
    Ledger(store.folder).write_suite("name: depth", {"compare": ["initializer"]})
    tracker = store.tracker()
    log_trial(tracker, make_record())
    tracker.log_suite()
    assert capfd.readouterr() == ("", "")


def test_a_failed_trial_that_was_tried_again_has_one_run(store):
    failed, finished = make_record(status="failed"), make_record()
    assert failed.id == finished.id
    tracker = store.tracker()
    log_trial(tracker, failed)
    run = assert_whole(store, failed)
    assert run.data.tags["status"] == "failed"
    assert log_trial(tracker, finished) == "replaced"
    run = assert_whole(store, finished)
    assert run.data.tags["status"] == "finished"
    assert "error" not in run.data.tags


def test_a_diverged_trial_has_no_test_error(store):
    record = make_record(status="diverged")
    log_trial(store.tracker(), record)
    run = assert_whole(store, record)
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
    after = assert_whole(store, first)
    assert after.info.run_id == before.info.run_id
    assert after.data.tags["initializer"] == "metainit[steps=100](delta_orthogonal)"
    assert after.info.run_name == "metainit[steps=100](delta_orthogonal) · wrn[depth=28, width=1] · seed 0"
    assert after.info.end_time == before.info.end_time
    assert after.data.params == before.data.params  # which MLflow never changes
    assert sync(ledger, store.tracker()) == Counter(unchanged=2)


@pytest.mark.parametrize("layout", [None, "1"])
def test_a_run_of_another_layout_is_written_anew(store, tmp_path, layout):
    """MLflow changes neither parameters nor the steps of metrics; the record of such a run may be the same."""
    ledger, record = Ledger(tmp_path), make_record()
    ledger.write(record)
    log_trial(store.tracker(), record)
    [before] = store.runs()
    store.client.delete_tag(before.info.run_id, "initbench.layout")
    if layout:
        store.client.set_tag(before.info.run_id, "initbench.layout", layout)
    assert sync(ledger, store.tracker()) == Counter(replaced=1)
    after = assert_whole(store, record)
    assert after.info.run_id != before.info.run_id
    assert after.data.tags["initbench.layout"] == "2"
    assert sync(ledger, store.tracker()) == Counter(unchanged=1)


def test_of_two_runs_of_one_trial_one_is_kept(store):
    record = make_record()
    first, second = store.tracker(), store.tracker()
    for tracker in (first, second):  # both know what is there before the trial is
        log_trial(tracker, make_record(seed=7))
    log_trial(first, record)
    log_trial(second, record)
    assert len(store.runs(record.id)) == 2
    assert log_trial(store.tracker(), record) == "replaced"
    assert_whole(store, record)


def test_existing_runs_are_read_page_by_page(store, monkeypatch):
    monkeypatch.setattr(mlflow, "_RUNS_PER_PAGE", 2)
    records = [make_record(seed=seed) for seed in range(5)]
    tracker = store.tracker()
    for record in records:
        log_trial(tracker, record)
    again = store.tracker()
    assert {log_trial(again, record) for record in records} == {"unchanged"}


def test_an_experiment_that_the_user_deleted_comes_back_without_doubles(store):
    failed, finished = make_record(status="failed"), make_record()
    tracker = store.tracker()
    log_trial(tracker, failed)
    log_trial(tracker, finished)
    store.client.delete_experiment(store.client.get_experiment_by_name(store.suite).experiment_id)
    log_trial(store.tracker(), finished)
    assert_whole(store, finished)


def test_a_run_that_the_user_deleted_comes_back(store):
    record = make_record()
    log_trial(store.tracker(), record)
    store.client.delete_run(store.runs()[0].info.run_id)
    assert log_trial(store.tracker(), record) == "written"
    assert_whole(store, record)


def test_the_report_is_refreshed_and_not_doubled(store):
    report = store.folder / "report"
    for text in ("first", "second"):
        with recorded(report, ["index.html", "cells.csv"]):
            (report / "index.html").write_text(f"<h1>{text}</h1>")
            (report / "cells.csv").write_text(text)
        Ledger(store.folder).write_suite(f"name: {text}", {"name": text})
        store.tracker().log_suite()
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
        "resolved.json": '{\n "name": "second"\n}\n',
    }


@pytest.mark.parametrize("status", ["finished", "failed"])
def test_texts_with_half_characters_and_nulls_are_written_as_python_escapes_them(store, status):
    odd = "a\udce9\ud800\x00b"
    record = make_record(status=status)
    record.spec["suite"] = record.spec["dataset"]["name"] = odd
    record.spec["initializer"] = {"name": odd, "arguments": {"mode": odd, odd: odd}}
    if status == "failed":
        record.error.update(type=odd, message=f"first\nsecond {odd}")
    else:
        record.task.update(name=odd)
        record.probes[0]["conditions"][odd] = odd
        record.probes[3]["values"][odd] = 0.5
    tracker = store.tracker()
    assert log_trial(tracker, record) == "written"
    assert log_trial(store.tracker(), record) == "unchanged"
    run = assert_whole(store, record)
    shown = r"a\xe9\ud800\x00b"
    assert run.info.run_name.startswith(shown)
    assert [run.data.tags[key] for key in ("suite", "dataset")] == [shown, shown]
    assert run.data.params["initializer.mode"] == shown
    if status == "failed":
        assert run.data.tags["error"] == f"{shown}: first\nsecond {shown}"
    else:
        assert run.data.tags["task"] == shown
        layers = Path(store.client.download_artifacts(run.info.run_id, "layers.csv")).read_text()
        assert f",{shown},0.5," in layers


def test_artifacts_lie_beside_the_ledger_and_the_working_directory_stays_clean(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = make_record()
    log_trial(store.tracker(), record)
    [run] = store.runs()
    assert (store.folder / "mlartifacts" / run.info.run_id / "artifacts" / "trial.json").exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["what?", "feature%2Fx"])
def test_all_lies_beside_the_ledger_whatever_the_folder_is_called(name, tmp_path):
    folder = tmp_path / name
    ledger = Ledger(folder)
    ledger.write(make_record())
    store = Store(folder, default_tracking_uri(folder), "depth")
    assert sync(ledger, store.tracker()) == Counter(written=1)
    assert_whole(store, make_record())
    assert sync(ledger, store.tracker()) == Counter(unchanged=1)
    assert list(tmp_path.iterdir()) == [folder]
    assert sorted(path.name for path in folder.iterdir()) == ["mlartifacts", "mlflow.db", "trials"]


def test_the_store_of_a_folder_that_was_moved_is_refused(tmp_path):
    tmp_path.joinpath("old").mkdir()
    MlflowTracker(tmp_path / "old", default_tracking_uri(tmp_path / "old"), "depth")
    new = (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(InitbenchError, match=r"new/mlflow.db was made in .*old/mlartifacts; delete it and run"):
        MlflowTracker(new, default_tracking_uri(new), "depth")


def test_a_store_that_two_runs_need_at_once_is_made_once(tmp_path, monkeypatch):
    made = []

    class SlowlyMade:
        def __init__(self, tracking_uri, registry_uri=None):
            self.path = sqlite_path(tracking_uri)

        def search_experiments(self, **_):
            made.append(self.path)
            time.sleep(0.2)
            self.path.write_bytes(b"SQLite format 3\0")

    monkeypatch.setattr("mlflow.MlflowClient", SlowlyMade)
    with ThreadPoolExecutor() as threads:
        clients = list(threads.map(connect, [default_tracking_uri(tmp_path)] * 3))
    assert [client.path.name for client in clients] == ["mlflow.db"] * 3
    assert len(made) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_curve_in_the_store_has_one_value_per_increasing_step(store):
    record = make_record()
    tracker = store.tracker()
    for _ in range(2):
        log_trial(tracker, record)
    [run] = store.runs()
    assert [step for step, _ in store.curve(run, "train_loss")] == [
        STEPS_PER_EPOCH * (epoch + 1) for epoch in range(EPOCHS)
    ]


def test_trials_of_a_search_are_told_apart_and_what_is_chosen_no_more_says_so_no_more(store):
    spec = make_record().spec
    recipe = {"recipe": spec["recipe"] | {"lr": 0.03}, "tuned": ["recipe.lr"]}
    searched = replace(make_record(), id="a" * 64, spec=spec | recipe | {"phase": "search"})
    chosen = replace(make_record(), id="b" * 64, spec=spec | recipe | {"protocols": ["shared", "own"]})
    tracker = store.tracker()
    for record in (searched, chosen):
        log_trial(tracker, record)
    [one], [other] = store.runs(searched.id), store.runs(chosen.id)
    assert one.info.run_name.endswith("seed 0 · search lr=0.03")
    assert other.info.run_name.endswith("seed 0 · shared, own")
    assert (one.data.tags.get("protocols"), other.data.tags["protocols"]) == (None, "shared, own")
    assert log_trial(store.tracker(), chosen.without_labels_of_tuning()) == "replaced"
    [after] = store.runs(chosen.id)
    assert after.info.run_name.endswith("seed 0")
    assert "protocols" not in after.data.tags
