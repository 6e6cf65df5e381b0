"""The record of a trial that did not come to a result. It loads no torch: whoever watches a trial writes it, too."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from typing import Any

from initbench.ledger import TrialRecord
from initbench.suite.spec import TrialSpec
from initbench.visible_text import cut, visible

# Limits that the suite sets: a trial that exceeds one is to blame itself, wherever it ran.
TIME_LIMIT, MEMORY_LIMIT = "TimeLimit", "MemoryLimit"
WORKER_LOST = "WorkerLost"
# Characters of what an exception says: it may hold a whole file.
_LONGEST_MESSAGE, _LONGEST_TRACEBACK = 2_000, 50_000


def failed_record(
    spec: TrialSpec, kind: str, message: str, trace: str = "", environment: Mapping[str, Any] | None = None
) -> TrialRecord:
    """Return the record of a trial that did not come to a result.

    Its message is one line. What message and traceback hold is made visible, and what is too long is cut.
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
    return platform.node()
