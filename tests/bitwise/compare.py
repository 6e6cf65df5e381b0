"""Proves that a redesign moves no number: runs the same cases on a commit and on this tree and compares bit by bit.

    python tests/bitwise/compare.py COMMIT [--fast] [--reached] [--only PATTERN] [--jobs 2] [--list]

The commit is checked out beside the working tree, in a temporary worktree. Both trees run on this machine, with the
same libraries. Compared are the SHA-256 of every parameter and buffer after initialization and after training, all
metrics, the history, what each probe measured and its conditions, and the initialization's history, conditions and
cost. The exit status is 0 only if all are equal, 1 if not, and 2 where the request cannot be met.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # as a script: for the sake of the imports below

import reach

from bitwise.cases import CASES, EXEMPT, MOVED
from bitwise.trees import Comparison, compare_trees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bitwise.case import Case
    from bitwise.trees import Exempt

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests/bitwise/reference"
SHOWN = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and return the exit status.

    Args:
        arguments: of the command line.
    """
    try:
        return _run(_parser().parse_args(arguments))
    except RequestError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="compare.py", description="Compare this tree with a commit, bit by bit.")
    parser.add_argument("commit", nargs="?", help="the reference")
    parser.add_argument("--fast", action="store_true", help="leave out the slow cases")
    parser.add_argument("--reached", action="store_true", help="only cases that what differs from it can reach")
    parser.add_argument("--only", metavar="PATTERN", help="cases whose name holds or matches this")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RequestError(message)


def _run(options: argparse.Namespace) -> int:
    chosen = [case for case in CASES if not (case.slow and options.fast) and _matches(case.name, options.only)]
    if not chosen:
        raise RequestError(f"--only {options.only}: no case has such a name; --list prints them")
    if options.reached:
        every, chosen = len(chosen), _reached(options.commit, chosen)
        print(f"{len(chosen)} of {every} cases are within reach of what differs from {options.commit}")
        if not chosen:
            return 0
    if options.list:
        print("\n".join(f"{case.name}{' (slow)' if case.slow else ''}" for case in chosen))
        return 0
    if options.commit is None:
        raise RequestError("give the commit to compare with")
    if options.jobs < 1:
        raise RequestError(f"--jobs must be at least 1, got {options.jobs}")
    later = [case for case in chosen if case.since and not _has(options.commit, case.since)]
    if later:
        print(f"left out, later than {options.commit}: {', '.join(case.name for case in later)}")
        chosen = [case for case in chosen if case not in later]
    absent = [case for case in chosen if case.absent]
    if absent:
        print(f"left out, {absent[0].absent}: {', '.join(case.name for case in absent)}")
    with checked_out(options.commit) as reference:
        present = [case for case in chosen if not case.absent]
        return _compare(reference, present, options.jobs, exempt_from(options.commit))


class RequestError(Exception):
    """A request that cannot be met, in one line."""


def _reached(commit: str | None, cases: Sequence[Case]) -> list[Case]:
    changed = None if commit is None else reach.changed_since(commit)
    if changed is None:
        raise RequestError(f"--reached: {ROOT} has no commit {commit}")
    return list(reach.cases_reached(changed, cases))


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or pattern in name or fnmatchcase(name, pattern)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check a commit out in a temporary worktree and yield its folder; remove it at the end, whatever happens.

    Args:
        commit: any name that git knows.

    Raises:
        RequestError: git does not know it.
    """
    known = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if known.returncode:
        raise RequestError(f"{ROOT} has no commit {commit}")
    with tempfile.TemporaryDirectory(prefix="initbench-reference-") as folder:
        tree = Path(folder) / "tree"
        try:
            added = _git("worktree", "add", "--detach", str(tree), known.stdout.strip())
            if added.returncode:
                raise RequestError(added.stderr.strip().splitlines()[-1])
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def exempt_from(commit: str) -> list[Exempt]:
    """Return the numbers that may differ from those of a commit: from the reference on, only what moved since.

    Args:
        commit: that is compared with.
    """
    return MOVED if _has(commit, REFERENCE.read_text("utf-8").strip()) else [*EXEMPT, *MOVED]


def _has(commit: str, earlier: str) -> bool:
    """Return whether a commit is another one or follows it."""
    return not _git("merge-base", "--is-ancestor", earlier, commit).returncode


def _compare(reference: Path, cases: Sequence[Case], jobs: int, exempt: Sequence[Exempt]) -> int:
    start = time.perf_counter()
    result = compare_trees(
        reference, ROOT, [case.request() for case in cases], jobs=jobs, exempt=exempt, on_case=_Progress(start)
    )
    print(report(result, len(cases), time.perf_counter() - start))
    return 0 if result.equal else 1


class _Progress:
    """Prints how far the cases are: in place on a terminal, else every twentieth part.

    Args:
        start: when the cases began, of `time.perf_counter`.
    """

    def __init__(self, start: float) -> None:
        self.start = start
        self.terminal = sys.stdout.isatty()

    def __call__(self, done: int, total: int, name: str) -> None:
        line = f"{done}/{total} ({time.perf_counter() - self.start:.0f} s) {name}"
        if self.terminal:
            print(f"\r{line[:100]:100}", end="" if done < total else "\n", flush=True)
        elif done * 20 // total > (done - 1) * 20 // total:
            print(line, flush=True)


def report(result: Comparison, cases: int, seconds: float) -> str:
    """Return what a comparison found, for people.

    Args:
        result: the comparison.
        cases: how many cases ran.
        seconds: how long they took.
    """
    lines: list[Any] = list(result.errors)
    for case, trials in result.different.items():
        lines.append(f"\n{case}: {len(trials)} trials differ")
        for trial, different in list(trials.items())[:SHOWN]:
            lines.append(f"  {trial}: {len(different)} numbers differ")
            lines += [f"    {line}" for line in different[:SHOWN]]
    if result.different:
        lines += ["", f"different: {', '.join(result.different)}"]
    lines += [f"{count} numbers differ and may: {reason}" for reason, count in result.exempt.items()]
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result.outcomes.items()))
    found = "all are equal" if result.equal else f"{len(result.different)} cases are different"
    lines.append(
        f"{cases} cases, {sum(result.outcomes.values())} trials ({outcomes}), {result.numbers} numbers: {found}"
    )
    lines.append(f"{seconds:.0f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by the same way out as Ctrl-C: the worktree is removed
    sys.exit(main())
