"""`initbench report DIR`: write the report of a suite's folder again."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations at run time
from typing import Annotated

import typer

from initbench.cli.options import Debug, Json, SuiteFolder, print_json, suite_folder


def report(
    folder: SuiteFolder = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the tables and charts as Markdown into this file.", metavar="FILE"),
    ] = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Write the report of a suite's folder: one offline HTML page, and CSV files."""
    from initbench.reporting.report import write_markdown, write_report

    path = suite_folder(folder)
    page = write_report(path)
    written = None if markdown is None else write_markdown(path, markdown)
    if json:
        files = sorted(str(file) for file in page.parent.iterdir())
        print_json({"report": str(page), "files": files} | ({"markdown": str(written)} if written else {}))
        return
    typer.echo(f"report: {page}")
    if written:
        typer.echo(f"Markdown: {written}")
