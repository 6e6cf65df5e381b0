"""A store of MLflow, and what a run in it must hold."""

import json
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import ViewType

from initbench.tracking import contents
from initbench.tracking.contents import layer_table, metrics
from initbench.tracking.mlflow import MlflowTracker


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
        return self.points(run, f"curves/{name}")

    def points(self, run, name):
        return [(m.step, m.value) for m in self.client.get_metric_history(run.info.run_id, name)]


@contextmanager
def unread_pipe(path):
    """A named pipe that nobody may open: to read it would take for ever, but for the writer that waits here."""
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("{}",), daemon=True)
    writer.start()
    time.sleep(0.1)  # until it waits
    yield
    writer.join(0.2)
    assert writer.is_alive(), f"{path.name} was opened"


def log_trial(tracker, record):
    return tracker.log(record, contents.trial_labels([record.spec])[0])


def assert_whole(store, record):
    [run] = store.runs(record.id)
    assert run.data.tags["initbench.record"] == contents.record_digest(record)
    assert run.info.status == ("FAILED" if record.status == "failed" else "FINISHED")
    curve = [(entry["step"], entry["test_error"]) for entry in record.history]
    assert store.curve(run, "test_error") == curve
    assert run.data.params == contents.parameters(record)
    assert run.data.metrics.get("test_error") == record.metrics.get("test_error")
    assert run.data.metrics.get("outcome") == record.metrics.get("test_error")
    for probe in record.probes:
        if probe["kind"] == "per_layer":
            drawn = [
                (name, step, value) for (name, step), value in metrics(record).items() if name.startswith("layers/")
            ]
            for name in {name for name, *_ in drawn}:
                assert store.points(run, name) == [(step, value) for own, step, value in drawn if own == name]
            path = store.client.download_artifacts(run.info.run_id, "layers.csv")
            assert Path(path).read_text() == layer_table(record)
    path = store.client.download_artifacts(run.info.run_id, "trial.json")
    assert json.loads(Path(path).read_text()) == json.loads(json.dumps(record.to_json()))
    return run
