"""The command line, one file per command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
import traceback

import typer

from initbench.cli.describe import describe
from initbench.cli.list import list_components
from initbench.cli.options import debugging, start
from initbench.cli.plan import plan
from initbench.cli.report import report
from initbench.cli.run import run
from initbench.cli.sync import sync
from initbench.cli.ui import ui
from initbench.errors import InitbenchError

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    callback=start,
)
app.command("run")(run)
app.command("plan")(plan)
app.command("report")(report)
app.command("list")(list_components)
app.command("describe")(describe)
app.command("ui")(ui)
app.command("sync")(sync)


# Typer uses an installed click or its own copy of it, by version; this is the base of either's usage errors.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run the command line; a request that cannot be met is one line on stderr.

    Exit code 0: all trials finished or diverged; 1: some failed; 2: the request was wrong.
    """
    try:
        code = app(standalone_mode=False)
    except (InitbenchError, _UsageError) as error:
        if debugging():
            traceback.print_exception(error)
        else:
            message = getattr(error, "format_message", error.__str__)()
            typer.echo(f"initbench: {' '.join(message.split())}", err=True)
        sys.exit(2)
    if code:
        sys.exit(code)
