"""The record of a trial that did not come to a result. It loads no torch: whoever watches a trial writes it, too."""

from __future__ import annotations

import platform
import time
from typing import TYPE_CHECKING, Any

from initbench.ledger import TrialRecord
from initbench.visible_text import cut, visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.suite.spec import TrialSpec

# Limits that the suite sets: a trial that exceeds one is to blame itself, wherever it ran.
TIME_LIMIT, MEMORY_LIMIT = "TimeLimit", "MemoryLimit"
WORKER_LOST = "WorkerLost"
# Characters of what an exception says: it may hold a whole file.
_LONGEST_MESSAGE, _LONGEST_TRACEBACK = 2_000, 50_000


def failed_record(
    spec: TrialSpec, kind: str, message: str, trace: str = "", environment: Mapping[str, Any] | None = None
) -> TrialRecord:
    """Return the record of a trial that did not come to a result.

    Args:
        spec: what was to run.
        kind: the exception's type, or ``WorkerLost``, ``TimeLimit``, ``MemoryLimit``.
        message: its message, one line. Whatever it holds is made visible, and what is too long is cut.
        trace: its traceback, likewise.
        environment: where it was to run, as far as that is known.
    """
    error = {
        "type": visible(kind),
        "message": visible(cut(message, _LONGEST_MESSAGE)),
        "traceback": visible(cut(trace, _LONGEST_TRACEBACK), keep="\n\t"),
    }
    return TrialRecord(
        id=spec.id,
        spec=spec.model_dump(mode="json"),
        identity=spec.identity,
        status="failed",
        environment=dict(environment or {}),
        timing={"ended_at": time.time()},
        error=error,
    )


def host() -> str:
    """Return the name of this machine."""
    return platform.node()
