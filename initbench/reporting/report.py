"""The report of one suite: a page and its tables, made from the ledger alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from initbench.errors import InitbenchError
from initbench.reporting.comparison import comparable_trials, compare
from initbench.reporting.contents import contents
from initbench.reporting.correlation import correlate
from initbench.reporting.frame import read_records, results_frame
from initbench.reporting.html import render
from initbench.reporting.markdown import MARK, render_markdown

if TYPE_CHECKING:
    import pandas as pd


def write_report(
    folder: str | Path, output: str | Path | None = None, title: str | None = None, description: str | None = None
) -> Path:
    """Write a suite's report and return its page; equal ledgers give equal files.

    Writes ``index.html``, ``results.csv`` (the frame of `load_results`), ``comparison.csv`` and ``correlation.csv``,
    each in place by an atomic rename.

    Args:
        folder: the suite's folder, ``runs/<suite name>``.
        output: where to write; ``<folder>/report`` by default.
        title: the page's heading; the suite's name by default.
        description: what the suite asks; by default that of ``<folder>/suite.yaml`` where it can be read.

    Raises:
        InitbenchError: the folder has no trial records, or one that cannot be read.
    """
    folder = Path(folder)
    tables, found = _read(folder)
    if title is None:
        title = _title(tables["results"])
    if description is None:
        description = _description(folder / "suite.yaml")
    page = render(found, title, description)
    output = Path(output) if output is not None else folder / "report"
    output.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        _write(output / f"{name}.csv", table.to_csv(index=False))
    _write(output / "index.html", page)
    return output / "index.html"


def write_markdown(folder: str | Path, file: str | Path) -> Path:
    """Write the report's tables as Markdown, its charts beside it in a folder of the file's name, and return the file.

    What stands above the line `markdown.MARK` in an existing file is kept: words that a person wrote about the
    numbers. A new file gets the suite's name and description there.

    Args:
        folder: the suite's folder.
        file: such as ``docs/results/quickstart.md``; its charts go to ``docs/results/quickstart/``.

    Raises:
        InitbenchError: the folder has no trial records, or one that cannot be read; the file exists and has no such
            line, so that it is none of ours; its name does not end in ``.md``; it cannot be read or written.
    """
    folder, file = Path(folder), Path(file)
    if file.suffix != ".md":  # the charts' folder has the name without it
        raise InitbenchError(f"{file}: a Markdown file ends in .md")
    tables, found = _read(folder)
    head = f"# {_title(tables['results'])}\n\n{_description(folder / 'suite.yaml')}\n\n"
    text, charts = render_markdown(found, quote(file.stem))
    try:
        if file.exists():
            head, mark, _ = file.read_text(encoding="utf-8").partition(MARK)
            if not mark:
                raise InitbenchError(f"{file}: was not made by initbench report (it lacks the line {MARK})")
        images = file.with_suffix("")
        images.mkdir(parents=True, exist_ok=True)
        for name, chart in charts.items():
            _write(images / name, chart)
        _write(file, head + MARK + "\n" + text)
    except OSError as error:
        raise InitbenchError(f"{error.filename or file}: {error.strerror}") from error
    return file


def _read(folder: Path) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Return the tables of a ledger by name, and what a report says of it."""
    records = read_records(folder)
    frame = results_frame(records)
    trials = comparable_trials(frame)
    comparison = compare(trials)
    correlation = correlate(comparison)
    tables = {"results": frame, "comparison": comparison, "correlation": correlation}
    return tables, contents(records, trials, comparison, correlation)


def _title(frame: pd.DataFrame) -> str:
    return ", ".join(sorted(set(frame["suite"])))


def _description(path: Path) -> str:
    """Return the suite file's description; a report needs none, so a file that cannot be read is no error."""
    try:
        suite: Any = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError):
        return ""
    description = suite.get("description") if isinstance(suite, dict) else None
    return description.strip() if isinstance(description, str) else ""


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
