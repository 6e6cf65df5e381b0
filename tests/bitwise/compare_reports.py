"""Proves that a page says the same: reports of a commit and of this tree, from the same trials.

    python tests/bitwise/compare_reports.py COMMIT [LEDGER ...] [--strict [--words]] [--only PATTERN] [--keep FOLDER]

The commit is checked out in a temporary worktree. Each set of trials is one folder that both versions read: made up
(`report_ledgers.py`), run by the commit (`report_suites.py`), or a LEDGER, a suite's folder or one that is packed as
``.tar.xz``. Each version writes its report in a process of its own. What stood in the CSVs of the commit must stand in
those of this tree; what is new is listed. With `--strict` nothing may differ: the names of the files, their columns and
rows, the order of both, every text and every bit; nor may the report as JSON, the data of the figures, the frames for
notebooks, and what ``sync`` writes to MLflow. Sentences that differ are listed, and are a difference with `--words`.
`--keep` leaves ledgers and reports in a folder. The exit status is 0 if everything is equal, 1 if not, and 2 if the
request cannot be met.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tarfile
import tempfile
from contextlib import nullcontext
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # as a script: for the sake of the imports below

from bitwise.compare import ROOT, RequestError, checked_out
from bitwise.report_ledgers import made_up
from bitwise.report_suites import PLUGIN, RAN, SUITES, Ran
from bitwise.reports_compared import Compared, compare_reports
from bitwise.versions import Version, VersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from initbench.ledger import TrialRecord

    Files = dict[str, bytes]
    Source = Ran | Files | Callable[[], list[TrialRecord]]

SHOWN = 12
PACKED = ".tar.xz"
_BESIDE = {"suite.yaml", "resolved.json"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and return the exit status.

    Args:
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(prog="compare_reports.py", description="Compare the reports of two versions.")
    parser.add_argument("commit", help="the reference")
    parser.add_argument("ledgers", nargs="*", type=Path, metavar="LEDGER", help="folders of suites, packed or not")
    parser.add_argument("--strict", action="store_true", help="compare all that is said of trials to the last byte")
    parser.add_argument("--words", action="store_true", help="with --strict: sentences must be equal too")
    parser.add_argument("--only", metavar="PATTERN", help="sets of trials whose name holds or matches this")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write ledgers and reports here, and leave them")
    options = parser.parse_intermixed_args(arguments)
    try:
        return _run(options)
    except (RequestError, VersionError) as error:
        print(f"compare_reports.py: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.words and not options.strict:
        raise RequestError("--words goes with --strict")
    given = {path.resolve().name.removesuffix(PACKED): _files(path) for path in options.ledgers}
    every: dict[str, Source] = made_up() | RAN | given
    pattern = options.only
    chosen = {name: own for name, own in every.items() if not pattern or pattern in name or fnmatchcase(name, pattern)}
    if not chosen:
        raise RequestError(f"--only {pattern}: no set of trials has such a name")
    with checked_out(options.commit) as commit, _kept(options.keep) as folder:
        found = compare_versions(Version(commit), Version(ROOT), chosen, Path(folder).resolve(), strict=options.strict)
        return _conclusion(list(found), words=options.words)


def _kept(folder: Path | None) -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory() if folder is None else nullcontext(str(folder))


def compare_versions(
    old: Version, new: Version, chosen: dict[str, Source], folder: Path, *, strict: bool
) -> Iterator[Compared]:
    """Yield what the reports of each set of trials have in common, and print it.

    Args:
        old: the reference.
        new: what is compared with it.
        chosen: sets of trials by name.
        folder: for ledgers and reports.
        strict: see above.

    Raises:
        VersionError: a version gives no answer.
    """
    print(f"{len(chosen)} sets of trials; a report of each takes some 2 s", flush=True)
    ledgers = _ledgers(old, chosen, folder)
    jobs = [_job(name, ledgers[name], chosen[name], strict=strict) for name in chosen]
    failed = {}
    for side, version in (("old", old), ("new", new)):
        own = [job | {"output": str(folder / side / job["name"])} for job in jobs]
        failed[side] = _failed(version, own)
    for name in chosen:
        compared = compare_reports(folder / "old" / name, folder / "new" / name, strict=strict)
        compared.different[:0] = [f"{side}: no report: {own[name]}" for side, own in failed.items() if own[name]]
        print("\n".join(_lines(name, compared)), flush=True)
        yield compared


def _job(name: str, folders: Sequence[Path], source: Source, *, strict: bool) -> dict[str, Any]:
    mlflow = isinstance(source, Ran) and source.mlflow
    return {"name": name, "folders": list(map(str, folders)), "strict": strict, "mlflow": mlflow}


def _failed(version: Version, jobs: Iterable[dict[str, Any]]) -> dict[str, str | None]:
    """Let a version do jobs, and return why each could not be done."""
    return {answer["name"]: answer["error"] for answer in version.ask("reports_worker", {"jobs": list(jobs)})}


def _ledgers(old: Version, chosen: dict[str, Source], folder: Path) -> dict[str, list[Path]]:
    """Write the ledgers of each set of trials and return their folders."""
    asked = dict.fromkeys(suite for own in chosen.values() if isinstance(own, Ran) for suite in own.suites)
    runs = _run_suites(old, asked, folder / "runs")
    ledgers: dict[str, list[Path]] = {}
    for name, source in chosen.items():
        place = folder / "ledgers" / name
        if isinstance(source, dict):
            ledgers[name] = [_copied(source, place / name)]
        elif not isinstance(source, Ran):
            records = {f"trials/{record.id}.json": json.dumps(record.to_json()).encode() for record in source()}
            ledgers[name] = [_copied(records, place / "made-up")]
        elif source.mlflow:  # which knows its files by their paths
            ledgers[name] = [runs / suite for suite in source.suites]
        else:
            kept = {suite: _kept_records(_files(runs / suite), source) for suite in source.suites}
            ledgers[name] = [_copied(files, place / suite) for suite, files in kept.items()]
    return ledgers


def _run_suites(version: Version, names: Iterable[str], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    jobs = []
    for name in names:
        (folder / f"{name}.yaml").write_text(SUITES[name], encoding="utf-8")
        options = ["--out", str(folder), "--plugin", str(folder / "plugin.py"), "--executor", "in-process"]
        jobs.append({"name": name, "run": [str(folder / f"{name}.yaml"), *options]})
    for name, error in _failed(version, jobs).items() if jobs else ():
        if error:
            raise VersionError(f"{version.tree}: the suite {name} does not run: {error}")
    return folder


def _kept_records(files: Files, source: Ran) -> Files:
    return {name: content for name, content in files.items() if name in _BESIDE or source.keep(json.loads(content))}


def _files(ledger: Path) -> Files:
    """Return the records of a ledger and what a report reads beside them, by their paths in its folder.

    Raises:
        RequestError: it has no records, or cannot be read.
    """
    try:
        if ledger.is_dir():
            every = {path.relative_to(ledger).as_posix(): path.read_bytes() for path in ledger.glob("trials/*.json")}
            every |= {name: (ledger / name).read_bytes() for name in _BESIDE if (ledger / name).is_file()}
        else:
            every = dict(_unpacked(ledger))
    except (OSError, tarfile.TarError) as error:
        raise RequestError(f"{ledger}: cannot be read: {str(error).partition(chr(10))[0]}") from error
    if not {*every} - _BESIDE:
        raise RequestError(f"{ledger}: has no trial records")
    return dict(sorted(every.items()))


def _unpacked(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a packed ledger, with or without a folder around them."""
    with tarfile.open(archive) as tar:
        for member in tar:
            *_, parent, name = ("", *PurePosixPath(member.name).parts)
            if (parent == "trials" and name.endswith(".json")) or name in _BESIDE:
                content = tar.extractfile(member)
                assert content is not None, member.name
                yield f"trials/{name}" if parent == "trials" else name, content.read()


def _copied(files: Files, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "trials").mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _lines(name: str, compared: Compared) -> Iterator[str]:
    """Yield what was found of one set of trials, for people."""
    files = ", ".join(f"{count} {ending}" for ending, count in compared.files.items())
    yield f"\n{name}: {files}; {compared.values} values in tables: {len(compared.different) or 'none'} differ"
    for what, lines in (("", compared.different), ("new: ", compared.new), ("words: ", compared.words)):
        yield from (f"  {what}{line}" for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            yield f"  {what}and {len(lines) - SHOWN} more"


def _conclusion(results: Sequence[Compared], *, words: bool) -> int:
    different = sum(len(compared.different) + words * len(compared.words) for compared in results)
    said, new = (sum(len(getattr(compared, kind)) for compared in results) for kind in ("words", "new"))
    files, values = sum(r.files.total() for r in results), sum(r.values for r in results)
    found = f"{different} differ" if different else "all are equal"
    beside = "".join(f", {count} {what}" for count, what in ((new, "new"), (said, "lines of words differ")) if count)
    print(f"\n{len(results)} sets of trials, {files} files, {values} values in tables: {found}{beside}")
    return int(bool(different))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by the same way out as Ctrl-C: the worktree is removed
    sys.exit(main())
