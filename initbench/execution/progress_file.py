"""What a driver leaves beside the ledger for `initbench status` and `initbench retry`.

That is ``plan.json``, what was asked for and what it comes to, and ``progress.json``, how far it is.

Both are for people and for these commands alone: nothing that a report says comes from them, and a run goes on where
they cannot be written.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from initbench.errors import InitbenchError
from initbench.execution.time_left import TimeLeft
from initbench.files import read_text
from initbench.suite.spec import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from initbench.ledger import Ledger, TrialRecord
    from initbench.suite.spec import TrialSpec

PLAN_FILE = "plan.json"
PROGRESS_FILE = "progress.json"
_SECONDS_BETWEEN_WRITES = 3.0


@dataclass(frozen=True)
class Asked:
    """What the command line asked for beside the suite file.

    Attributes:
        assignments: of ``--set``, in their order.
        seeds: of ``--seeds``.
        only: of ``--only``.
        plugins: the files of ``--plugin``; they are named here, and never imported because they are.
        smoke: ``--smoke``.
    """

    assignments: tuple[str, ...] = ()
    seeds: int | None = None
    only: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    smoke: bool = False


def write_plan(ledger: Ledger, asked: Asked, trials: Iterable[TrialSpec], awaited: int = 0) -> None:
    """Write what was asked for and which trials it comes to.

    Args:
        ledger: of the suite.
        asked: of the command line.
        trials: that are known.
        awaited: how many more follow, at most, from what searches find.

    Raises:
        InitbenchError: the folder cannot be written.
    """
    data = {"schema": SCHEMA, "asked": asdict(asked), "trials": [trial.id for trial in trials]}
    data |= {"awaited": awaited} if awaited else {}
    ledger.write_file(ledger.folder / PLAN_FILE, json.dumps(data, allow_nan=False))


@dataclass(frozen=True)
class StoredPlan:
    """What ``plan.json`` says.

    Attributes:
        asked: of the command line.
        trials: the ids of what was to run.
        awaited: how many more follow, at most, from what searches find.
    """

    asked: Asked
    trials: tuple[str, ...]
    awaited: int = 0


def read_plan(folder: Path) -> StoredPlan | None:
    """Return what a suite's folder says of its plan; None where it says nothing.

    Raises:
        InitbenchError: the file is there and damaged, or of another version.
    """
    path = folder / PLAN_FILE
    data = read_json(path)
    if data is None:
        return None
    asked, trials = data.get("asked"), data.get("trials")
    if not (isinstance(asked, dict) and _are_texts(trials) and asked.keys() == Asked.__dataclass_fields__.keys()):
        raise InitbenchError(f"{path}: does not say what was asked for; initbench run SUITE writes it anew")
    seeds, lists = asked["seeds"], [asked[name] for name in ("assignments", "only", "plugins")]
    if not all(map(_are_texts, lists)) or type(asked["smoke"]) is not bool or type(seeds) not in {int, type(None)}:
        raise InitbenchError(f"{path}: does not say what was asked for; initbench run SUITE writes it anew")
    assignments, only, plugins = map(tuple, lists)
    awaited = data.get("awaited", 0)
    if type(awaited) is not int or awaited < 0:
        raise InitbenchError(f"{path}: awaited is no number of trials; initbench run SUITE writes it anew")
    return StoredPlan(Asked(assignments, seeds, only, plugins, asked["smoke"]), tuple(data["trials"]), awaited)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the mapping in a file of this version's schema; None where there is no such file.

    Raises:
        InitbenchError: it cannot be read, is no such mapping, or another version wrote it.
    """
    try:
        data = json.loads(read_text(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InitbenchError(
            f"{path}: cannot be read ({getattr(error, 'strerror', None) or ' '.join(str(error).split())})"
        ) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise InitbenchError(f"{path}: is not of schema {SCHEMA}, which this version of initbench reads")
    return data


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


class ProgressFile:
    """Keeps ``progress.json`` up to date, by atomic rename and at most every few seconds.

    Args:
        ledger: its folder is where the file is.
        name: how a trial is called.
    """

    def __init__(self, ledger: Ledger, name: Callable[[TrialSpec], str]) -> None:
        self._ledger = ledger
        self._name = name
        self._begun = time.time()
        self._written = 0.0
        self._to_run = 0
        self._time_left = TimeLeft(())
        self._running: dict[str, dict[str, Any]] = {}
        self._ended: Counter[str] = Counter()

    def begin(self, missing: tuple[TrialSpec, ...]) -> None:
        """These trials run now, after those that ran before."""
        self._to_run += len(missing)
        self._time_left = TimeLeft(missing)
        self._write()

    def started(self, spec: TrialSpec) -> None:
        """A trial was given to a worker."""
        self._time_left.started(spec.id)
        self._running[spec.id] = {"id": spec.id, "name": self._name(spec), "since": time.time(), "fraction": 0.0}
        self._write_now_and_then()

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        """This fraction of a trial's training is done."""
        self._time_left.fractions[spec.id] = fraction
        if spec.id in self._running:
            self._running[spec.id]["fraction"] = fraction
        self._write_now_and_then()

    def finished(self, record: TrialRecord) -> None:
        """A trial has ended."""
        self._time_left.finished(record.id)
        self._running.pop(record.id, None)
        self._ended[record.status] += 1
        self._write_now_and_then()

    def end(self, ending: str) -> None:
        """The run is over: ``finished``, ``interrupted``, or what ended it in one line."""
        self._running.clear()
        self._write(ending)

    def _write_now_and_then(self) -> None:
        if time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self._write()

    def _write(self, ending: str | None = None) -> None:
        now = time.time()
        data = {
            "schema": SCHEMA,
            "started_at": self._begun,
            "updated_at": now,
            "ended_at": None if ending is None else now,
            "ending": ending,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "to_run": self._to_run,
            "ended": dict(self._ended),
            "running": list(self._running.values()),
            "seconds_left": None if ending is not None else self._time_left.seconds(),
        }
        with suppress(InitbenchError):  # a full disk: the ledger, which is written next, tells it
            self._ledger.write_file(self._ledger.folder / PROGRESS_FILE, json.dumps(data, allow_nan=False))
        self._written = time.monotonic()
