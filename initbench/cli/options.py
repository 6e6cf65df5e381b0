"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import initbench
from initbench import plugins
from initbench.cli.output import say, say_json
from initbench.cli.signals import begin_work
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from rich.console import Console

_state = {"debug": False}
_BEGIN_THEMSELVES = ("run", "retry")  # until the driver is at work there is nothing to be ended in order


def _set_debug(value: bool) -> bool:
    _state["debug"] = value
    return value


def debugging() -> bool:
    return _state["debug"]


def start(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Benchmark neural-network initialization methods."""
    if show_version:
        say(initbench.__version__)
    elif context.invoked_subcommand is None:
        say(context.get_help(), keep="\n")
    else:
        if context.invoked_subcommand not in _BEGIN_THEMSELVES:
            begin_work()
        return
    raise typer.Exit


Debug = Annotated[bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SuiteFile = Annotated[str, typer.Argument(help="A suite file, such as suites/quickstart.yaml.", metavar="SUITE")]
SuiteFolder = Annotated[
    Path | None, typer.Argument(help="A suite's folder; default: the only one in ./runs.", metavar="DIR")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override a key of the suite: --set recipe.epochs=1; --set architectures.width=1 for all architectures.",
        metavar="KEY=VALUE",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Select trials: --only initializer=metainit,kaiming.", metavar="KEY=VALUES"),
]
Seeds = Annotated[
    int | None,
    typer.Option(min=1, max=10_000, help="Number of seeds, instead of the suite's.", metavar="N"),
]
Smoke = Annotated[
    bool,
    typer.Option(
        "--smoke", help="Replace the trials by a few of two steps on random data, to check that every part works."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder that contains the suites' folders.", metavar="DIR")]
Plugins = Annotated[
    list[str] | None, typer.Option("--plugin", help="A Python file that registers components.", metavar="FILE")
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        help="URI of MLflow; default: $MLFLOW_TRACKING_URI, else a SQLite file beside the ledger. All users of this "
        "machine can see options in the list of processes, so pass secrets in the variable.",
        metavar="URI",
    ),
]


def console() -> Console:
    """Return a console for tables; in a pipe or file, lines are not folded at 80 columns."""
    from initbench.cli.console import VisibleConsole

    return VisibleConsole(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 200)


def print_json(data: Any) -> None:
    say_json(json.dumps(data, indent=2, allow_nan=False, default=str) + "\n")


def load_plugins(paths: list[str] | None) -> tuple[plugins.PluginFile, ...]:
    files = tuple(plugins.read_file(path) for path in paths or [])
    for file in files:
        plugins.load_file(file)
    plugins.load_entry_points()
    return files


def suite_folder(given: Path | None) -> Path:
    """Return the folder that a command works on: the given one, else the only one in ./runs."""
    if given is None:
        folders = sorted(path.parent for path in Path("runs").glob("*/trials"))
        if len(folders) != 1:
            names = ", ".join(str(path) for path in folders[:10])
            raise InitbenchError(
                f"which suite's folder? {f'there are {names}' if folders else 'there is none in ./runs'}"
            )
        return folders[0]
    if not (given / "trials").is_dir():
        below = sorted(str(path.parent) for path in given.glob("*/trials"))
        hint = f"; did you mean {below[0]}?" if below else "; give a suite's folder, such as runs/quickstart"
        raise InitbenchError(f"{given}: has no trials{hint}")
    return given
