"""What the process of trials tells its worker about a trial; without torch, which the worker does not load."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """How a trial ended, and in which state it left the process."""

    record: str  # as JSON
    is_broken: bool = False  # the device no longer computes in this process
    was_crowded_out: bool = False  # memory ran out on a shared GPU, and the trial had not used its share
    has_left_processes: bool = False
