"""What a sweep of 5,000 trivial trials does to the driver: its memory, the time of each trial, the report, a resume.

The trials are perceptrons of width 1 that are measured and not trained, run two at a time by the command
`initbench run`. The driver's memory is that of its process alone (resident set), read each time 25 trials more have
ended; it is to be flat from the 1,000th trial on, when everything that is loaded once has been loaded. The overhead of
a trial is the time from the 1,000th record to the last one, for each trial, less half of a trial's own seconds, since
two run at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

import timing

WORKERS = 2
SUITE = """
name: soak
dataset: {{name: gaussian, train_size: 32, validation_size: 0, test_size: 1, image_size: 1, channels: 1}}
architectures: [{{name: mlp, depth: 2, width: 1}}]
initializers: [kaiming, xavier]
recipe: {{epochs: 0}}
probes: []
seeds: {seeds}
"""
REPORT = [sys.executable, "-m", "initbench", "report"]


def run(folder: Path) -> subprocess.Popen[bytes]:
    """Start the sweep, or resume it."""
    command = [sys.executable, "-m", "initbench", "run", "suite.yaml", "--workers", str(WORKERS)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)


def megabytes(process: int) -> float:
    """Return the resident set of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def sweep(folder: Path, count: int) -> tuple[list[float], float]:
    """Run the sweep; return the driver's memory in MB each time 25 trials more had ended, and the wall time of it all.

    Raises:
        RuntimeError: it failed.
    """
    trials, memory = folder / "runs" / "soak" / "trials", list[float]()
    begun = time.perf_counter()
    driver = run(folder)
    while driver.poll() is None:
        time.sleep(0.2)
        ended = sum(1 for _ in trials.iterdir()) if trials.is_dir() else 0
        if 25 * len(memory) < ended < count:
            memory += [megabytes(driver.pid)] * (ended // 25 - len(memory) + 1)
    if driver.returncode:
        raise RuntimeError(f"initbench run ended with exit code {driver.returncode}")
    return memory, time.perf_counter() - begun


def seconds_of(command: list[str], folder: Path) -> float:
    """Return the wall time of a command.

    Raises:
        CalledProcessError: it failed.
    """
    return timing.seconds(lambda: subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True))


def measure(runs: int, quick: bool) -> list[timing.Row]:  # one run has thousands of trials
    """Return the rows for memory, overhead, report and resume."""
    count, first = (50, 25) if quick else (5_000, 1_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "suite.yaml").write_text(SUITE.format(seeds=count // 2), encoding="utf-8")
        memory, wall = sweep(folder, count)
        paths = list((folder / "runs" / "soak" / "trials").glob("*.json"))
        ended = sorted(path.stat().st_mtime for path in paths)
        own = mean(json.loads(path.read_text(encoding="utf-8"))["timing"]["total_seconds"] for path in paths)
        each = (ended[-1] - ended[first - 1]) / (count - first)
        report = seconds_of([*REPORT, str(folder / "runs" / "soak")], folder)
        resume = timing.seconds(lambda: run(folder).wait())
    settled = memory[first // 25 :]
    case = f"{count:,} trivial trials"
    return [
        timing.Row(
            f"{case}: driver's memory at the end against that at trial {first:,}",
            (median(settled[-10:]) / median(settled[:10]),),
            "×",
            1.10,
        ),
        timing.Row(f"{case}: driver's memory at the end", (settled[-1],), "MB", None),
        timing.Row(f"{case}: overhead of each", (each - own / WORKERS,), "s", 0.08),
        timing.Row(
            f"{case}: wall time of the command for each, MLflow and the report in it", (wall / count,), "s", None
        ),
        timing.Row(f"{case}: the report", (report,), "s", 10),
        timing.Row(f"{case}: the same command again, with nothing to run", (resume,), "s", 15),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=1, threads=1)
