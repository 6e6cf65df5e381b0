"""A report from MLflow is the report of the ledger that it was written from."""

from __future__ import annotations

import pytest
from stores import Store, log_trial
from trials import make_record, metainit

from initbench.errors import InitbenchError, LedgerError
from initbench.ledger import Ledger
from initbench.reporting.report import write_report
from initbench.tracking.contents import record_text
from initbench.tracking.experiment import read_experiment
from initbench.tracking.mlflow import sync
from initbench.tracking.uri import default_tracking_uri


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_it_gives_the_same_report_as_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "depth")
    store = Store(ledger.folder, default_tracking_uri(ledger.folder), "depth")
    for seed in range(2):
        ledger.write(make_record(seed=seed, test_error=0.1 + seed / 100))
        ledger.write(make_record(seed=seed, initializer=metainit(), depth=10))
    ledger.write(make_record(seed=2, status="diverged"))
    ledger.write(make_record(seed=3, status="failed"))
    compare = ["initializer", "architecture.depth"]
    ledger.write_suite("description: Does it train?\n", {"schema": 2, "name": "depth", "compare": compare})
    tracker = store.tracker()
    sync(ledger, tracker)
    tracker.log_suite()
    expected = write_report(ledger.folder, tmp_path / "from the ledger").page
    source = read_experiment(store.suite, store.uri)
    assert source.compare == tuple(compare)
    read = write_report(source, tmp_path / "from MLflow").page
    assert "Does it train?" in expected.read_text(encoding="utf-8")
    assert files(read.parent) == files(expected.parent)


def test_runs_that_are_not_whole_are_named_and_left_out(store):
    tracker = store.tracker()
    for seed in range(4):
        log_trial(tracker, make_record(seed=seed))
    runs = {run.data.tags["seed"]: run.info.run_id for run in store.runs()}
    store.client.delete_tag(runs["0"], "initbench.record")  # as a killed driver leaves it
    store.client.log_text(runs["1"], '{"schema": 2', "trial.json")
    store.client.log_text(runs["2"], record_text(make_record(seed=2, test_error=0.5)), "trial.json")
    source = read_experiment(store.suite, store.uri)
    assert source.compare == ("initializer",)  # this experiment does not say what it compares
    assert [record.spec["seed"] for record in source.records] == [3]
    reasons = {run_id: line for run_id in runs.values() for line in source.skipped if run_id in line}
    assert "half written; initbench sync writes it again" in reasons[runs["0"]]
    assert "delimiter" in reasons[runs["1"]]  # as Python's JSON says it
    assert "does not match its digest" in reasons[runs["2"]]
    assert all(line.startswith(f"mlflow:{store.suite}, run 'kaiming · ") for line in source.skipped)


@pytest.mark.slow
def test_records_of_another_schema_are_named_and_refused_where_there_are_no_others(store):
    tracker = store.tracker()
    for seed in range(2):
        log_trial(tracker, make_record(seed=seed))
    first, second = store.runs()
    store.client.log_text(first.info.run_id, '{"schema": 1}', "trial.json")
    source = read_experiment(store.suite, store.uri)
    assert len(source.records) == 1
    assert [first.info.run_id in line and "schema 1" in line for line in source.skipped] == [True]
    store.client.log_text(second.info.run_id, '{"schema": 1}', "trial.json")
    with pytest.raises(LedgerError, match=store.suite):
        read_experiment(store.suite, store.uri)


def test_what_cannot_be_found_is_one_line(store, tmp_path):
    log_trial(store.tracker(), make_record())
    with pytest.raises(InitbenchError, match=r"has no experiment 'nothing like it'"):
        read_experiment("nothing like it", store.uri)
    with pytest.raises(InitbenchError, match=r"there is no MLflow store; give another one with --tracking-uri"):
        read_experiment("depth", default_tracking_uri(tmp_path))
    assert list(tmp_path.iterdir()) == []
    Store(store.folder, store.uri, "empty").tracker()
    with pytest.raises(InitbenchError, match="experiment 'empty' has no trial records"):
        read_experiment("empty", store.uri)
