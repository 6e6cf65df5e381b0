"""The ledger: a folder of finished trial records, the source of truth.

One JSON file per trial, ``<suite folder>/trials/<id>.json``, put in place by an atomic rename: a file is whole
or absent, whatever kills the driver. Resuming is running again what has no finished record.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from filelock import FileLock, Timeout

from initbench.errors import InitbenchError, LedgerError
from initbench.suite.spec import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from initbench.suite.spec import TrialSpec

SUITE_FILE = "suite.yaml"
RESOLVED_FILE = "resolved.json"
Status = Literal["finished", "diverged", "failed"]
_LABELS = ("suite", "set_by_rules", "scheme_named_by")  # what of a spec is not part of the identity


@dataclass(frozen=True)
class TrialRecord:
    """What came of one trial.

    Errors and accuracies are fractions, durations seconds. A non-finite number is None, with ``<key>_reason`` beside.

    Attributes:
        id: the trial's identity, `TrialSpec.id`.
        spec: the `TrialSpec` as plain data, with its labels.
        identity: the part of it that was hashed, `TrialSpec.identity`.
        task: what the metrics are: the task's ``name``, the ``primary`` metric, and ``metrics``: name → `Metric` as
            plain data, with the chance level. Empty in the record of a trial that failed before it was known.
        status: ``diverged`` (a non-finite loss) is a result; ``failed`` (an exception or a lost worker) is tried again.
        metrics: final numbers by name.
        history: one entry per epoch, and per ``history_every`` steps.
        initialization: what the initializer did (`InitializationRecord.to_json`).
        probes: for each measurement its ``name``, with arguments that differ from the defaults, its ``kind`` and the
            values (see `initbench.probes.measurement`), and its ``conditions``.
        environment: versions, processor, device. Not covered by "bitwise".
        timing: seconds by stage and of each probe (``<name>_probe_seconds``), and ``ended_at`` in seconds since the
            epoch. Not covered by "bitwise".
        error: of a failed trial: ``{type, message, traceback}``.
        schema: the format's version.
    """

    id: str
    spec: dict[str, Any]
    status: Status
    identity: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    initialization: dict[str, Any] = field(default_factory=dict)
    probes: list[dict[str, Any]] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    timing: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data, which it shares: what is in it is not to be changed."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the record from plain data.

        Raises:
            LedgerError: they were written in another format.
            ValueError: they are no record.
        """
        schema = data.get("schema") if isinstance(data, dict) else None
        if schema is None:
            raise ValueError("it says no schema")
        if schema != SCHEMA:
            raise LedgerError(f"has records of schema {schema}, and this version of initbench reads schema {SCHEMA}")
        try:
            return cls(**data)
        except TypeError as error:
            raise ValueError(str(error)) from error

    def numbers(self) -> dict[str, Any]:
        """Return the part that is bitwise reproducible: all but environment and timing."""
        data = self.to_json()
        del data["environment"], data["timing"]
        return data

    def labelled_as(self, spec: TrialSpec) -> Self:
        """Return the record with the labels of a spec of the same trial; what was run and measured stays."""
        plain = spec.model_dump(mode="json")
        return replace(self, spec=self.spec | {label: plain[label] for label in _LABELS})


class Ledger:
    """The records of one suite.

    Args:
        folder: the suite's folder, ``runs/<suite name>``; made when the first record is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.trials = self.folder / "trials"

    def path(self, trial_id: str) -> Path:
        """Return where a trial's record is or would be."""
        return self.trials / f"{trial_id}.json"

    def read(self, trial_id: str) -> TrialRecord:
        """Return one record.

        Raises:
            LedgerError: it was written in another format.
            InitbenchError: there is none.
        """
        try:
            return _read(self.path(trial_id))
        except _NotARecordError as error:
            raise InitbenchError(f"{self.path(trial_id)}: {error}") from error

    def write(self, record: TrialRecord) -> None:
        """Write a record by atomic rename; one that was there (of a failed attempt) is replaced."""
        self.trials.mkdir(parents=True, exist_ok=True)
        _put(self.path(record.id), json.dumps(record.to_json(), allow_nan=False))

    def write_suite(self, text: str, resolved: Mapping[str, Any]) -> None:
        """Write the suite beside its trials, each file by atomic rename.

        Args:
            text: the suite file's, for ``suite.yaml``.
            resolved: what reports need of it, for ``resolved.json``.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        _put(self.folder / SUITE_FILE, text)
        _put(self.folder / RESOLVED_FILE, json.dumps(resolved, indent=1, allow_nan=False) + "\n")

    def records(self, skipped: list[str] | None = None) -> Iterator[TrialRecord]:
        """Yield every record, in the order of the ids.

        Args:
            skipped: where given, a file that is not a record is passed over, and a line that names it is added here.

        Raises:
            LedgerError: a record was written in another format.
            InitbenchError: a file is not a record, and `skipped` is not given.
        """
        for path in sorted(self.trials.glob("*.json")):
            try:
                yield _read(path)
            except LedgerError as error:
                raise LedgerError(f"{self.folder}: {error}; move it away, or give another folder") from None
            except _NotARecordError as error:
                if skipped is None:
                    raise InitbenchError(f"{path}: {error}; delete it and run the suite again") from error
                # The folder by its name alone: a report says the same wherever the ledger lies.
                skipped.append(f"{self.folder.resolve().name}/{self.trials.name}/{path.name}: {error}")

    def statuses(self) -> dict[str, Status]:
        """Return the status of every trial that has a record."""
        return {record.id: record.status for record in self.records()}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that admits one driver per ledger; where nothing was written meanwhile, leave no folder.

        Raises:
            InitbenchError: another driver holds it, or the folder cannot be written.
        """
        made = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        file = self.folder / ".lock"
        lock = FileLock(file, timeout=0)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise InitbenchError(
                f"{self.folder}: another initbench run is writing here; wait for it or stop it"
            ) from None
        except OSError as error:
            raise InitbenchError(f"{self.folder}: cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            if made and set(self.folder.iterdir()) <= {file}:
                file.unlink(missing_ok=True)
                with suppress(OSError):  # another suite may have come into a folder meanwhile
                    for folder in made:
                        folder.rmdir()
            lock.release()


def _put(path: Path, text: str) -> None:
    """Write a file by atomic rename: it is whole or as it was before."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        os.replace(name, path)  # noqa: PTH105  # named as the system call that is atomic
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class _NotARecordError(Exception):
    """Says in a few words why a file is no record."""


def _read(path: Path) -> TrialRecord:
    try:
        return TrialRecord.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise _NotARecordError(f"not a trial record ({error})") from error
