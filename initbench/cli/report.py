"""`initbench report DIR`: write the report of a suite's folder again."""

from __future__ import annotations

import typer

from initbench.cli.options import Debug, Json, SuiteFolder, print_json, suite_folder


def report(
    folder: SuiteFolder = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Write the report of a suite's folder: one offline HTML page, and CSV files."""
    from initbench.reporting.report import write_report

    page = write_report(suite_folder(folder))
    if json:
        print_json({"report": str(page), "files": sorted(str(path) for path in page.parent.iterdir())})
    else:
        typer.echo(f"report: {page}")
