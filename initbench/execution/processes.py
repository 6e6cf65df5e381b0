"""A process and all that it has started: which they are, and how much memory they take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def memory_of(process: int, at_least: float = 0.0) -> int:
    """Return the bytes of memory that a process and those it started take; 0 if it has ended.

    Pages that several processes share are counted once, in shares (proportional set size, proc_pid_smaps(5)). Finding
    out takes milliseconds: resident sets, quickly had, that add up to no more than `at_least` are returned instead.
    """
    members = list(family(process))
    resident = sum(map(resident_bytes, members))
    if resident <= at_least:
        return resident
    return sum(_kilobytes(member, "smaps_rollup", "Pss") for member in members) * 1024


def family(process: int) -> Iterator[int]:
    """Yield a process, what it has started, and what those have; nothing but itself where the system does not tell."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # one that has just ended
            for child in children.read_text(encoding="utf-8").split():
                yield from family(int(child))


def resident_bytes(process: int) -> int:
    """Return the bytes of memory that one process takes, shared pages included; 0 if it has ended."""
    return _kilobytes(process, "status", "VmRSS") * 1024


def _kilobytes(process: int, file: str, field: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return 0
