"""The report of one suite or several: a page, its tables and its figures, made from trial records alone."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from initbench.errors import InitbenchError
from initbench.reporting.comparison import comparable_trials, compare
from initbench.reporting.contents import contents
from initbench.reporting.frame import results_frame
from initbench.reporting.html import render
from initbench.reporting.markdown import MARK, render_markdown
from initbench.reporting.metrics import outcome_metrics
from initbench.reporting.parts import MARKER, Figure, Table
from initbench.reporting.source import Source, join, read_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

_FIGURES = "figures"
# The tables that a report may lack, so that one of an earlier report may stand in its place.
_NOT_IN_EVERY_REPORT = (
    *("rank_pairs", "differences", "paired_differences", "depths", "costs", "probes", "probe_curves", "probe_layers"),
)


def read_source(
    folders: str | Path | Source | Sequence[str | Path | Source], compare: Sequence[str] | None = None
) -> Source:
    """Return one source of one or several suites' folders, or of sources read before.

    Args:
        folders: of suites, or sources.
        compare: the factors that make the treatment; by default those of the suites.

    Raises:
        InitbenchError: a folder has no trial records that can be read; or the suites do not compare the same.
    """
    given = [folders] if isinstance(folders, str | Path | Source) else folders
    sources = [item if isinstance(item, Source) else read_folder(item, compare) for item in given]
    return join(sources if compare is None else [replace(source, compare=tuple(compare)) for source in sources])


def write_report(
    folders: str | Path | Source | Sequence[str | Path | Source],
    output: str | Path | None = None,
    title: str | None = None,
    description: str | None = None,
) -> Path:
    """Write a report and return its page; equal ledgers give equal files.

    Writes ``index.html``; ``results.csv`` (the frame of `load_results`), ``comparison.csv``, ``correlation.csv``,
    ``curves.csv``, ``conditions.csv``, ``probe_curves.csv`` and ``probe_layers.csv`` where there are such measurements,
    and every table of the page as ``<name>.csv``; and every figure of the page as
    ``figures/<name>.svg``. Each is put in place by an atomic rename; tables and figures of an earlier report that this
    one does not have are removed.

    Args:
        folders: a suite's folder, ``runs/<suite name>``, or several, which make one report.
        output: where to write; ``<folder>/report`` by default, which needs a single folder.
        title: the page's heading; the suites' names by default.
        description: what the suites ask; by default that of each ``<folder>/suite.yaml`` where it can be read.

    Raises:
        InitbenchError: a folder has no trial records that can be read; `output` is not given and has no default; or a
            file cannot be written.
    """
    return write_files(folders, output, title, description)[0]


def write_files(
    folders: str | Path | Source | Sequence[str | Path | Source],
    output: str | Path | None = None,
    title: str | None = None,
    description: str | None = None,
) -> list[Path]:
    """Write a report as `write_report` does and return every file of it, the page first.

    Args:
        folders: as for `write_report`, as are the others.
        output: where to write.
        title: the page's heading.
        description: what the suites ask.

    Raises:
        InitbenchError: as `write_report`.
    """
    if output is None and not isinstance(folders, str | Path):
        raise InitbenchError("only one suite's folder has a place for its report: say where to write it")
    source = read_source(folders)
    tables, found = _read(source)
    page = render(
        found | {"files": list(tables)},
        _title(tables["results"]) if title is None else title,
        _description(source) if description is None else description,
    )
    output = Path(output) if output is not None else Path(folders) / "report"  # type: ignore[arg-type]
    figures = {f"{figure.name}.svg": figure.file(found["colours"]) for figure in _figures(found)}
    written = [output / "index.html", *(output / f"{name}.csv" for name in tables)]
    try:
        (output / _FIGURES).mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            _write(output / f"{name}.csv", table.to_csv(index=False))
        for name in set(_NOT_IN_EVERY_REPORT) - set(tables):
            (output / f"{name}.csv").unlink(missing_ok=True)
        written += _write_drawings(output / _FIGURES, figures)
        _write(output / "index.html", page)
    except OSError as error:
        raise InitbenchError(f"{error.filename or output}: {error.strerror}") from error
    return written


def write_markdown(folders: str | Path | Source | Sequence[str | Path | Source], file: str | Path) -> Path:
    """Write the report's tables as Markdown, its charts beside it in a folder of the file's name, and return the file.

    What stands above the line `markdown.MARK` in an existing file is kept: words that a person wrote about the
    numbers. A new file gets the suite's name and description there. Charts of an earlier writing that this one does not
    have are removed.

    Args:
        folders: as for `write_report`.
        file: such as ``docs/results/quickstart.md``; its charts go to ``docs/results/quickstart/``.

    Raises:
        InitbenchError: a folder has no trial records that can be read; the file exists and has no such line, so that it
            is none of ours; its name does not end in ``.md``; it cannot be read or written.
    """
    file = Path(file)
    if file.suffix != ".md":  # the charts' folder has the name without it
        raise InitbenchError(f"{file}: a Markdown file ends in .md")
    source = read_source(folders)
    tables, found = _read(source)
    head = f"# {_title(tables['results'])}\n\n{_description(source)}\n\n"
    text, charts = render_markdown(found, quote(file.stem))
    try:
        if file.exists():
            head, mark, _ = file.read_text(encoding="utf-8").partition(MARK)
            if not mark:
                raise InitbenchError(f"{file}: was not made by initbench report (it lacks the line {MARK})")
        images = file.with_suffix("")
        images.mkdir(parents=True, exist_ok=True)
        _write_drawings(images, charts)
        _write(file, head + MARK + "\n" + text)
    except OSError as error:
        raise InitbenchError(f"{error.filename or file}: {error.strerror}") from error
    return file


def _read(source: Source) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Return the tables of a report by name, and what it says."""
    frame, metrics = results_frame(source.records, source.compare), outcome_metrics(source.records)
    trials = comparable_trials(results_frame(source.records, source.compare, every_standing=True), metrics)
    comparison = compare(trials, metrics)
    found = contents(source, trials, comparison)
    shown = {part.name: part.frame for parts in found["parts"].values() for part in parts if isinstance(part, Table)}
    return {"results": frame, "comparison": comparison, **found["tables"], **shown}, found


def _write_drawings(folder: Path, drawings: Mapping[str, str]) -> list[Path]:
    """Write drawings by file name, remove those of ours that are not among them, and return what was written."""
    for name, drawing in drawings.items():
        _write(folder / name, drawing)
    written = [folder / name for name in drawings]
    for path in set(folder.glob("*.svg")) - set(written):
        if MARKER in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()
    return written


def _figures(found: Mapping[str, Any]) -> Iterator[Figure]:
    """Yield every figure of a report, in the order of the page."""
    for workload in found["workloads"]:
        yield from [workload["chart"]] if workload["chart"] else []
        yield from workload["curves"]
    yield from found["depths"]
    yield from (part for parts in found["parts"].values() for part in parts if isinstance(part, Figure))


def _title(frame: pd.DataFrame) -> str:
    return ", ".join(sorted(set(frame["suite"])))


def _description(source: Source) -> str:
    """Return what the suites ask, each under its name where there are several."""
    # A suite whose trials all stand in another one too has a description, but no record of its name.
    suites = {record.spec["suite"] for record in source.records} | set(source.descriptions)
    if len(suites) == 1:
        return "".join(source.descriptions.values())
    return "\n".join(f"{name}: {text}" for name, text in sorted(source.descriptions.items()))


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
