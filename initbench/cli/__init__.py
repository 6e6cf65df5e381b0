"""The command line, one file per command; imported at first use, so that signal handlers are set before all else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from initbench.cli.command_line import app, main

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'initbench.cli' has no attribute {name!r}")
    from initbench.cli import command_line

    return getattr(command_line, name)
