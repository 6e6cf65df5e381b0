"""The report as text: Markdown for a pull request, LaTeX for a paper, JSON for other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from initbench import files
from initbench.errors import InitbenchError
from initbench.reporting.manifest import check_not_foreign
from initbench.reporting.notices import undrawn_notices
from initbench.reporting.page import json, latex, markdown
from initbench.reporting.report import contents_of, write_drawings

if TYPE_CHECKING:
    from initbench.reporting.results import Results

FORMATS = {"md": markdown.render_markdown, "latex": latex.render_latex, "json": json.render_json}
"""Name of a format → what renders it."""


@np.errstate(over="ignore")  # as in `write_report`
def text_of(results: Results, form: str) -> str:
    """Return the report as text.

    Args:
        results: as from `read_results`.
        form: one of `FORMATS`.
    """
    return FORMATS[form](contents_of(results))


def write_text(results: Results, file: str | Path, form: str) -> Path:
    """Write the report as text into a file, and return it.

    Args:
        results: as from `read_results`.
        file: that is written anew.
        form: one of `FORMATS`.

    Raises:
        InitbenchError: it cannot be written.
    """
    file = Path(file)
    text = text_of(results, form)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_dir():
            files.check_readable(file)  # no device is replaced, nor a pipe
        files.write_text(file, text, file.parent)
    except OSError as error:
        raise InitbenchError(f"{error.filename or file}: {error.strerror}") from error
    return file


@np.errstate(over="ignore")  # as in `write_report`
def write_markdown(results: Results, file: str | Path) -> Path:
    """Write the report as Markdown, its charts beside it in a folder of the file's name, and return the file.

    What stands above the line `markdown.MARK` in an existing file is kept: words that a person wrote about the numbers.
    A new file gets the suite's name and description there. Charts of an earlier writing that this one does not have are
    removed.

    Args:
        results: as from `read_results`.
        file: such as ``docs/results/quickstart.md``; its charts go to ``docs/results/quickstart/``.

    Raises:
        InitbenchError: the file exists and has no such line, so that it is none of ours; its name does not end in
            ``.md``; it cannot be read or written.
    """
    file = Path(file)
    if file.suffix != ".md":  # the charts' folder has the name without it
        raise InitbenchError(f"{file}: a Markdown file ends in .md")
    contents = contents_of(results)
    head = markdown.head(contents)
    figures = [figure for analysis in contents.analyses for figure in analysis.main_figures]
    images = file.with_suffix("")
    try:
        if file.exists():
            head, mark, _ = _text(file).partition(markdown.MARK)
            if not mark:
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
    """Return a file's text; nothing where it is no text."""
    try:
        return files.read_text(file)
    except ValueError:
        return ""
