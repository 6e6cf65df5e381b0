"""Runs cases on two trees and compares what came out, number by number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

TESTS = Path(__file__).resolve().parents[1]
Numbers = dict[str, str]
Trials = dict[str, dict[str, Numbers]]
"""Numbers by case and trial."""
UNPLANNED = "plan"
"""Stands in the place of the trials of a case that cannot be planned."""


class Exempt(NamedTuple):
    """A number that may differ, since a finding proved the reference's wrong; patterns as of a shell.

    Attributes:
        case: name of the case.
        trial: key of the trial.
        number: path of the number, such as ``probes/gradient_norm/value``.
        reason: the finding.
    """

    case: str
    trial: str
    number: str
    reason: str

    def covers(self, case: str, trial: str, number: str) -> bool:
        """Return whether this number is meant."""
        pairs = ((case, self.case), (trial, self.trial), (number, self.number))
        return all(fnmatchcase(name, pattern) for name, pattern in pairs)


@dataclass
class Comparison:
    """What two trees have in common.

    Attributes:
        different: by case and trial, a line for each number that differs.
        exempt: how many numbers differ that may, by reason.
        outcomes: how many trials of the reference ended how.
        numbers: how many numbers the reference has.
        errors: why a tree's cases did not all run, one line each.
    """

    different: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    exempt: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    numbers: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether every number of the reference stands in the other tree too, bit by bit."""
        return not self.different and not self.errors


def compare_trees(
    reference: Path,
    changed: Path,
    cases: Sequence[Mapping[str, Any]],
    *,
    jobs: int = 2,
    exempt: Sequence[Exempt] = (),
    on_case: Callable[[int, int, str], None] = lambda *_: None,
) -> Comparison:
    """Run cases on two trees and compare.

    Args:
        reference: folder that holds the package ``initbench`` whose numbers are right.
        changed: the folder that is compared with it.
        cases: ``{name, suite, phase}``.
        jobs: processes at once. Each has one tree and, from four jobs on, only a part of the cases, which is the same
            part for both trees: a number that depended on the trials before it in its process would be the same too.
        exempt: the numbers that may differ.
        on_case: called with (cases done, of both trees; cases in all; name) as they are done.
    """
    parts = max(1, jobs // 2)
    lock, done = threading.Lock(), 0

    def count(name: str) -> None:
        nonlocal done
        with lock:
            done += 1
            on_case(done, 2 * len(cases), name)

    found: dict[Path, Trials] = {reference: {}, changed: {}}
    units = [(tree, cases[part::parts]) for part in range(parts) for tree in (reference, changed) if cases[part::parts]]
    errors = []
    processes: list[subprocess.Popen[str]] = []
    pool = ThreadPoolExecutor(jobs)
    try:
        running = [(tree, pool.submit(_run, tree, part, count, processes)) for tree, part in units]
        for tree, future in running:
            trials, error = future.result()
            found[tree] |= trials
            errors += [error] if error else []
    except BaseException:
        # Such as Ctrl-C: no process is to outlive the folder that it reads.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()
        raise
    finally:
        pool.shutdown()
    result = compared(found[reference], found[changed], exempt)
    result.errors = errors
    return result


def _run(
    tree: Path, cases: Sequence[Mapping[str, Any]], on_case: Callable[[str], None], processes: list[Any]
) -> tuple[Trials, str | None]:
    """Run cases on one tree, in one process; return their trials, and why they did not all run."""
    path = os.pathsep.join([str(TESTS), str(tree)])  # both come before an installed initbench
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    trials: Trials = {}
    finished = 0
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "bitwise.worker"],  # -P: the current folder may hold another initbench
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
        processes.append(process)
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError), process.stdin as stdin:  # it ended before it read: its exit status says so
                json.dump({"tree": str(tree), "cases": list(cases)}, stdin)
            for line in process.stdout:
                message = json.loads(line)
                if "trial" in message:
                    trials.setdefault(message["case"], {})[message["trial"]] = message["numbers"]
                else:
                    finished += 1
                    on_case(message["case"])
        if process.returncode == 0 and finished == len(cases):
            return trials, None
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no message"])[-1]
    where = f"in the case {cases[finished]['name']}" if finished < len(cases) else "at its end"
    return trials, f"{tree}: the worker ended with status {process.returncode} {where}: {last}"


def compared(reference: Trials, changed: Trials, exempt: Iterable[Exempt] = ()) -> Comparison:
    """Compare the trials of two trees.

    Every number of the reference must be in the other tree, with the same bits; that tree may have more numbers of a
    trial, but not more trials.

    Args:
        reference: numbers by case and trial.
        changed: those of the other tree.
        exempt: the numbers that may differ.
    """
    result = Comparison()
    exempt = list(exempt)
    for case in reference | changed:
        first, second = reference.get(case, {}), changed.get(case, {})
        if UNPLANNED in second and UNPLANNED not in first:
            first, second = {}, {UNPLANNED: second[UNPLANNED]}  # one line for all trials that it does not have
        for trial in first | second:
            lines = []
            for number, line in differences(first.get(trial), second.get(trial)):
                excuse = next((e for e in exempt if e.covers(case, trial, number)), None)
                if excuse is None:
                    lines.append(line)
                else:
                    result.exempt[excuse.reason] = result.exempt.get(excuse.reason, 0) + 1
            if lines:
                result.different.setdefault(case, {})[trial] = lines
        for numbers in first.values():
            outcome = numbers["outcome"].strip('"')
            result.outcomes[outcome] = result.outcomes.get(outcome, 0) + 1
            result.numbers += len(numbers)
    return result


def differences(reference: Numbers | None, changed: Numbers | None) -> Iterator[tuple[str, str]]:
    """Yield the path and one line for each number of a trial that differs.

    Args:
        reference: its numbers, None where the tree has no such trial.
        changed: those of the other tree.
    """
    if reference is None or changed is None:
        has, tree = (changed, "the changed tree") if reference is None else (reference, "the reference")
        outcome = has["outcome"] if has else ""
        yield "outcome", f"only {tree} has this: {outcome}"
        return
    if reference["outcome"].startswith("failed"):
        # Both trees may fail alike, and then nothing is compared: the case has to be put right.
        yield "outcome", f"the case itself does not run on the reference: {reference['outcome']}"
        return
    if reference["outcome"] != changed["outcome"]:
        yield "outcome", f"outcome: {reference['outcome']} → {changed['outcome']}"
        return
    for number, value in reference.items():
        if number not in changed:
            yield number, f"{number}: {value} → missing"
        elif changed[number] != value:
            yield number, f"{number}: {_short(value)} → {_short(changed[number])}"


def flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every number of nested data with its path; floats as `float.hex`, so that no bit is lost.

    Args:
        value: mappings, lists and scalars.
        key: the path so far.
    """
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        if isinstance(value, list):
            yield f"{key}/length", str(len(value))
        for name, item in items:
            yield from flat(item, f"{key}/{name}" if key else str(name))
    else:
        yield key, value.hex() if isinstance(value, float) else json.dumps(value)


def _short(value: str) -> str:
    """Return a value, a SHA-256 by its first digits."""
    *_, last = value.split()
    return value.replace(last, f"{last[:12]}…") if len(last) == 64 else value
