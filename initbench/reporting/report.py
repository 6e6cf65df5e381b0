"""The report of one suite or several: a page, its tables and its figures, made from trial records alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from initbench.errors import InitbenchError
from initbench.files import remove, write_text, written_whole
from initbench.reporting.csv_files import write_csv
from initbench.reporting.every_question import every_answer
from initbench.reporting.file_names import name_apart
from initbench.reporting.manifest import FIGURES, MANIFEST, PAGE, is_drawing, recorded
from initbench.reporting.notices import undrawn_notices
from initbench.reporting.page.collect import collect
from initbench.reporting.page.html import html_pieces
from initbench.reporting.questions.overview import overview
from initbench.reporting.results import Results, read_results
from initbench.reporting.speed import set_aside, texts_as_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.page.contents import Contents
    from initbench.reporting.sentence import Sentence
    from initbench.reporting.source import Source


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


@np.errstate(over="ignore")  # of values at the end of what a number can hold
def write_report(
    folders: str | Path | Results | Source | Sequence[str | Path | Source],
    output: str | Path | None = None,
    title: str | None = None,
    description: str | None = None,
) -> Written:
    """Write a report; equal ledgers give equal files.

    Writes ``index.html``; ``results.csv`` (the frame of `load_results`), ``conditions.csv``, and every table of the
    page as ``<name>.csv``; every figure of the page as ``figures/<name>.svg``; and a manifest of all these. Each is put
    in place by an atomic rename. The files of an earlier report that this one does not have are removed; no file that
    no report wrote is replaced or removed, but for the suite's own ``<folder>/report``, in which all is the report's.

    Args:
        folders: a suite's folder, ``runs/<suite name>``, or several, which make one report; or results that were read.
        output: where to write; ``<folder>/report`` by default, which needs a single folder.
        title: the page's heading; the suites' names by default.
        description: what the suites ask; by default that of each ``<folder>/suite.yaml`` where it can be read.

    Raises:
        InitbenchError: a folder has no trial records that can be read; `output` is not given and has no default; it
            has a file of another origin where one is to be written; or a file cannot be written.
    """
    if output is None and not isinstance(folders, str | Path):
        raise InitbenchError("only one suite's folder has a place for its report: say where to write it")
    output = Path(output) if output is not None else Path(folders) / "report"  # type: ignore[arg-type]
    results = folders if isinstance(folders, Results) else read_results(folders)
    with set_aside(), texts_as_objects():
        contents = contents_of(results, title, description)
        tables = _tables(results, contents)
        figures = [figure for analysis in contents.analyses for figure in analysis.figures]
        names = [PAGE, *(f"{name}.csv" for name in tables), *(f"{FIGURES}/{figure.name}.svg" for figure in figures)]
        try:
            with recorded(output, names):
                for name, table in tables.items():
                    with written_whole(output / f"{name}.csv", output) as file:
                        write_csv(table, file)
                write_drawings(output / FIGURES, figures, output)
                contents = replace(contents, notices=[*contents.notices, *undrawn_notices(figures)])
                with written_whole(output / PAGE, output) as file:
                    file.writelines(html_pieces(contents))
        except OSError as error:
            raise InitbenchError(f"{error.filename or output}: {error.strerror}") from error
    written = [output / name for name in (*names, MANIFEST)]
    return Written(written[0], written, list(contents.overview.sentences))


def contents_of(results: Results, title: str | None = None, description: str | None = None) -> Contents:
    """Return what a report says; its figures are being drawn meanwhile.

    Args:
        results: as from `read_results`.
        title: as for `write_report`.
        description: likewise.
    """
    first, analyses, used = overview(results), [], set[str]()
    for analysis in every_answer(results):
        for figure in analysis.figures:
            figure.rename(name_apart(figure.name, used))
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


def write_drawings(folder: Path, figures: Iterable[Figure], within: Path) -> None:
    """Write figures by their names, and remove those of ours that are not among them.

    Args:
        folder: that exists.
        figures: of a report.
        within: the folder that no link may lead out of.

    Raises:
        OSError: one cannot be written or removed.
    """
    each = {folder / f"{figure.name}.svg": figure for figure in figures}
    for path, figure in each.items():
        write_text(path, figure.file(), within)
    for path in set(folder.glob("*.svg")).difference(each):
        if is_drawing(path):
            remove(path, within)
