"""The command line, with trials that take no time: nothing is trained, drawn or written to MLflow.

After its first trial, a run imports the module that $INITBENCH_TEST_AFTER_FIRST names, calls its `work`, and waits for
an interruption.
"""

import importlib
import os
import runpy
import sys
import time
from pathlib import Path
from types import SimpleNamespace

AFTER_FIRST = "INITBENCH_TEST_AFTER_FIRST"
SUITE = """\
name: small
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, xavier]
recipe: {epochs: 1, lr: 0.1}
seeds: 2
"""
TRIALS = 8


def command(*arguments):
    """A run of `suite.yaml` in a process of its own."""
    return [sys.executable, __file__, "run", "suite.yaml", "--executor", "in-process", *arguments]


def environment(folder, **more):
    """The environment of that process, which finds modules in a folder, too."""
    path = [str(Path(__file__).parents[1]), str(folder), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), **more}


class NoTracking:
    def __init__(self, *_):
        self.put = self.put_suite = self.abandon = lambda *_: None
        self.close = self.close_by = lambda *_: []
        self.waiting = 0


def execute(job, observer):
    from ledgers import make_record

    observer.ready()
    for spec in job.trials:
        observer.started(spec)
        observer.finished(make_record(spec))
        if name := os.environ.pop(AFTER_FIRST, None):
            importlib.import_module(name).work()
            time.sleep(60)


if __name__ == "__main__":
    for name, contents in {
        "initbench.execution.in_process": {"run_in_process": execute},
        "initbench.execution.preflight": {"notes": lambda *_: ()},
        "initbench.reporting.report": {"write_report": lambda folder: SimpleNamespace(page=folder, sentences=())},
        "initbench.tracking.thread": {"TrackingThread": NoTracking},
    }.items():
        sys.modules[name] = SimpleNamespace(**contents)
    runpy.run_module("initbench", run_name="__main__", alter_sys=True)
