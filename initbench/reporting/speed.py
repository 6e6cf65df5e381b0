"""How a report over 10,000 records stays fast: Python looks for no garbage among them, and pandas takes texts quickly.

None of it changes what is written.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def set_aside() -> Iterator[None]:
    """Look for no garbage among all that there is, only among what comes to be meanwhile."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def texts_as_objects() -> Iterator[None]:
    """Let pandas keep texts as objects of Python and not of Arrow, of which taking rows and looking at each is slow."""
    with pd.option_context("mode.string_storage", "python"):
        yield
