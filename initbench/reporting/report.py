"""The report of one suite: a page and its tables, made from the ledger alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from initbench.reporting.comparison import comparable_trials, compare
from initbench.reporting.correlation import correlate
from initbench.reporting.frame import read_records, results_frame
from initbench.reporting.html import render


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
    records = read_records(folder)
    frame = results_frame(records)
    trials = comparable_trials(frame)
    comparison = compare(trials)
    correlation = correlate(comparison)
    if title is None:
        title = ", ".join(sorted(set(frame["suite"])))
    if description is None:
        description = _description(folder / "suite.yaml")
    page = render(records, trials, comparison, correlation, title, description)
    output = Path(output) if output is not None else folder / "report"
    output.mkdir(parents=True, exist_ok=True)
    for name, table in {"results": frame, "comparison": comparison, "correlation": correlation}.items():
        _write(output / f"{name}.csv", table.to_csv(index=False))
    _write(output / "index.html", page)
    return output / "index.html"


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
