"""The report over 10,000 trials: its time against just loading the records' JSON, its memory, the size of its page.

The records are those of two real trials, of a distribution and of MetaInit, given the specifications of a suite of
20 architectures, 10 initializers and 50 seeds, and outcomes of their own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import timing

from initbench.execution.trial import run_trial
from initbench.ledger import Ledger, TrialRecord
from initbench.reporting.report import write_report
from initbench.suite.document import parse
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.plan import plan
from initbench.suite.spec import TrialSpec

SUITE = """
name: large
dataset: {{name: gaussian, train_size: 256, image_size: 8, channels: 1}}
architectures:
  - {{name: plain, depth: {depths}, width: 1, norm: none}}
  - {{name: wrn, depth: {depths}, width: 1, norm: none}}
initializers:
  - {{name: metainit, steps: 100}}
  - {{name: kaiming, mode: [fan_in, fan_out]}}
  - {{name: xavier, gain: [1, 2]}}
  - {{name: orthogonal, gain: [1, 2]}}
  - {{name: delta_orthogonal, gain: [1, 1.5, 2]}}
recipe: {{epochs: 8, batch_size: 64}}
seeds: {seeds}
"""


ONE_REPORT = "import sys; from initbench.reporting.report import write_report; write_report(sys.argv[1])"


def varied(record: TrialRecord, spec: TrialSpec, generator: random.Random) -> TrialRecord:
    """Return a record with another trial's specification and made-up outcomes that depend on it."""
    depth, initializer = spec.architecture.arguments["depth"], json.dumps(spec.initializer.model_dump(mode="json"))
    quotient = random.Random(f"{depth} {initializer}").uniform(0.1, 2)
    error = min(0.9, max(0.01, 0.3 * quotient + generator.gauss(0, 0.05)))
    probes = [probe | {"value": quotient * generator.uniform(0.9, 1.1)} for probe in record.probes]
    metrics = record.metrics | {"test_error": error, "first_epoch_accuracy": 1 - min(0.9, error + 0.2)}
    own = {"id": spec.id, "spec": spec.model_dump(mode="json"), "identity": dict(spec.identity)}
    return replace(record, **own, status="finished", probes=probes, metrics=metrics)


def write_records(folder: Path, depths: list[int], seeds: int) -> int:
    """Fill a suite's folder and return the number of records."""
    suite = suite_of(parse(SUITE.format(depths=depths, seeds=seeds), "suite.yaml"))
    trials = plan(suite, descriptions=describe_datasets(suite)).trials
    shallow = [spec for spec in trials if spec.architecture.arguments["depth"] == min(depths)]
    real = {
        tuned: run_trial(next(spec for spec in shallow if (spec.initializer.name == "metainit") == tuned))
        for tuned in (True, False)
    }
    ledger, generator = Ledger(folder), random.Random(0)
    ledger.trials.mkdir(parents=True)
    for spec in trials:
        record = varied(real[spec.initializer.name == "metainit"], spec, generator)
        # Not by `Ledger.write`, which waits for the disk each time.
        ledger.path(spec.id).write_text(json.dumps(record.to_json(), allow_nan=False), encoding="utf-8")
    return len(trials)


def load(folder: Path) -> None:
    """Load every record's JSON and do nothing with it."""
    for path in sorted(Ledger(folder).trials.glob("*.json")):
        json.loads(path.read_text(encoding="utf-8"))


def peak_memory(folder: Path) -> float:
    """Return the largest memory, in MB, of the processes that make the report and do nothing else, seen every 50 ms.

    Pages that several processes share are counted once (proportional set size).
    """
    largest = 0
    with subprocess.Popen([sys.executable, "-c", ONE_REPORT, str(folder)]) as process:
        while process.poll() is None:
            try:
                of = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
                memory = sum(map(_proportional_set_size, [str(process.pid), *of]))
            except (FileNotFoundError, ProcessLookupError):
                continue  # one has just ended
            largest = max(largest, memory)
            time.sleep(0.05)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, ONE_REPORT)
    return largest / 1e6


def _proportional_set_size(process: str) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("Pss:")]
    return int(size) * 1024


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return rows for the time, the memory and the size of the report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = write_records(folder, [10, 16] if quick else list(range(10, 70, 6)), 2 if quick else 50)
        pairs = timing.paired(lambda: write_report(folder), lambda: load(folder), runs)
        memory = peak_memory(folder)
        megabytes = (folder / "report" / "index.html").stat().st_size / 1e6
    case = f"report over {count:,} records"
    return [
        timing.Row.of_pairs(f"{case}, against loading them", pairs, None),
        timing.Row(f"{case}, time", tuple(ours for ours, _ in pairs), "s", 10),
        timing.Row(f"{case}, peak memory", (memory,), "MB", 500),
        timing.Row(f"{case}, page", (megabytes,), "MB", 8),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=2, threads=1)
