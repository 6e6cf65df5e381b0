"""The files beside the ledger for `initbench status` and `initbench retry`: ``plan.json`` and ``progress.json``.

They hold the request with its plan, and the progress. Only these commands use them: reports do not read them, and a run
continues if they cannot be written.
"""

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from initbench.errors import InitbenchError
from initbench.execution.time_left import TimeLeft
from initbench.files import read_text
from initbench.ledger import Ledger, TrialRecord
from initbench.suite.spec import SCHEMA, TrialSpec

PLAN_FILE = "plan.json"
PROGRESS_FILE = "progress.json"
_SECONDS_BETWEEN_WRITES = 3.0
_Count = Annotated[int, Field(ge=0)]
_Stored = TypeVar("_Stored", bound="_File")


@dataclass(frozen=True)
class Asked:
    """The options of the command line beside the suite file; `assignments` are the ``--set`` options.

    The files of `plugins` are only named here and never imported from here.
    """

    assignments: tuple[str, ...] = ()
    seeds: int | None = None
    only: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    smoke: bool = False


class _File(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, validate_by_name=True)

    format: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)] = SCHEMA

    def write(self, ledger: Ledger, name: str, without: set[str] | None = None) -> None:
        data = self.model_dump(mode="json", by_alias=True, exclude=without)
        ledger.write_file(ledger.folder / name, json.dumps(data, allow_nan=False))


class StoredPlan(_File):
    """The request, the ids of its trials, and the largest number of trials that follow from searches."""

    asked: Asked
    trials: tuple[str, ...]
    awaited: _Count = 0


class RunningTrial(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    id: str
    name: str
    since: float
    fraction: float


class StoredProgress(_File):
    """The progress of a run; `ending` is ``finished``, ``interrupted``, or the error in one line."""

    started_at: float
    updated_at: float
    ended_at: float | None
    ending: str | None
    host: str
    pid: int
    to_run: int
    ended: dict[str, int]
    running: tuple[RunningTrial, ...]
    seconds_left: float | None


def write_plan(ledger: Ledger, asked: Asked, trials: Iterable[TrialSpec], awaited: int = 0) -> None:
    plan = StoredPlan(asked=asked, trials=tuple(trial.id for trial in trials), awaited=awaited)
    plan.write(ledger, PLAN_FILE, without=None if awaited else {"awaited"})


def read_plan(folder: Path) -> StoredPlan | None:
    return _read(folder / PLAN_FILE, StoredPlan, "does not contain a request; initbench run SUITE writes it again")


def read_progress(folder: Path) -> StoredProgress | None:
    return _read(folder / PROGRESS_FILE, StoredProgress, "does not contain progress; the next run writes it again")


def _read(path: Path, kind: type[_Stored], problem: str) -> _Stored | None:
    try:
        return kind.model_validate_json(read_text(path), by_name=False)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        if details["type"] == "json_invalid":
            problem = f"cannot be read ({details['msg']})"
        elif details["loc"] in {(), ("schema",)}:
            problem = f"does not have schema {SCHEMA}, which this version of initbench reads"
        raise InitbenchError(f"{path}: {problem}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InitbenchError(f"{path}: cannot be read ({reason})") from error


class ProgressFile:
    """Keeps ``progress.json`` up to date, by atomic rename, at most every few seconds."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._begun = time.time()
        self._written = 0.0
        self._to_run = 0
        self._time_left = TimeLeft(())
        self._running: dict[str, RunningTrial] = {}
        self._ended: Counter[str] = Counter()

    def begin(self, missing: tuple[TrialSpec, ...]) -> None:
        self._to_run += len(missing)
        self._time_left = TimeLeft(missing)
        self._write()

    def started(self, spec: TrialSpec, name: str) -> None:
        self._time_left.started(spec.id)
        self._running[spec.id] = RunningTrial(id=spec.id, name=name, since=time.time(), fraction=0.0)
        self._write_now_and_then()

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        self._time_left.fractions[spec.id] = fraction
        if spec.id in self._running:
            self._running[spec.id].fraction = fraction
        self._write_now_and_then()

    def finished(self, record: TrialRecord) -> None:
        self._time_left.finished(record.id)
        self._running.pop(record.id, None)
        self._ended[record.status] += 1
        self._write_now_and_then()

    def end(self, ending: str) -> None:
        self._running.clear()
        self._write(ending)

    def _write_now_and_then(self) -> None:
        if time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self._write()

    def _write(self, ending: str | None = None) -> None:
        now = time.time()
        progress = StoredProgress(
            started_at=self._begun,
            updated_at=now,
            ended_at=None if ending is None else now,
            ending=ending,
            host=socket.gethostname(),
            pid=os.getpid(),
            to_run=self._to_run,
            ended=dict(self._ended),
            running=tuple(self._running.values()),
            seconds_left=None if ending is not None else self._time_left.seconds(),
        )
        with suppress(InitbenchError):  # a full disk: the ledger, which is written next, reports it
            progress.write(self._ledger, PROGRESS_FILE)
        self._written = time.monotonic()
