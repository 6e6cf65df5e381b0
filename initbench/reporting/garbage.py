"""When Python does not look for garbage: there is none among records, and looking through 10,000 of them takes long."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
