"""Folders of suites for the tests of what people do with them, without a trial that trains."""

from __future__ import annotations

from dataclasses import replace

from ledgers import make_record

from initbench.execution.driver import run_suite
from initbench.execution.progress_file import Asked
from initbench.execution.recorder import Progress
from initbench.reporting.report import Written
from initbench.suite.load import load_suite
from suites import plan_of

SUITE = """\
name: small
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 1, lr: 0.1}
probes: [parameter_norm]
seeds: 2
"""
LOST = {"type": "WorkerLost", "message": "the worker\nprocess died", "traceback": "line 1"}


class Told(Progress):
    """Keeps what the user is told."""

    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


class NoTracking:
    """In the place of the thread that writes to MLflow."""

    def __init__(self, *_):
        self.put = self.put_suite = self.abandon = lambda *_: None
        self.close = self.close_by = lambda *_: []
        self.waiting = 0


def without_the_rest(monkeypatch):
    """Leave MLflow, the report and the data out."""
    monkeypatch.setattr("initbench.tracking.thread.TrackingThread", NoTracking)
    monkeypatch.setattr("initbench.reporting.report.write_report", lambda folder: Written(folder, [], []))
    monkeypatch.setattr("initbench.execution.preflight.check_data", lambda *_: [])


def record_of(spec, *, fails=()):
    """What a trial comes to; those of these seeds fail, each on a host of its own."""
    if spec.seed in fails:
        failed = make_record(spec, status="failed", error=LOST)
        return replace(failed, environment=failed.environment | {"host": f"node{spec.seed}"})
    return make_record(spec)


def executor(*, fails=(), stops_after=None, ran=None):
    """An executor that makes records up, and may be interrupted after some."""

    def execute(job, observer):
        observer.ready()
        for number, spec in enumerate(job.trials):
            observer.started(spec)
            if number == stops_after:
                observer.progressed(spec, 0.25)
                raise KeyboardInterrupt
            if ran is not None:
                ran.append(spec.id)
            observer.finished(record_of(spec, fails=fails))

    return execute


def run(folder, execute, *, text=SUITE, assignments=(), tracking_uri=None):
    """Run the suite in a folder; return the summary and what the user was told."""
    path = folder / "suite.yaml"
    path.write_text(text)
    suite, told = load_suite(path, assignments), Told()
    asked = Asked(assignments=tuple(assignments))
    home = folder / "runs" / suite.name
    summary = run_suite(suite, plan_of(suite), home, execute, progress=told, asked=asked, tracking_uri=tracking_uri)
    return summary, told.notes
