"""The report of one or several suites: a page, its tables and its figures, made from trial records alone."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from initbench.errors import InitbenchError
from initbench.files import remove, write_text, written_whole
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.rendering import warm_up
from initbench.reporting.csv_files import write_csv
from initbench.reporting.every_question import every_answer
from initbench.reporting.file_names import name_apart
from initbench.reporting.manifest import FIGURES, MANIFEST, PAGE, is_drawing, recorded
from initbench.reporting.notices import undrawn_notices
from initbench.reporting.page.contents import Contents, collect
from initbench.reporting.page.html import html_pieces
from initbench.reporting.questions.overview import overview
from initbench.reporting.results import Results, read_results
from initbench.reporting.sentence import Sentence
from initbench.reporting.source import Source


class Written(NamedTuple):
    """What was written.

    Attributes:
        page: the report's page.
        files: all files, beginning with the page.
        sentences: what happened, as on the first screen.
    """

    page: Path
    files: list[Path]
    sentences: list[Sentence]


@np.errstate(over="ignore")  # some outcomes are near the largest float
def write_report(
    folders: str | Path | Results | Source | Sequence[str | Path | Source],
    output: str | Path | None = None,
    title: str | None = None,
    description: str | None = None,
) -> Written:
    """Write a report; equal ledgers give equal files.

    Writes ``index.html``; ``results.csv`` (the frame of `load_results`), ``conditions.csv``, and every table of the
    page as ``<name>.csv``; every figure of the page as ``figures/<name>.svg``; and a manifest that lists these files.
    Each file replaces an earlier one by an atomic rename. Files of an earlier report that this one lacks are removed.
    Files that no report wrote are never replaced or removed, except in a suite's own ``<folder>/report``.

    Args:
        folders: a suite's folder, ``runs/<suite name>``, or several for a single report; or results from
            `read_results`.
        output: the folder to write to; by default ``<folder>/report``, which needs a single folder.
        title: the page's heading; by default the suites' names.
        description: the question that the suites ask; by default the descriptions in ``<folder>/suite.yaml``.

    Raises:
        InitbenchError: a folder has no readable trial records; `output` is needed and not given; a file of another
            origin is in the way; or a file cannot be written.
    """
    if output is None and not isinstance(folders, str | Path):
        raise InitbenchError("only one suite's folder has a place for its report: say where to write it")
    output = Path(output) if output is not None else Path(folders) / "report"  # type: ignore[arg-type]
    warm_up()  # on another core, while the records are read
    results = folders if isinstance(folders, Results) else read_results(folders)
    with _fast():
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
    """Return the contents of a report; its figures are drawn in the background."""
    first, analyses, used = overview(results), [], set[str]()
    for analysis in every_answer(results):
        for figure in analysis.figures:
            figure.rename(name_apart(figure.name, used))
            figure.begin()  # on another core, while the other questions are answered
        analyses.append(analysis)
    return collect(results, first, analyses, title, description)


def _tables(results: Results, contents: Contents) -> dict[str, pd.DataFrame]:
    """Return the tables that are written beside a page, by name."""
    frames = {"results": results.frame}
    every = (table for analysis in contents.analyses for table in analysis.tables)
    frames |= {table.name: table.frame for table in every if table.is_written}
    frames["conditions"] = contents.conditions
    return frames


def write_drawings(folder: Path, figures: Iterable[Figure], within: Path) -> None:
    """Write figures into an existing folder, and remove other figures that a report wrote there.

    No link may lead out of the folder `within`.
    """
    each = {folder / f"{figure.name}.svg": figure for figure in figures}
    for path, figure in each.items():
        write_text(path, figure.file(), within)
    for path in set(folder.glob("*.svg")).difference(each):
        if is_drawing(path):
            remove(path, within)


@contextmanager
def _fast() -> Iterator[None]:
    """Set what slows down a report over 10,000 records; the output is the same.

    The garbage collector does not search existing objects, and pandas stores no texts in Arrow arrays. The thread that
    hands figures to the drawing process waits for Python's lock at most 0.5 ms, not 5 ms, in which nothing is drawn.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    gc.freeze()
    try:
        with pd.option_context("mode.string_storage", "python"):
            yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval)
