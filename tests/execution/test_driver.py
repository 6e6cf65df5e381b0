"""The driver: what it says before a run, what it writes beside the records, and what it brings up to date."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import operations
import pytest
from ledgers import KAIMING, make_record, make_spec
from operations import NoTracking, Told

from initbench.cli.command_line import main
from initbench.errors import DataError, LedgerError, SuiteError
from initbench.execution import preflight
from initbench.execution.driver import run_suite
from initbench.execution.in_process import run_in_process
from initbench.execution.preflight import check_data
from initbench.ledger import Ledger
from initbench.reporting.report import Written
from initbench.reporting.source import read_folder
from initbench.suite.load import load_suite
from initbench.tracking.experiment import read_experiment
from initbench.tracking.mlflow import MlflowTracker, connect, sync_folder
from initbench.tracking.uri import default_tracking_uri
from initbench.training import precision
from suites import plan_of

SUITE = """\
name: small
description: Does it run?
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming]
recipe: {epochs: 1, lr: 0.1}
probes: [parameter_norm]
"""
RULE = "rules: [{when: {architecture.depth: 2}, recipe: {lr: 0.05}}]\n"


def run(folder, text=SUITE, *, execute=run_in_process, assignments=()):
    """Run a suite in its folder; return the summary and what the user was told."""
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    suite, notes = load_suite(path, assignments), Told()
    summary = run_suite(suite, plan_of(suite), folder / "runs" / suite.name, execute, progress=notes)
    return summary, notes.notes


def records(folder):
    return {record.id: record for record in Ledger(folder / "runs" / "small").records()}


@pytest.mark.slow
def test_the_suite_lies_beside_its_trials_as_written_and_resolved(tmp_path):
    summary, _ = run(tmp_path, SUITE + "compare: [initializer, architecture.depth]\n", assignments=["recipe.epochs=2"])
    assert summary.folder == tmp_path / "runs" / "small"
    assert summary.statuses == {"finished": 2}
    text = (summary.folder / "suite.yaml").read_text(encoding="utf-8")
    assert text.startswith(SUITE)
    assert text.endswith("# run with --set recipe.epochs=2\n")
    resolved = json.loads((summary.folder / "resolved.json").read_text(encoding="utf-8"))
    assert (resolved["schema"], resolved["name"]) == (2, "small")
    assert resolved["defaults"] == {}  # it has no initializer that may take long
    compare = ("initializer", "architecture.depth")
    assert tuple(resolved["compare"]) == read_folder(summary.folder).compare == compare
    assert read_experiment("small", default_tracking_uri(summary.folder)).compare == compare


@pytest.mark.slow
def test_where_nothing_has_changed_mlflow_is_not_asked_for_every_trial(tmp_path, monkeypatch):
    asked = []
    log = MlflowTracker.log
    monkeypatch.setattr(MlflowTracker, "log", lambda self, *given: asked.append(given) or log(self, *given))
    run(tmp_path)
    assert len(asked) == 2
    asked.clear()
    summary, _ = run(tmp_path)
    assert (summary.ran, asked) == (0, [])
    # A run that somebody deletes is written again.
    client = connect(default_tracking_uri(summary.folder))
    [experiment] = [own for own in client.search_experiments() if own.name == "small"]
    trials = client.search_runs([experiment.experiment_id], "tags.`initbench.kind` = 'trial'")
    client.delete_run(trials[0].info.run_id)
    run(tmp_path)
    assert len(asked) == 2
    assert len(client.search_runs([experiment.experiment_id], "tags.`initbench.kind` = 'trial'")) == len(trials) == 2
    assert len(client.search_runs([experiment.experiment_id], "tags.`initbench.kind` = 'report'")) == 1


@pytest.mark.slow
def test_what_is_compared_can_change_without_a_trial_run_again(tmp_path):
    run(tmp_path)
    summary, _ = run(tmp_path, SUITE + "compare: [architecture.depth]\n")
    assert summary.ran == 0
    assert read_folder(summary.folder).compare == ("architecture.depth",)
    assert read_experiment("small", default_tracking_uri(summary.folder)).compare == ("architecture.depth",)


@pytest.mark.slow
def test_records_get_the_labels_of_the_suite_as_it_stands_now(tmp_path):
    """The learning rate of one trial is set by a rule, then by the recipe: the same trial with another label."""
    run(tmp_path, SUITE + RULE)
    before = records(tmp_path)
    assert sorted(record.spec["set_by_rules"] for record in before.values()) == [[], ["recipe.lr"]]
    summary, _ = run(tmp_path, SUITE.replace("lr: 0.1", "lr: [0.05, 0.1]"))
    after = records(tmp_path)
    assert summary.ran == 2
    for trial, record in before.items():
        assert after[trial].spec == record.spec | {"set_by_rules": []}
        labelled = after[trial].numbers() | {"spec": record.spec}
        assert labelled == record.numbers()
        assert after[trial].timing == record.timing
    whole = {
        record.id: record.spec for record in read_experiment("small", default_tracking_uri(summary.folder)).records
    }
    assert whole == {trial: record.spec for trial, record in after.items()}


@pytest.mark.slow
def test_a_run_of_measurements_alone_has_finished_records_without_an_outcome(tmp_path):
    summary, _ = run(tmp_path, assignments=["recipe.epochs=0"])
    assert summary.statuses == {"finished": 2}
    assert {record.metrics.get("test_error") for record in records(tmp_path).values()} == {None}
    assert summary.report.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("emulated", "bf16"), [(True, True), (True, False), (False, True)])
def test_bf16_on_a_processor_that_emulates_it_is_told_before_the_run(tmp_path, monkeypatch, emulated, bf16):
    monkeypatch.setattr(precision, "bf16_is_emulated", lambda _: emulated)

    def execute(_job, observer):
        observer.ready()

    text = SUITE.replace("lr: 0.1", "lr: 0.1, precision: bf16") if bf16 else SUITE
    monkeypatch.setattr(preflight, "check_data", lambda *_: [])
    monkeypatch.setattr("initbench.reporting.report.write_report", lambda folder: Written(folder, [], []))
    _, notes = run(tmp_path, text, execute=execute)
    assert any("bf16" in note for note in notes) == (emulated and bf16)


def test_data_that_cannot_be_had_are_told_at_their_place_in_the_file(tmp_path, monkeypatch):
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE.replace("dataset: {name: digits, train_size: 64}", "dataset:\n  - digits\n  - gaussian"))
    suite = load_suite(path)

    def load(name, *_, **__):
        if name == "gaussian":
            raise DataError("it is gone")
        return SimpleNamespace(facts={}, train=None)

    monkeypatch.setattr("initbench.data.load.load_dataset", load)
    with pytest.raises(SuiteError) as caught:
        check_data(suite, plan_of(suite).trials)
    assert (caught.value.key, caught.value.line, caught.value.problem) == ("dataset[1]", 5, "it is gone")


@pytest.fixture
def older(tmp_path):
    """A suite and its folder, with a record that another version wrote."""
    (tmp_path / "suite.yaml").write_text(SUITE)
    trials = tmp_path / "runs" / "small" / "trials"
    trials.mkdir(parents=True)
    (trials / "a.json").write_text('{"schema": 1, "id": "a"}')
    return tmp_path


@pytest.mark.parametrize("command", [["run", "suite.yaml"], ["plan", "suite.yaml"], ["report"], ["sync"]], ids=" ".join)
def test_a_ledger_of_another_schema_is_refused_in_one_line(older, monkeypatch, capsys, command):
    monkeypatch.chdir(older)
    monkeypatch.setattr(sys, "argv", ["initbench", *command])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    assert (stop.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert "schema 1" in err
    files = {str(path.relative_to(older)) for path in older.rglob("*") if path.is_file()}
    assert files - {"runs/small/.lock"} == {"suite.yaml", "runs/small/trials/a.json"}


def test_nothing_runs_on_a_ledger_of_another_schema(older):
    with pytest.raises(LedgerError):
        run(older, execute=lambda *_: pytest.fail("something ran"))
    with pytest.raises(LedgerError):
        sync_folder(older / "runs" / "small")
    assert not Path(older / "runs" / "small" / "mlflow.db").exists()


def test_trials_that_failed_run_after_those_that_have_not_run_yet(tmp_path, monkeypatch):
    operations.without_the_rest(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        operations.run(tmp_path, operations.executor(fails=(0,), stops_after=4))
    failed = {record.id for record in Ledger(tmp_path / "runs/small").records() if record.status == "failed"}
    ran = []
    operations.run(tmp_path, operations.executor(ran=ran))
    assert failed
    assert len(ran) > len(failed)
    assert set(ran[-len(failed) :]) == failed


def test_a_record_that_comes_from_elsewhere_during_a_run_is_passed_on_too(tmp_path, monkeypatch):
    """As from another machine, by a copy of its folder."""
    operations.without_the_rest(monkeypatch)
    passed_on, another = [], make_record(make_spec(KAIMING))

    class Keeps(NoTracking):
        def __init__(self, *_):
            super().__init__()
            self.put = lambda record, _: passed_on.append(record.id)

    def execute(job, observer):
        operations.executor()(job, observer)
        Ledger(tmp_path / "runs/small").write(another)

    monkeypatch.setattr("initbench.tracking.thread.TrackingThread", Keeps)
    summary, _ = operations.run(tmp_path, execute)
    assert summary.statuses == {"finished": 8}
    assert another.id in passed_on
