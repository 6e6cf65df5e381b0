"""The report as text: Markdown for a pull request, LaTeX for a paper, JSON for other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from initbench import files
from initbench.errors import InitbenchError
from initbench.reporting.manifest import check_not_foreign
from initbench.reporting.notices import undrawn_notices
from initbench.reporting.page import json, latex, markdown
from initbench.reporting.report import contents_of, write_drawings
from initbench.reporting.results import Results

FORMATS = {"md": markdown.render_markdown, "latex": latex.render_latex, "json": json.render_json}
"""Name of a format → the function that renders it."""


@np.errstate(over="ignore")  # as in `write_report`
def text_of(results: Results, form: str) -> str:
    """Return the report in a format of `FORMATS`."""
    return FORMATS[form](contents_of(results))


def write_text(results: Results, file: str | Path, form: str) -> Path:
    """Write the report in one of `FORMATS` into a file, and return the file."""
    file = Path(file)
    text = text_of(results, form)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_dir():
            files.check_readable(file)  # refuses to replace a device or a pipe
        files.write_text(file, text, file.parent)
    except OSError as error:
        raise InitbenchError(f"{error.filename or file}: {error.strerror}") from error
    return file


@np.errstate(over="ignore")  # as in `write_report`
def write_markdown(results: Results, file: str | Path) -> Path:
    """Write the report as Markdown, with its charts in a folder of the same name, and return the file.

    In an existing file, the text above the line `markdown.MARK` is kept, because a person may have edited it. In a new
    file, it is the suite's name and description. Charts of an earlier version that this one lacks are removed.

    The charts of ``docs/results/quickstart.md`` are in ``docs/results/quickstart/``.

    Raises:
        InitbenchError: the file exists and lacks the line, so no report wrote it; its name does not end in ``.md``; or
            it cannot be read or written.
    """
    file = Path(file)
    if file.suffix != ".md":  # the charts' folder has the name without the suffix
        raise InitbenchError(f"{file}: a Markdown file ends in .md")
    contents = contents_of(results)
    head = markdown.head(contents)
    figures = [figure for analysis in contents.analyses for figure in analysis.main_figures]
    images = file.with_suffix("")
    try:
        if file.exists():
            head, *below = markdown.MARKS.split(_text(file), maxsplit=1)
            if not below:
                raise InitbenchError(f"{file}: was not made by initbench report (it lacks the line {markdown.MARK})")
        files.check_within(images / "figure.svg", file.parent)
        for figure in figures:
            check_not_foreign(images / f"{figure.name}.svg")
        images.mkdir(parents=True, exist_ok=True)
        write_drawings(images, figures, file.parent)
        contents = replace(contents, notices=[*contents.notices, *undrawn_notices(figures)])
        files.write_text(file, head + markdown.MARK + "\n\n" + markdown.body(contents, images.name), file.parent)
    except OSError as error:
        raise InitbenchError(f"{error.filename or file}: {error.strerror}") from error
    return file


def _text(file: Path) -> str:
    """Return a file's text; empty if the file is not text."""
    try:
        return files.read_text(file)
    except ValueError:
        return ""
