"""A task, a dataset, a network, a method and a probe from one plug-in file: nothing in the core knows them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from initbench import load_results
from initbench.ledger import Ledger
from initbench.metric import Metric

PLUGIN = Path(__file__).with_name("sines.py")
SUITE = """
name: sines-and-digits
dataset: [sines, {name: digits, train_size: 128}]
architectures: [{name: tiny_mlp, width: 8}, {name: mlp, depth: 2, width: 8}]
initializers: [kaiming, {name: warm, base: [kaiming, {name: xavier, gain: 0.5}]}]
recipe: {epochs: 3, batch_size: 16, lr: 0.05}
rules: [{when: {dataset: sines}, recipe: {lr: 0.02}}]
probes: [gradient_quotient, output_by_depth]
exclude: [{architecture: mlp, initializer: warm}]
seeds: 3
"""
pytestmark = pytest.mark.slow
WITHOUT_THE_PLUGIN = """
import sys, initbench
from initbench.reporting.report import write_report
write_report(sys.argv[1])
assert "torch" not in sys.modules, "a report needs no torch"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The suite's folder after a run through Ray, reported again by a process that knows nothing of the plug-in."""
    home = tmp_path_factory.mktemp("sines")
    (home / "suite.yaml").write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-m", "initbench", "run", "suite.yaml", "--plugin", str(PLUGIN), "--json"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = home / "runs" / "sines-and-digits"
    for file in (folder / "report").glob("*.*"):
        file.unlink()
    again = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_PLUGIN, str(folder)], capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    return folder


def test_every_pair_that_fits_has_run(folder):
    records = list(Ledger(folder).records())
    pairs = {(r.spec["dataset"]["name"], r.spec["architecture"]["name"]) for r in records}
    # mlp serves classification alone: on sines it is an incompatible pair.
    assert pairs == {("sines", "tiny_mlp"), ("digits", "tiny_mlp"), ("digits", "mlp")}
    assert {r.status for r in records} == {"finished"}
    assert len(records) == (3 + 3 + 1) * 3


def test_a_record_explains_its_metrics(folder):
    record = next(r for r in Ledger(folder).records() if r.spec["dataset"]["name"] == "sines")
    assert record.task["name"] == "regression"
    assert record.task["primary"] == "test_r_squared"
    metric = Metric.from_json(record.task["metrics"]["test_r_squared"])
    assert (metric.better, metric.best, metric.primary) == ("higher", 1.0, True)
    assert metric.text(0.5) == "0.500"
    # The mean of the training split explains nothing of the test split: R² is at most 0, and near it.
    assert -0.2 < metric.chance <= 0
    assert metric.chance_standard_error > 0
    assert record.metrics["first_epoch_r_squared"] == record.history[0]["test_r_squared"]
    assert record.spec["recipe"]["lr"] == 0.02  # the rule reached it by its dataset


def test_the_frame_has_one_outcome_and_each_metric(folder):
    frame = load_results(folder)
    by_dataset = frame.groupby("dataset")
    assert set(by_dataset.get_group("sines")["metric"]) == {"test_r_squared"}
    assert set(by_dataset.get_group("digits")["metric"]) == {"test_error"}
    assert (frame["outcome"] == frame["test_r_squared"].fillna(frame["test_error"])).all()
    assert set(frame["treatment"]) == {"kaiming", "warm(kaiming)", "warm(xavier)"}


def test_a_curve_is_kept_and_reaches_the_report(folder):
    record = next(iter(Ledger(folder).records()))
    [curve] = [probe for probe in record.probes if probe["kind"] == "curve"]
    assert (curve["name"], curve["over"], curve["unit"]) == ("output_by_depth", "depth", "mean square")
    assert len(curve["x"]) == len(curve["y"]) > 3
    assert "output_by_depth" in (folder / "report" / "probe_curves.csv").read_text(encoding="utf-8")
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "R²" in page
    assert "tiny_mlp" in page


def test_mlflow_has_all_of_it(folder):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("sines-and-digits")
    runs = client.search_runs([experiment.experiment_id], "tags.dataset = 'sines' and tags.`initbench.kind` = 'trial'")
    assert len(runs) == 9
    data = runs[0].data
    assert "test_r_squared" in data.metrics
    assert "probe/output_by_depth" in data.metrics
    history = client.get_metric_history(runs[0].info.run_id, "probe/output_by_depth")
    assert len(history) == 4  # flatten, linear, ReLU, linear
    assert data.tags["task"] == "regression"


def test_the_plan_says_why_a_pair_cannot_run(folder):
    command = [sys.executable, "-m", "initbench", "plan", "suite.yaml", "--plugin", str(PLUGIN), "--json"]
    done = subprocess.run(command, cwd=folder.parents[1], capture_output=True, text=True, check=True)
    [pair] = json.loads(done.stdout)["incompatible"]
    assert "classification" in pair["reason"]
    assert "regression" in pair["reason"]
