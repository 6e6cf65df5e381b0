"""What the process of trials sends to its worker. This module loads no torch, because the worker does not."""

from typing import Any, NamedTuple


class Ready(NamedTuple):
    environment: dict[str, Any]
    process: int
    gpu: str  # its UUID; empty without a GPU


class Outcome(NamedTuple):
    """How a trial ended, and in which state it left the process."""

    record: str  # as JSON
    is_broken: bool = False  # the device no longer computes in this process
    was_crowded_out: bool = False  # memory ran out on a shared GPU, and the trial had not used its share
    has_left_processes: bool = False
