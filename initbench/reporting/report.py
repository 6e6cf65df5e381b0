"""The report of one suite or several: a page, its tables and its figures, made from trial records alone."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from initbench.errors import InitbenchError
from initbench.reporting.analyses.every import every_analysis
from initbench.reporting.analyses.overview import overview
from initbench.reporting.charts.figure import MARKER
from initbench.reporting.page.collect import collect
from initbench.reporting.page.html import html_pieces
from initbench.reporting.results import Results, read_results
from initbench.reporting.speed import set_aside, texts_as_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.page.contents import Contents
    from initbench.reporting.source import Source
    from initbench.reporting.words.sentence import Sentence

_FIGURES = "figures"
# The tables that a report may lack, so that one of an earlier report may stand in its place.
_NOT_IN_EVERY_REPORT = (
    *("rank_pairs", "differences", "paired_differences", "divergence", "variance", "depths", "costs", "probes"),
    *(
        "correlation",
        "curves",
        "curve_ends",
        "tuning",
        "tuning_steps",
        "tuning_outcomes",
        "scale_factors",
        "layers",
        "probe_curves",
        "probe_layers",
        "protocols",
        "verdicts",
        "good_rates",
        "tunability",
        "searched",
        "stable_rates",
        "claims",
        "published",
    ),
)


class Written(NamedTuple):
    """What was written.

    Attributes:
        page: the report's page.
        files: every file, the page first.
        sentences: what happened, as it stands on the first screen.
    """

    page: Path
    files: list[Path]
    sentences: list[Sentence]


def write_report(
    folders: str | Path | Results | Source | Sequence[str | Path | Source],
    output: str | Path | None = None,
    title: str | None = None,
    description: str | None = None,
) -> Written:
    """Write a report; equal ledgers give equal files.

    Writes ``index.html``; ``results.csv`` (the frame of `load_results`), ``conditions.csv``, and every table of the
    page as ``<name>.csv``; and every figure of the page as ``figures/<name>.svg``. Each is put in place by an
    atomic rename; tables and figures of an earlier report that this one does not have are removed.

    Args:
        folders: a suite's folder, ``runs/<suite name>``, or several, which make one report; or results that were read.
        output: where to write; ``<folder>/report`` by default, which needs a single folder.
        title: the page's heading; the suites' names by default.
        description: what the suites ask; by default that of each ``<folder>/suite.yaml`` where it can be read.

    Raises:
        InitbenchError: a folder has no trial records that can be read; `output` is not given and has no default; or a
            file cannot be written.
    """
    if output is None and not isinstance(folders, str | Path):
        raise InitbenchError("only one suite's folder has a place for its report: say where to write it")
    output = Path(output) if output is not None else Path(folders) / "report"  # type: ignore[arg-type]
    results = folders if isinstance(folders, Results) else read_results(folders)
    with set_aside(), texts_as_objects():
        contents = contents_of(results, title, description)
        tables = _tables(results, contents)
        written = [output / "index.html", *(output / f"{name}.csv" for name in tables)]
        try:
            (output / _FIGURES).mkdir(parents=True, exist_ok=True)
            for name, table in tables.items():
                with _put(output / f"{name}.csv") as file:
                    table.to_csv(file, index=False)
            for name in set(_NOT_IN_EVERY_REPORT) - set(tables):
                (output / f"{name}.csv").unlink(missing_ok=True)
            figures = (figure for analysis in contents.analyses for figure in analysis.figures)
            written += write_drawings(output / _FIGURES, figures)
            with _put(output / "index.html") as file:
                file.writelines(html_pieces(contents))
        except OSError as error:
            raise InitbenchError(f"{error.filename or output}: {error.strerror}") from error
    return Written(written[0], written, list(contents.overview.sentences))


def contents_of(results: Results, title: str | None = None, description: str | None = None) -> Contents:
    """Return what a report says; its figures are being drawn meanwhile.

    Args:
        results: as from `read_results`.
        title: as for `write_report`.
        description: likewise.
    """
    first, analyses = overview(results), []
    for analysis in every_analysis(results):
        for figure in analysis.figures:
            figure.begin()  # on another core, while the other analyses are made
        analyses.append(analysis)
    return collect(results, first, analyses, title, description)


def _tables(results: Results, contents: Contents) -> dict[str, pd.DataFrame]:
    """Return every table that is written beside a page, by its name."""
    frames = {"results": results.frame}
    every = (table for analysis in contents.analyses for table in analysis.tables)
    frames |= {table.name: table.frame for table in every if table.is_written}
    frames["conditions"] = contents.conditions
    return frames


def write_drawings(folder: Path, figures: Iterable[Figure]) -> list[Path]:
    """Write figures by their names, remove those of ours that are not among them, and return what was written.

    Args:
        folder: that exists.
        figures: of a report.
    """
    each = {folder / f"{figure.name}.svg": figure for figure in figures}
    for path, figure in each.items():
        write_file(path, figure.file())
    written = list(each)
    for path in set(folder.glob("*.svg")) - set(written):
        if MARKER in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()
    return written


def write_file(path: Path, text: str) -> None:
    """Write a file and put it in place by an atomic rename.

    Args:
        path: in a folder that exists.
        text: that it has.

    Raises:
        OSError: it cannot be written; the error names it.
    """
    with _put(path) as file:
        file.write(text)


@contextmanager
def _put(path: Path) -> Iterator[TextIO]:
    """Open a file to be written whole, and put it in place by an atomic rename: piece by piece it takes less memory."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
