"""The ledger: a folder of finished trial records, the source of truth.

One JSON file per trial, ``<suite folder>/trials/<id>.json``, put in place by an atomic rename: a file is whole
or absent, whatever kills the driver. Resuming is running again what has no finished record. A file that something
else has damaged is named and never loses the others; the run that tries its trial again keeps it aside. A folder that
is moved, emptied or removed while a run writes to it ends the run.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from initbench.arguments import show
from initbench.errors import InitbenchError, LedgerError
from initbench.files import check_within, read_text, write_text
from initbench.folder_lock import HeldLock, is_locked, lock
from initbench.json_values import with_visible_text
from initbench.record_schema import check_record
from initbench.suite.spec import SCHEMA, TUNING_LABELS
from initbench.visible_text import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from initbench.suite.spec import TrialSpec

SUITE_FILE = "suite.yaml"
RESOLVED_FILE = "resolved.json"
DAMAGED = ".damaged"
"""Behind the name of a file that was no record, once its trial runs again."""
Status = Literal["finished", "diverged", "failed"]
_LABELS = ("suite", "set_by_rules", "scheme_named_by", *TUNING_LABELS)  # what of a spec is not part of the identity


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
            epoch; of a trial that went on from a checkpoint those of all attempts, less what was lost, and
            ``resumed_at_step``. Not covered by "bitwise".
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
            raise LedgerError(f"a record is of schema {show(schema)}; this version of initbench reads schema {SCHEMA}")
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
        labelled = self.spec | {label: plain[label] for label in _LABELS if label in plain}
        return replace(self, spec={key: value for key, value in labelled.items() if key in plain or key not in _LABELS})

    def without_labels_of_tuning(self) -> Self:
        """Return the record of a trial that a suite searched, or chose, and does no more."""
        return replace(self, spec={key: value for key, value in self.spec.items() if key not in TUNING_LABELS})


class Ledger:
    """The records of one suite.

    Args:
        folder: the suite's folder, ``runs/<suite name>``; made when the first record is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.trials = self.folder / "trials"
        self._lock: HeldLock | None = None
        self._last: Path | None = None  # the record that was written last

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
        """Write a record by atomic rename; one that was there (of a failed attempt) is replaced.

        Raises:
            InitbenchError: see `write_file`.
        """
        if self._lock is not None and self._last is not None and not self._last.exists():
            raise InitbenchError(
                f"{self.trials}: was emptied or removed while this run was writing to it, so the run stops; the same "
                "command runs again what is missing"
            )
        self.write_file(self.path(record.id), json.dumps(record.to_json(), allow_nan=False))
        self._last = self.path(record.id)

    def write_suite(self, text: str, resolved: Mapping[str, Any]) -> None:
        """Write the suite beside its trials, each file by atomic rename.

        Args:
            text: the suite file's, for ``suite.yaml``.
            resolved: what reports need of it, for ``resolved.json``.

        Raises:
            InitbenchError: as for `write`.
        """
        self.write_file(self.folder / SUITE_FILE, text)
        self.write_file(self.folder / RESOLVED_FILE, json.dumps(resolved, indent=1, allow_nan=False) + "\n")

    def write_file(self, path: Path, text: str) -> None:
        """Write a file of the suite's folder by atomic rename: it is whole or as it was before.

        Raises:
            InitbenchError: the disk is full, the folder cannot be written, a link leads out of it, or it is not the one
                any more that was locked; one line says which.
        """
        if self._lock is not None:
            self._lock.check()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text, self.folder, durable=True)
        except OSError as error:
            raise InitbenchError(f"{path}: cannot be written: {error.strerror or error}") from error

    def check_complete(self, trials: Collection[str]) -> None:
        """Check that the records of trials are on the disk.

        Args:
            trials: the ids of those whose records were read or written.

        Raises:
            InitbenchError: records are gone, or the folder is not the one any more that was locked.
        """
        if self._lock is not None:
            self._lock.check()
        gone = len(set(trials) - {path.stem for path in self.files()})
        if gone:
            raise InitbenchError(
                f"{self.trials}: {gone} of {len(trials)} records were removed while this run was at work; the same "
                "command runs these trials again"
            )

    def set_aside(self, trial_id: str) -> Path | None:
        """Give the file of a trial that is no record another name, under which nobody reads it; return that name.

        Returns:
            None if there is no such file.

        Raises:
            InitbenchError: it cannot be renamed.
        """
        path = self.path(trial_id)
        if not path.exists():
            return None
        names = (path.with_name(f"{path.name}{DAMAGED}{number or ''}") for number in count())
        aside = next(name for name in names if not name.exists())
        try:
            check_within(path, self.folder)
            return path.rename(aside)
        except OSError as error:
            raise InitbenchError(f"{path}: cannot be renamed: {error.strerror}") from error

    def records(self, skipped: list[str] | None = None) -> Iterator[TrialRecord]:
        """Yield every record, in the order of the ids.

        Args:
            skipped: where given, a file that is not a record of this version is passed over, and a line that names it
                is added here.

        Raises:
            LedgerError: the records were written in another format, all of them.
            InitbenchError: a file is not a record, and `skipped` is not given.
        """
        read, other_formats = 0, None
        for path in self.files():
            try:
                record = _read(path)
            except (LedgerError, _NotARecordError) as error:
                if isinstance(error, LedgerError):
                    other_formats = other_formats or error
                if skipped is not None:
                    skipped.append(self._skipped(path, error))
                elif not isinstance(error, LedgerError):
                    raise InitbenchError(f"{path}: {error}; delete it and run the suite again") from error
            else:
                read += 1
                yield record
        if other_formats is not None and (skipped is None or not read):
            raise LedgerError(f"{self.folder}: {other_formats}; move it away, or give another folder") from None

    def files(self) -> list[Path]:
        """Return every file that is, or should be, a record, in the order of the ids."""
        return sorted(self.trials.glob("*.json"))

    def read_file(self, path: Path, skipped: list[str]) -> TrialRecord | None:
        """Return the record in one of `files`; where it is none, add a line that names it to `skipped`."""
        try:
            return _read(path)
        except (LedgerError, _NotARecordError) as error:
            skipped.append(self._skipped(path, error))
            return None

    def _skipped(self, path: Path, error: Exception) -> str:
        # The folder by its name alone: a report says the same wherever the ledger lies.
        problem = str(error).removeprefix("a record ")
        return visible(f"{self.folder.resolve().name}/{self.trials.name}/{path.name}: {problem}")

    def statuses(self, skipped: list[str] | None = None) -> dict[str, Status]:
        """Return the status of every trial that has a record; `skipped` as for `records`."""
        return {record.id: record.status for record in self.records(skipped)}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that admits one driver per ledger, and write to no other folder meanwhile; see `folder_lock`.

        Raises:
            InitbenchError: another driver holds it, or the folder cannot be written.
        """
        with lock(self.folder) as held:
            self._lock = held
            try:
                yield
            finally:
                self._lock = None

    def is_locked(self) -> bool | None:
        """Return whether a driver is at work here; nothing is written. None where this system cannot tell."""
        return is_locked(self.folder)


class _NotARecordError(Exception):
    """Says in a few words why a file is no record."""


def _read(path: Path) -> TrialRecord:
    """Return the record in a file.

    Raises:
        LedgerError: it was written in another format.
        _NotARecordError: it is none, or not the one that was written.
    """
    try:
        record = record_of(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _NotARecordError(f"not a trial record ({' '.join(reason.split())})") from error
    if record.id != path.stem:
        raise _NotARecordError("not a trial record (its id is not the file's name)")
    return record


def record_of(text: str) -> TrialRecord:
    """Return the record that JSON text stands for, once it is known to be whole and as it was written.

    Raises:
        LedgerError: it was written in another format.
        ValueError: it is none, or it was edited; one line says where.
        RecursionError: it is nested too deeply to be read.
    """
    data = json.loads(text, parse_constant=_refuse_constant)
    record = TrialRecord.from_json(data)
    check_record(data)
    if "\\ud" in text:  # half of a pair of code units, which no file can hold
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half a character") from None
    if "\\u" in text:  # a record that this version wrote has its texts made visible
        texts = {key: value for key, value in data.items() if key not in {"spec", "identity"}}
        return replace(record, **with_visible_text(texts))
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
