"""`initbench report DIR ...`: write the report of one suite's folder again, or of several together."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from initbench.cli.options import Debug, Json, TrackingUri, print_json, suite_folder
from initbench.cli.output import say, say_json
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from initbench.reporting.results import Results
    from initbench.reporting.source import Source

_MLFLOW = "mlflow:"


class Format(StrEnum):
    html = "html"
    md = "md"
    latex = "latex"
    json = "json"


def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Suites' folders; default: the only one in ./runs.", metavar="DIR", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write: a folder for html (default for one DIR: DIR/report), else a file (default: stdout).",
            metavar="PATH",
        ),
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format", help="html: a page with tables and figures; md, latex: text for a pull request or a paper."
        ),
    ] = Format.html,
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
            help="The factors to compare, instead of the suite's: --compare initializer,architecture.norm.",
            metavar="FACTORS",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Write the report of one suite or several: one offline HTML page, with its tables as CSV and its figures as SVG.

    A record that cannot be read is named and left out; the exit code is then 1.
    """
    names = [_experiment(text) for text in experiments or []]
    given: list[Path] | list[None] = folders or ([] if names else [None])
    paths = [suite_folder(path) for path in given]
    if out is None and form is Format.html and (names or len(paths) > 1):
        what = "an MLflow experiment has no folder" if names else "several ledgers make one report"
        raise InitbenchError(f"{what}: give --out FOLDER")
    if json and form is not Format.html:
        raise InitbenchError(
            "--json lists the files of the html report; for the report itself as JSON give --format json"
        )
    from initbench.reporting.results import read_results

    factors = None if compare is None else [factor.strip() for factor in compare.split(",") if factor.strip()]
    results = read_results([*paths, *(_read_experiment(name, tracking_uri) for name in names)], factors)
    if form is Format.html:
        _write_html(results, out if out is not None else paths[0] / "report", json=json)
    else:
        _write_text(results, out, form)
    for line in results.source.skipped:
        say(f"skipped {line}", to_stderr=True)
    if results.source.skipped:
        sys.exit(1)


def _write_html(results: Results, out: Path, *, json: bool) -> None:
    from initbench.reporting.report import write_report

    written = write_report(results, out)
    if json:
        skipped = {"skipped": list(results.source.skipped)} if results.source.skipped else {}
        sentences = [str(sentence) for sentence in written.sentences]
        files = sorted(map(str, written.files))
        print_json({"report": str(written.page), "sentences": sentences, "files": files} | skipped)
        return
    for sentence in written.sentences:
        say(str(sentence))
    say(f"report: {written.page}")


def _write_text(results: Results, out: Path | None, form: Format) -> None:
    from initbench.reporting.text_report import text_of, write_markdown, write_text

    if out is None:
        text = text_of(results, form.value)
        if form is Format.json:
            say_json(text)
        else:
            say(text, keep="\n\t", end="")
    elif form is Format.md:
        say(f"report: {write_markdown(results, out)}")
    else:
        say(f"report: {write_text(results, out, form.value)}")


def _experiment(text: str) -> str:
    name = text.removeprefix(_MLFLOW)
    if name in {text, ""}:
        raise InitbenchError(f"--from {text}: write {_MLFLOW}EXPERIMENT, such as {_MLFLOW}quickstart")
    return name


def _read_experiment(name: str, tracking_uri: str | None) -> Source:
    from initbench.tracking.experiment import read_experiment
    from initbench.tracking.uri import resolve_tracking_uri

    # By default the store is beside the ledger that it was written from.
    return read_experiment(name, resolve_tracking_uri(Path("runs") / name, tracking_uri))
