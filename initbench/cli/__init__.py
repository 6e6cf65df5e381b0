"""The command line, one file per command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys

import typer

from initbench.cli.describe import describe
from initbench.cli.list import list_components
from initbench.cli.options import debugging, version
from initbench.cli.plan import plan
from initbench.cli.report import report
from initbench.cli.run import run
from initbench.cli.sync import sync
from initbench.cli.ui import ui

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    callback=version,
)
app.command("run")(run)
app.command("plan")(plan)
app.command("report")(report)
app.command("list")(list_components)
app.command("describe")(describe)
app.command("ui")(ui)
app.command("sync")(sync)


def main() -> None:
    """Run the command line: exit code 0 for all trials finished or diverged, 1 for some failed, 2 for a bad request."""
    from initbench.errors import InitbenchError

    try:
        app()
    except InitbenchError as error:
        if debugging():
            raise
        typer.echo(f"initbench: {error}", err=True)
        sys.exit(2)
