"""What a sweep costs beside its trials.

First a sweep of 64 trials of about 10 s, two at a time: the wall time of the command `initbench run`, from the start of
its process to its end (imports, planning, Ray, MLflow, the report), against the time that the same trials take in two
plain processes, summed and divided by two, with all imports done before; one half of them before the sweep and one
after it, since a machine drifts within minutes. Then the seconds of the sweep beside its trials' own times within it,
most of which do not depend on how many trials there are. Last the time by which a sweep of trivial trials (a perceptron
of width 1) grows with each trial, less the trial's own: what one trial costs once the workers are warm.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean

import timing

WORKERS = 2
# Random data, so that no trial waits for a file: WRN-10-1 at the size of scikit-learn's digits.
SWEEP = """
name: sweep
dataset: {{name: gaussian, train_size: 1024, image_size: 8, channels: 1}}
architectures: [{{name: wrn, depth: 10, width: 1}}]
initializers: [kaiming, xavier, orthogonal, delta_orthogonal]
recipe: {{epochs: {epochs}, batch_size: 64, lr: 0.01, channels_last: true}}
seeds: {seeds}
"""
TRIVIAL = """
name: trivial
dataset: {{name: gaussian, train_size: 32, validation_size: 0, test_size: 1, image_size: 1, channels: 1}}
architectures: [{{name: mlp, depth: 2, width: 1}}]
initializers: [kaiming]
recipe: {{epochs: 1}}
probes: []
seeds: {seeds}
"""


def sweep(text: str) -> tuple[float, list[float]]:
    """Run a suite with the command line; return its wall time and the trials' own times, in seconds.

    Raises:
        RuntimeError: the command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder, "suite.yaml")
        suite.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "initbench", "run", suite.name, "--workers", str(WORKERS), "--json"]
        finished: list[subprocess.CompletedProcess[str]] = []
        wall = timing.seconds(
            lambda: finished.append(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False))
        )
        if finished[0].returncode:
            raise RuntimeError(f"initbench run failed: {finished[0].stderr}")
        records = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("runs/*/trials/*.json")]
        return wall, [record["timing"]["total_seconds"] for record in records]


def bare(text: str) -> list[float]:
    """Run the same trials in as many plain processes at a time; return the seconds that each took."""
    from initbench.suite.document import parse
    from initbench.suite.load import describe_datasets, suite_of
    from initbench.suite.plan import plan

    suite = suite_of(parse(text, "suite.yaml"))
    specs = [trial.model_dump_json() for trial in plan(suite, descriptions=describe_datasets(suite)).trials]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context, initializer=run, initargs=(specs[0], 1)) as pool:
        return list(pool.map(run, specs))


def run(spec: str, epochs: int | None = None) -> float:
    """Run one trial in this process and return its seconds.

    Args:
        spec: the trial as JSON.
        epochs: in place of the recipe's: a short trial loads what the first one in a process loads.
    """
    from initbench.execution.trial import run_trial
    from initbench.suite.spec import TrialSpec

    trial = TrialSpec.model_validate_json(spec)
    if epochs is not None:
        trial = trial.model_copy(update={"recipe": trial.recipe.model_copy(update={"epochs": epochs})})
    return timing.seconds(lambda: run_trial(trial))


def epochs_of(seconds: float) -> int:
    """Return for how many epochs a trial of the sweep has to train to take about this long here, two at a time."""
    tried = 20
    return max(1, round(tried * seconds / mean(bare(SWEEP.format(epochs=tried, seeds=1)))))


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return the rows of the sweep and of the trivial trials."""
    seconds, seeds, few, many = (0.1, 2, 2, 4) if quick else (10, 16, 30, 130)
    epochs = epochs_of(seconds)
    against_bare, beside, overheads = [], [], []
    for _ in range(runs):
        trials = bare(SWEEP.format(epochs=epochs, seeds=seeds // 2))
        wall, own = sweep(SWEEP.format(epochs=epochs, seeds=seeds))
        trials += bare(SWEEP.format(epochs=epochs, seeds=seeds // 2))
        against_bare.append((wall, sum(trials) / WORKERS))
        beside.append(wall - sum(own) / WORKERS)
        (short, _), (long, _) = sweep(TRIVIAL.format(seeds=few)), sweep(TRIVIAL.format(seeds=many))
        alone = mean(bare(TRIVIAL.format(seeds=few))) / WORKERS
        overheads.append((long - short) / (many - few) - alone)
    case = f"sweep of {len(own)} trials of {mean(own):.1f} s"
    return [
        timing.Row.of_pairs(f"{case}, against bare trials", against_bare, 1.10),
        timing.Row("the same sweep, seconds beside its trials", tuple(beside), "s", None),
        timing.Row("overhead of a trivial trial, warm workers", tuple(overheads), "s", 0.15),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=1, threads=1)
