"""The record of a failed trial. This module loads no torch, because processes that watch a trial use it too."""

import re
import time
from collections.abc import Mapping
from typing import Any

from initbench.ledger import TrialRecord
from initbench.suite.spec import TrialSpec
from initbench.visible_text import cut, visible

# Limits of the suite: a trial that exceeds one fails on every node.
TIME_LIMIT, MEMORY_LIMIT = "TimeLimit", "MemoryLimit"
WORKER_LOST = "WorkerLost"
OUT_OF_MEMORY = "OutOfMemoryError"  # of a GPU: the name of PyTorch's exception
_RAN_OUT = re.compile("out of memory|ALLOC_FAILED", re.IGNORECASE)  # of CUDA itself, cuBLAS and cuDNN
# Most characters of an exception's message, which may contain a whole file.
_LONGEST_MESSAGE, _LONGEST_TRACEBACK = 2_000, 50_000


def ran_out_of_memory(error: Mapping[str, str]) -> bool:
    """Return whether the memory of a trial's GPU did not suffice, by the error of its record."""
    return error["type"] == OUT_OF_MEMORY or (error["type"] != WORKER_LOST and bool(_RAN_OUT.search(error["message"])))


def failed_record(
    spec: TrialSpec, kind: str, message: str, trace: str = "", environment: Mapping[str, Any] | None = None
) -> TrialRecord:
    """Return the record of a failed trial.

    Its message is one line. Control characters in message and traceback are escaped, and long texts are cut.
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
