"""What lies in the place of a store's file or of its artifacts: a suite's folder that was received may hold anything.

MLflow writes through links, and waits for a pipe without end.
"""

from __future__ import annotations

from pathlib import Path

from initbench.errors import InitbenchError
from initbench.files import check_readable, is_within

_LARGEST_STORE = 2**60  # SQLite reads of it what it needs


def leads_out(path: Path) -> bool:
    """Return whether a path is a link to something that is not in the path's folder."""
    return not is_within(path, path.parent)


def check_stays(path: Path) -> None:
    """Refuse a link that leads out of its folder."""
    if leads_out(path):
        raise InitbenchError(
            f"{path}: is a link that leads out of its folder, and nothing is written through it; remove the link"
        )


def check_regular(path: Path) -> None:
    """Refuse a store that is a pipe, a device or a folder."""
    try:
        check_readable(path, _LARGEST_STORE)
    except OSError as error:
        raise InitbenchError(f"{path}: {error.strerror}") from None
