"""Two versions of the library: each answers in a process of its own, with its own tree on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitwise.trees import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_STAND_INS = TESTS / "bitwise" / "stand_ins"
_OF_THE_SHELL = {"MLFLOW_TRACKING_URI", "INITBENCH_DATA"}  # these must make no difference


class VersionError(Exception):
    """A version that gives no answer, in one line."""


class Version:
    """A tree that holds the package ``initbench``.

    Args:
        tree: its folder.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    def ask(self, worker: str, request: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> list[Any]:
        """Return what a worker answers, a value for each line.

        Args:
            worker: the name of a module in this folder that calls `serve`.
            request: what is asked.
            environment: further variables.

        Raises:
            VersionError: the worker ended early; its last line says why.
        """
        path = os.pathsep.join(map(str, (_STAND_INS, TESTS, self.tree)))  # all before an installed initbench
        inherited = {name: value for name, value in os.environ.items() if name not in _OF_THE_SHELL}
        own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run(
            [sys.executable, "-P", "-m", f"bitwise.{worker}"],  # -P: the current folder may hold another initbench
            env=inherited | own | dict(environment or {}),
            input=json.dumps({"tree": str(self.tree), **request}),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise VersionError(f"{self.tree}: {worker} ended with status {done.returncode}: {last}")
        return [json.loads(line) for line in done.stdout.splitlines()]


def serve(answer: Callable[[dict[str, Any]], Iterable[Any]]) -> None:
    """Answer the request on standard input, a line for each value; this is all that a worker does.

    Args:
        answer: yields the values.
    """
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not stand between the lines
    request = json.load(sys.stdin)
    import initbench

    imported = Path(initbench.__file__).resolve().parents[1]
    if imported != Path(request["tree"]).resolve():
        sys.exit(f"initbench was imported from {imported}, not from {request['tree']}")
    for value in answer(request):
        print(json.dumps(value), file=lines, flush=True)
