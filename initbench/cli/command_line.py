"""The commands, and how their errors are reported. Heavy modules are imported only when a command needs them."""

import errno
import sys
import traceback
from typing import cast

import typer

from initbench.cli.audit import audit
from initbench.cli.check import check
from initbench.cli.describe import describe
from initbench.cli.diff import diff
from initbench.cli.list import list_components
from initbench.cli.new_plugin import new_plugin
from initbench.cli.options import debugging, start
from initbench.cli.output import say, standard_streams
from initbench.cli.plan import plan
from initbench.cli.report import report
from initbench.cli.retry import retry
from initbench.cli.run import run
from initbench.cli.signals import interrupted
from initbench.cli.status import status
from initbench.cli.sync import sync
from initbench.cli.ui import ui
from initbench.errors import InitbenchError
from initbench.extras import installation

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich imports a Markdown parser and a highlighter, half of its time
    context_settings={"help_option_names": ["-h", "--help"]},
    callback=start,
)
app.command("run", short_help="Run a suite's missing trials and write the report.")(run)
app.command("plan", short_help="Print the trials of a suite before they run.")(plan)
app.command("status", short_help="Show the progress of a suite's run.")(status)
app.command("retry", short_help="Run the trials of a suite's folder that have no result.")(retry)
app.command("report", short_help="Write the report of one suite's folder or several.")(report)
app.command("list", short_help="List the components with their arguments.")(list_components)
app.command("describe", short_help="Describe one component: arguments, reference, an example.")(describe)
app.command("audit", short_help="Show what each tensor of a model really holds.")(audit)
app.command("diff", short_help="Compare the laws from which two models start.")(diff)
app.command("check", short_help="Say whether a model starts sane, without training.")(check)
app.command("ui", short_help="Serve MLflow's user interface for a suite's runs.")(ui)
app.command("sync", short_help="Write the records that MLflow lacks to MLflow.")(sync)
app.command("new-plugin", short_help="Write a plug-in package to start from.")(new_plugin)


# Typer exports one of click's errors; depending on its version, it uses an installed click or a copy of its own.
_UsageError = cast("type[Exception]", typer.BadParameter.__base__)
_OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}


def main() -> None:
    """Run the command line; an invalid request is reported as one line on stderr.

    Exit code 0: success; 1: trials failed or are missing, files of a folder were skipped, a check found what --fail-on
    names, or a fault of initbench itself; 2: the request was invalid, or the output could not be written; 130 or 143:
    Ctrl-C or SIGTERM.
    """
    with standard_streams():
        if code := _run():
            sys.exit(code)


def _run() -> int:
    try:
        return int(app(standalone_mode=False) or 0)
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        if debugging():
            say("".join(traceback.format_exception(error)), to_stderr=True, keep="\n\t", end="")
        else:
            say(f"initbench: {' '.join(message.split())}", to_stderr=True)
        return 2


def _message(error: Exception) -> str | None:
    """Return the line that describes an error, or None if it is a fault of the library, which needs a traceback."""
    if isinstance(error, InitbenchError | _UsageError):
        return str(getattr(error, "format_message", error.__str__)())
    if line := installation(error):
        return f"this command needs {line}"
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE and not debugging():
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    if interrupted():
        return f"interrupted, and then {type(error).__name__}: {error}"
    return None
