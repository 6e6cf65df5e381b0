"""`initbench report DIR ...`: write the report of one suite's folder again, or of several together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from initbench.cli.options import Debug, Json, TrackingUri, print_json, suite_folder
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from initbench.reporting.source import Source

_MLFLOW = "mlflow:"


def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Suites' folders; default: the only one in ./runs.", metavar="[DIR]...", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where to write; default, for one DIR: DIR/report.", metavar="FOLDER"),
    ] = None,
    experiments: Annotated[
        list[str] | None,
        typer.Option(
            "--from", help="Read an MLflow experiment that run or sync wrote: --from mlflow:depth.", metavar="SOURCE"
        ),
    ] = None,
    tracking_uri: TrackingUri = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            help="What is compared, in place of what the suite says: --compare initializer,architecture.norm.",
            metavar="FACTORS",
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option("--markdown", help="Write the tables and charts as Markdown into this file.", metavar="FILE"),
    ] = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Write the report of one suite or several: one offline HTML page, with its tables as CSV and its figures as SVG.

    A record that cannot be read is named and left out, and the exit code is then 1.
    """
    names = [_experiment(text) for text in experiments or []]
    given: list[Path] | list[None] = folders or ([] if names else [None])
    paths = [suite_folder(path) for path in given]
    if out is None and (names or len(paths) > 1):
        what = "an MLflow experiment has no folder" if names else "several ledgers make one report"
        raise InitbenchError(f"{what}: say where to write it, with --out FOLDER")
    from initbench.reporting.report import read_source, write_files, write_markdown

    factors = None if compare is None else [factor.strip() for factor in compare.split(",") if factor.strip()]
    source = read_source([*paths, *(_read_experiment(name, tracking_uri) for name in names)], factors)
    files = write_files(source, out if out is not None else paths[0] / "report")
    page = files[0]
    written = None if markdown is None else write_markdown(source, markdown)
    if json:
        skipped = {"skipped": list(source.skipped)} if source.skipped else {}
        print_json(
            {"report": str(page), "files": sorted(map(str, files))}
            | ({"markdown": str(written)} if written else {})
            | skipped
        )
    else:
        typer.echo(f"report: {page}")
        if written:
            typer.echo(f"Markdown: {written}")
    for line in source.skipped:
        typer.echo(f"skipped {line}", err=True)
    if source.skipped:
        sys.exit(1)


def _experiment(text: str) -> str:
    """Return the name in ``mlflow:NAME``.

    Raises:
        InitbenchError: it has another form.
    """
    name = text.removeprefix(_MLFLOW)
    if name in {text, ""}:
        raise InitbenchError(f"--from {text}: write {_MLFLOW}EXPERIMENT, such as {_MLFLOW}quickstart")
    return name


def _read_experiment(name: str, tracking_uri: str | None) -> Source:
    from initbench.tracking.experiment import read_experiment
    from initbench.tracking.uri import resolve_tracking_uri

    # Where nothing else is said, the store lies beside the ledger that it was written from.
    return read_experiment(name, resolve_tracking_uri(Path("runs") / name, tracking_uri))
