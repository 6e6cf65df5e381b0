"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from initbench.cli.output import say, say_json
from initbench.cli.signals import begin_work
from initbench.errors import InitbenchError
from initbench.plugins import PluginFile

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
        import initbench

        say(initbench.__version__)
    elif context.invoked_subcommand is None:
        say(context.get_help(), keep="\n")
    else:
        if context.invoked_subcommand not in _BEGIN_THEMSELVES:
            begin_work()
        return
    raise typer.Exit


Debug = Annotated[bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SuiteFile = Annotated[str, typer.Argument(help="A suite file, such as suites/quickstart.yaml.", metavar="SUITE")]
SuiteFolder = Annotated[
    Path | None, typer.Argument(help="A suite's folder; default: the only one in ./runs.", metavar="DIR")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Override a key: --set recipe.epochs=1, --set architectures.width=1 in all of them.",
        metavar="KEY=VALUE",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Keep these trials alone: --only initializer=metainit,kaiming.", metavar="KEY=VALUES"),
]
Seeds = Annotated[
    int | None,
    typer.Option("--seeds", min=1, max=10_000, help="Number of seeds, in place of the suite's.", metavar="N"),
]
Smoke = Annotated[
    bool, typer.Option("--smoke", help="A few trials of two steps on random data instead: does all of it work?")
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the suites' folders.", metavar="DIR")]
Plugins = Annotated[
    list[str] | None, typer.Option("--plugin", help="A Python file that registers components.", metavar="FILE")
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        help="MLflow's; default: $MLFLOW_TRACKING_URI, else SQLite beside the ledger. All users of this machine see "
        "options in its list of processes, so give a secret by the variable.",
    ),
]


def console() -> Console:
    """Return a console for tables; where nobody looks at it (a pipe, a file) lines are not folded at 80 columns."""
    from initbench.cli.console import VisibleConsole

    return VisibleConsole(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 200)


def print_json(data: Any) -> None:
    say_json(json.dumps(data, indent=2, allow_nan=False, default=str) + "\n")


def load_plugins(paths: list[str] | None) -> tuple[PluginFile, ...]:
    """Import the files of ``--plugin`` and the installed plug-ins."""
    from initbench import plugins

    files = tuple(plugins.read_file(path) for path in paths or [])
    for file in files:
        plugins.load_file(file)
    plugins.load_entry_points()
    return files


def suite_folder(given: Path | None) -> Path:
    """Return the folder that a command is about: the one given, else the only one below ./runs."""
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
