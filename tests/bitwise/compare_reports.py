"""Proves that a page says the same statistics: reports of a commit and of this tree, from the same trials.

    python tests/bitwise/compare_reports.py COMMIT [LEDGER ...] [--only PATTERN] [--keep FOLDER]

The commit is checked out in a temporary worktree. Each set of trials, made up (`report_ledgers.py`) or in the folder of
a suite that is given, is written as a ledger of either version (`reports_schema.py`), each version writes its report,
and every CSV is compared: rows by what they are about, columns under the names of today (`reports_tables.py`), numbers
bit by bit. What differs must have one of the reasons of `reports_reasons.py`, and each of these is proved: where the
causes are taken out of the trials (chance levels, schemes that initializers bring) both versions have to agree, and
where a cause is put into the trials by hand (`reports_inputs.py`) the commit has to come to this tree's numbers.
`--keep` leaves ledgers and reports in a folder. The exit status is 0 only if everything is equal or explained, 1 if
not, and 2 where the request cannot be met.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # as a script: for the sake of the imports below

from bitwise.compare import ROOT, RequestError, checked_out
from bitwise.report_ledgers import made_up
from bitwise.reports_asked import Found, ReportsOfSet, SetOfTrials
from bitwise.reports_reasons import REASONS
from bitwise.reports_schema import NotInSchema1Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

TESTS = Path(__file__).resolve().parents[1]
SHOWN = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and return the exit status.

    Args:
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(prog="compare_reports.py", description="Compare the statistics of reports.")
    parser.add_argument("commit", help="the reference")
    parser.add_argument("ledgers", nargs="*", type=Path, metavar="LEDGER", help="folders of suites that have run")
    parser.add_argument("--only", metavar="PATTERN", help="sets of trials whose name holds or matches this")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write ledgers and reports here, and leave them")
    options = parser.parse_intermixed_args(arguments)
    try:
        return _run(options)
    except (RequestError, NotInSchema1Error) as error:
        print(f"compare_reports.py: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    chosen = list(_sets(options.ledgers, options.only))
    if not chosen:
        raise RequestError(f"--only {options.only}: no set of trials has such a name")
    with checked_out(options.commit) as commit, _place(options.keep) as folder:
        return _conclusion(list(_compare(chosen, Version(commit), Version(ROOT), Path(folder).resolve())))


def _place(keep: Path | None) -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory() if keep is None else nullcontext(str(keep))


def _compare(chosen: Sequence[SetOfTrials], old: Version, new: Version, folder: Path) -> Iterator[Found]:
    """Yield what was found of each set of trials, and print it; each version is asked as seldom as can be."""
    pairs = [
        ReportsOfSet(own, folder / f"{i} {own.name}".replace(" ", "-"), old.schema) for i, own in enumerate(chosen)
    ]
    print(f"{len(pairs)} sets of trials; their reports take some 5 s each", flush=True)
    failed = old.do(job for pair in pairs for job in pair.old.values())
    failed |= new.do(job for pair in pairs for job in pair.new.values())
    whole = [pair for pair in pairs if not _errors(pair, failed)]
    for pair in whole:
        pair.read()
    further = {pair.folder: pair.further() for pair in whole}
    failed |= old.do(job for jobs in further.values() for job in jobs.values())
    for pair in pairs:
        if errors := _errors(pair, failed):
            found = Found("not compared", errors=errors)
        else:
            found = pair.compare(further[pair.folder])
        print("\n".join(_lines(pair.trials.name, found)), flush=True)
        yield found


def _errors(pair: ReportsOfSet, failed: Mapping[str, str]) -> list[str]:
    """Return why reports of a set could not be written, by what they are."""
    return [
        f"{Path(output).relative_to(pair.folder)}: {error}"
        for output, error in failed.items()
        if Path(output).is_relative_to(pair.folder)
    ]


def _sets(folders: Sequence[Path], pattern: str | None) -> Iterator[SetOfTrials]:
    """Yield the sets of trials whose name holds or matches a pattern."""
    files = {folder.resolve().name: sorted((folder / "trials").glob("*.json")) for folder in folders}
    if empty := [name for name, found in files.items() if not found]:
        raise RequestError(f"{empty[0]}: has no trial records")
    for name, make in made_up().items():
        if _matches(name, pattern):
            yield SetOfTrials(name, [record.to_json() for record in make()])
    for name, found in files.items():
        if _matches(name, pattern):
            yield SetOfTrials(name, [json.loads(file.read_text(encoding="utf-8")) for file in found])


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or pattern in name or fnmatchcase(name, pattern)


class Version:
    """A tree that writes reports, in a process of its own.

    Args:
        tree: the folder that holds the package ``initbench``.
    """

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        said = self._run(["-c", "from initbench.ledger import SCHEMA; print(SCHEMA)"], None)
        self.schema = int(said)

    def do(self, jobs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
        """Do the jobs of `reports_worker.py` and return why some of them could not be done, by their output."""
        if not (asked := list(jobs)):
            return {}
        request = json.dumps({"tree": str(self.tree), "jobs": asked})
        said = self._run([str(Path(__file__).with_name("reports_worker.py"))], request)
        done = [json.loads(line) for line in said.splitlines()]
        return {job["output"]: job["error"] for job in done if job["error"]}

    def _run(self, arguments: Sequence[str], request: str | None) -> str:
        environment = os.environ | {"PYTHONPATH": str(self.tree), "OMP_NUM_THREADS": "1"}
        # -P: neither the current folder nor that of the script may hold another initbench
        found = subprocess.run(
            [sys.executable, "-P", *arguments],
            env=environment,
            input=request,
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            last = (found.stderr.strip().splitlines() or ["no message"])[-1]
            raise RequestError(f"{self.tree}: {last}")
        return found.stdout


def _lines(name: str, found: Found) -> Iterator[str]:
    """Yield what was found of one set of trials, for people."""
    yield f"\n{name}: {found.words}"
    yield from (f"  {line}" for line in found.errors)
    for comparison, tables in found.tables.items():
        same = [table for table in tables.values() if table.is_equal]
        rows, numbers = sum(t.rows for t in tables.values()), sum(t.numbers for t in tables.values())
        equal = sum(t.equal for t in tables.values())
        yield f" {comparison}: {len(tables)} tables, {rows} rows, {numbers} numbers, {equal} of them equal"
        yield from (
            f"  {t.name}.csv: {t.rows} rows, {t.numbers} numbers: equal" for t in same if comparison == "as it is"
        )
        for table in tables.values():
            if not table.is_equal:
                reasons = [f"{count} {reason.name}" for reason, count in table.reasons.items()]
                reasons += [f"{len(table.unexplained)} UNEXPLAINED"] if table.unexplained else []
                counts = f"{table.rows} rows, {table.numbers} numbers, {table.equal} equal"
                yield f"  {table.name}.csv: {counts}; {', '.join(reasons)}"
                yield from (f"    {line}" for line in table.unexplained[:SHOWN])


def _conclusion(results: Sequence[Found]) -> int:
    tables = [table for found in results for by_name in found.tables.values() for table in by_name.values()]
    print()
    for reason in REASONS:
        if count := sum(table.reasons[reason] for table in tables):
            print(f"{count} {reason.name}: {reason.words}")
    unexplained = sum(len(table.unexplained) for table in tables)
    errors = sum(len(found.errors) for found in results)
    numbers, equal = sum(table.numbers for table in tables), sum(table.equal for table in tables)
    said = f"{unexplained} unexplained, {errors} errors" if unexplained or errors else "all are equal or explained"
    print(f"{len(results)} sets of trials, {len(tables)} tables, {numbers} numbers, {equal} equal: {said}")
    return int(bool(unexplained or errors))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by the same way out as Ctrl-C: the worktree is removed
    sys.exit(main())
