"""Importing heavy libraries while the driver waits for something else."""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module


def import_in_background(*modules: str) -> None:
    """Import modules in a thread: one core is idle while Ray starts its processes, and each of these takes seconds.

    Whoever needs a module imports it as usual, and is told there what is wrong with it. Not for modules of a package
    that the caller imports from meanwhile: of an import that goes in circles through two threads Python gives one of
    them the half of it.

    Args:
        modules: their names, in order.
    """

    def work() -> None:
        for module in modules:
            with suppress(Exception):
                import_module(module)

    threading.Thread(target=work, name="initbench-imports", daemon=True).start()
