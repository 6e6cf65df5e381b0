"""A suite's folder that came from elsewhere: what lies in it is data, and MLflow neither leaves it nor waits for it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from stores import Store, log_trial, unread_pipe
from trials import make_record

from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.reporting.manifest import recorded
from initbench.tracking.experiment import read_experiment
from initbench.tracking.mlflow import MlflowTracker, connect, sync_folder
from initbench.tracking.server import serve
from initbench.tracking.thread import TrackingThread
from initbench.tracking.uri import check_tracking_uri, default_tracking_uri


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "runs/depth"
    Ledger(folder).write(make_record())
    return folder


@pytest.fixture
def precious(tmp_path):
    """A folder elsewhere."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "index.html").write_text("my thesis")
    return precious


def contents_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def track(folder):
    """Track a suite as a run does; return what is told of it."""
    thread = TrackingThread(folder, default_tracking_uri(folder), "depth")
    thread.put(make_record(), {"architecture": "wrn", "initializer": "kaiming", "dataset": "digits", "place": "wrn"})
    thread.put_suite()
    return thread.close()


def assert_refused(folder, name):
    """A run tells it in one note, and what writes to MLflow alone ends in one line."""
    told = f"{folder / name}: is a link that leads out of its folder, and nothing is written through it"
    check_tracking_uri(default_tracking_uri(folder))  # the trials of a run are run
    [note] = track(folder)
    with pytest.raises(InitbenchError) as caught:
        sync_folder(folder, default_tracking_uri(folder))
    for line in (note, str(caught.value)):
        assert line.startswith(told)
        assert "\n" not in line


def test_a_link_to_a_database_elsewhere_is_not_written_through(folder, precious):
    with sqlite3.connect(precious / "cookies.db") as database:
        database.execute("create table cookies (name)")
    before = contents_of(precious)
    (folder / "mlflow.db").symlink_to(precious / "cookies.db")
    assert_refused(folder, "mlflow.db")
    for use in (
        lambda: serve(default_tracking_uri(folder), folder, 0),
        lambda: read_experiment("depth", default_tracking_uri(folder)),
    ):
        with pytest.raises(InitbenchError, match="leads out of its folder"):
            use()
    assert contents_of(precious) == before


def test_a_database_that_is_a_link_to_itself_makes_way(folder):
    (folder / "mlflow.db").symlink_to("mlflow.db")
    check_tracking_uri(default_tracking_uri(folder))
    assert track(folder) == []
    assert sync_folder(folder, default_tracking_uri(folder)).keys() <= {"unchanged", "relabelled"}
    assert not (folder / "mlflow.db").is_symlink()


def test_artifacts_that_are_a_link_to_themselves_are_one_line(folder):
    (folder / "mlartifacts").symlink_to("mlartifacts")
    [note] = track(folder)
    with pytest.raises(InitbenchError) as caught:
        sync_folder(folder, default_tracking_uri(folder))
    for line in (note, str(caught.value)):
        assert "mlartifacts" in line
        assert "\n" not in line


def test_a_link_in_the_place_of_the_artifacts_is_not_written_through(folder, precious):
    before = contents_of(precious)
    (folder / "mlartifacts").symlink_to(precious)
    assert_refused(folder, "mlartifacts")
    assert contents_of(precious) == before


def test_links_in_the_place_of_what_is_not_made_yet_are_replaced(folder, precious):
    for name in ("mlflow.db.part", "mlflow.db.part.lock"):
        (folder / name).symlink_to(precious / "index.html")
    (folder / "mlflow.db").symlink_to(precious / "new")
    before = contents_of(precious)
    assert track(folder) == []
    assert contents_of(precious) == before
    assert not (folder / "mlflow.db").is_symlink()


def test_a_report_is_not_written_to_where_a_link_among_the_artifacts_leads(folder, precious):
    store = Store(folder, default_tracking_uri(folder), "depth")
    with recorded(folder / "report", ["index.html"]):
        (folder / "report/index.html").write_text("a report")
    store.tracker().log_suite()
    [run] = store.runs()
    artifacts = folder / "mlartifacts" / run.info.run_id / "artifacts"
    shutil.rmtree(artifacts)
    (precious / "report").mkdir()
    (precious / "report/index.html").write_text("my other thesis")
    artifacts.symlink_to(precious)
    before = contents_of(precious)
    with pytest.raises(InitbenchError, match=r"MLflow's run 'report' keeps its artifacts out of this folder"):
        store.tracker().log_suite()
    artifacts.unlink()
    with sqlite3.connect(folder / "mlflow.db") as database:
        database.execute("update runs set artifact_uri = ?", [precious.as_uri()])
    with pytest.raises(InitbenchError, match=r"MLflow's run 'report' keeps its artifacts out of this folder") as caught:
        store.tracker().log_suite()
    assert "\n" not in str(caught.value)
    assert contents_of(precious) == before


def test_a_pipe_in_the_place_of_a_store_is_refused_and_not_opened(folder):
    uri = default_tracking_uri(folder)
    with unread_pipe(folder / "mlflow.db"):
        for use in (
            lambda: check_tracking_uri(uri),
            lambda: connect(uri),
            lambda: serve(uri, folder, 0),
            lambda: MlflowTracker(folder, uri, "depth"),
        ):
            with pytest.raises(InitbenchError, match=r"mlflow\.db: is a pipe, not a file$"):
                use()


def test_a_device_in_the_place_of_a_store_is_refused():
    with pytest.raises(InitbenchError, match="/dev/zero: is a device, not a file"):
        check_tracking_uri("sqlite:////dev/zero")


def test_only_what_the_report_wrote_is_passed_on(folder, precious):
    secret = precious / "id_rsa"
    secret.write_text("secret")
    report = folder / "report"
    with recorded(report, ["index.html", "cells.csv", "figures/curves.svg", "figures/layers.svg"]):
        (report / "index.html").write_text("a report")
        (report / "figures/curves.svg").write_text("<svg/>")
        (report / "cells.csv").symlink_to(secret)
        (report / "figures/layers.svg").symlink_to(secret)
    (report / "x.txt").symlink_to(secret)
    (report / "notes.txt").write_text("mine")
    (report / "home").symlink_to(precious)
    (folder / "suite.yaml").symlink_to(secret)
    (folder / "resolved.json").write_text("{}")
    store = Store(folder, default_tracking_uri(folder), "depth")
    store.tracker().log_suite()
    [run] = store.runs()
    artifacts = Path(store.client.download_artifacts(run.info.run_id, ""))
    assert contents_of(artifacts) == {
        "resolved.json": b"{}",
        "report/index.html": b"a report",
        "report/figures/curves.svg": b"<svg/>",
    }


def test_what_is_no_file_in_the_place_of_the_suite_is_not_opened(folder):
    store = Store(folder, default_tracking_uri(folder), "depth")
    (folder / "resolved.json").mkdir()
    with unread_pipe(folder / "suite.yaml"):
        store.tracker().log_suite()
    assert len(store.runs()) == 1


def test_a_suite_file_that_is_no_text_costs_a_report_from_mlflow_nothing_else(folder):
    store = Store(folder, default_tracking_uri(folder), "depth")
    (folder / "suite.yaml").write_bytes(b"\xff\xfe")
    tracker = store.tracker()
    log_trial(tracker, make_record())
    tracker.log_suite()
    assert len(read_experiment("depth", store.uri).records) == 1
