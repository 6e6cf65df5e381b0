"""How long `initbench --help` and `initbench list` take against `python -c pass`.

Each is a process of its own, started in turn with the bare interpreter, compiled files written before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import timing


def run(*command: str) -> None:
    """Run a command, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return a row for each command."""
    initbench = str(Path(sys.executable).with_name("initbench"))
    rows = []
    for argument in ("--help", "list"):
        pairs = timing.paired(
            partial(run, initbench, argument),
            partial(run, sys.executable, "-c", "pass"),
            runs,
            warm_up=1 if quick else 2,
        )
        rows.append(timing.Row.of_pairs(f"`initbench {argument}`", pairs, None))
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=10, threads=1)
