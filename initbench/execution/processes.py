"""The descendants of a process, the memory that they take, and what a trial's process tells its worker."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn


class Outcome(NamedTuple):
    """How a trial ended, and in which state it left the process.

    It is not in `trial_child`, because pickle would name that ``__main__``.
    """

    record: str  # as JSON
    is_broken: bool = False  # the device no longer computes in this process
    was_crowded_out: bool = False  # memory ran out on a shared GPU, and the trial had not used its share
    has_left_processes: bool = False


def memory_of(process: int, at_least: float = 0.0) -> int:
    """Return the bytes of memory of a process and its descendants; 0 if it has ended.

    Shared pages are counted once (proportional set size, proc_pid_smaps(5)), which takes milliseconds. If the resident
    sizes, which are fast to read, add up to at most `at_least`, their sum is returned instead.
    """
    members = list(family(process))
    resident = sum(map(resident_bytes, members))
    if resident <= at_least:
        return resident
    return sum(_kilobytes(member, "smaps_rollup", "Pss") for member in members) * 1024


def family(process: int) -> Iterator[int]:
    """Yield a process and its descendants; only the process if the system does not list them."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # a process that has just ended
            for child in children.read_text(encoding="utf-8").split():
                yield from family(int(child))


def leave(code: int) -> NoReturn:
    """End this process and all its descendants, without waiting for threads or exit handlers of libraries."""
    for process in set(family(os.getpid())) - {os.getpid()}:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    os._exit(code)


def resident_bytes(process: int) -> int:
    """Return the bytes of memory of one process, including shared pages; 0 if it has ended."""
    return _kilobytes(process, "status", "VmRSS") * 1024


def _kilobytes(process: int, file: str, field: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return 0
