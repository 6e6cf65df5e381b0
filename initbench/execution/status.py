"""The state of a suite's run, read from its folder, without torch or ray; nothing is written."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from initbench.errors import InitbenchError
from initbench.execution.progress_file import StoredProgress, read_plan, read_progress
from initbench.ledger import Ledger

_MOST_NAMED = 5
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Reason:
    """Why trials failed: the exception's type and message, the number of trials, their hosts, and the first ids."""

    reason: str
    trials: int
    hosts: dict[str, int]
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Running:
    """A running trial: seconds since its start, and the finished fraction of its training."""

    id: str
    name: str
    seconds: float
    fraction: float


@dataclass(frozen=True)
class Status:
    """The state of a suite's run; None if the folder does not contain a value.

    Attributes:
        running: whether a driver is at work here; None if the file system has no locks.
        host: of the driver, or of the last one, as are `pid` and the following.
        ended_at: None if it runs, or was killed.
        ending: ``finished``, ``interrupted``, or the error.
        left: the number of trials without a record that do not run now.
        awaited: the largest number of trials that follow from searches.
        others: the number of records of trials that the suite does not plan.
        per_hour: trials per hour in this run.
        seconds_left: the driver's estimate, minus the time since then.
        damaged: a line for each unreadable record.
        problems: a line for each other unreadable file.
    """

    folder: str
    running: bool | None
    host: str | None
    pid: int | None
    started_at: float | None
    ended_at: float | None
    ending: str | None
    total: int | None
    finished: int
    diverged: int
    failed: int
    left: int | None
    awaited: int
    others: int
    per_hour: float | None
    seconds_left: float | None
    now: tuple[Running, ...]
    reasons: tuple[Reason, ...]
    damaged: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def done(self) -> int:
        return self.finished + self.diverged

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"done": self.done}


@dataclass(frozen=True)
class _Entry:
    status: str
    reason: str
    host: str | None


class StatusReader:
    """Reads the state of a suite's run repeatedly; only changed files are read again."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder)
        self._entry = cache(self._read_entry)

    def read(self) -> Status:
        folder = self.ledger.folder
        problems: list[str] = []
        running = self.ledger.is_locked()
        plan, progress = _readable(read_plan, folder, problems), _readable(read_progress, folder, problems)
        entries, damaged = self._entries()
        ids = set(entries) if plan is None else set(plan.trials)
        counts = Counter(entry.status for i, entry in entries.items() if i in ids)
        now = time.time()
        left = None if progress is None or not running else progress.seconds_left
        now_running = progress.running if progress is not None and running else ()
        driver = ("host", "pid", "started_at", "ended_at", "ending")
        return Status(
            folder=str(folder),
            running=running,
            **{name: getattr(progress, name, None) for name in driver},
            total=None if plan is None else len(ids),
            finished=counts["finished"],
            diverged=counts["diverged"],
            failed=counts["failed"],
            left=None if plan is None else len(ids - set(entries) - {trial.id for trial in now_running}),
            awaited=0 if plan is None else plan.awaited,
            others=len(set(entries) - ids),
            per_hour=None if progress is None else _per_hour(progress, now if running else progress.updated_at),
            seconds_left=None if left is None or progress is None else max(left - (now - progress.updated_at), 0.0),
            now=tuple(
                Running(trial.id, trial.name, max(now - trial.since, 0.0), trial.fraction) for trial in now_running
            ),
            reasons=_reasons({i: entry for i, entry in entries.items() if i in ids}),
            damaged=tuple(damaged),
            problems=tuple(problems),
        )

    def _entries(self) -> tuple[dict[str, _Entry], list[str]]:
        entries, damaged = {}, []
        for path in self.ledger.files():
            try:
                stat = path.stat()
            except OSError:  # it was renamed meanwhile
                continue
            entry = self._entry(path, stat.st_mtime_ns, stat.st_size)
            if isinstance(entry, str):
                damaged.append(entry)
            else:
                entries[path.stem] = entry
        return entries, damaged

    def _read_entry(self, path: Path, _modified: int, _size: int) -> _Entry | str:
        skipped: list[str] = []
        record = self.ledger.read_file(path, skipped)
        if record is None:
            return skipped[0]
        error, host = record.error or {}, record.environment.get("host")
        reason = " ".join(f"{error.get('type')}: {error.get('message')}".split()) if error else ""
        return _Entry(record.status, reason, host)


def _reasons(entries: dict[str, _Entry]) -> tuple[Reason, ...]:
    ids: dict[str, list[str]] = defaultdict(list)
    for trial_id, entry in entries.items():
        if entry.status == "failed":
            ids[entry.reason].append(trial_id)
    return tuple(
        Reason(
            reason,
            len(failed),
            dict(Counter(host for host in (entries[i].host for i in failed) if host).most_common()),
            tuple(failed[:_MOST_NAMED]),
        )
        for reason, failed in sorted(ids.items(), key=lambda item: (-len(item[1]), item[0]))
    )


def _readable(read: Callable[[Path], _Read | None], folder: Path, problems: list[str]) -> _Read | None:
    try:
        return read(folder)
    except InitbenchError as error:
        problems.append(str(error))
        return None


def _per_hour(progress: StoredProgress, now: float) -> float | None:
    came = sum(progress.ended.values())
    until = now if progress.ended_at is None else progress.ended_at
    return 3600 * came / max(until - progress.started_at, 1.0) if came else None
