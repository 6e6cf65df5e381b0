"""What a trial's process tells its worker; not in `trial_child`, because pickle would name that ``__main__``."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """How a trial ended, and in which state it left the process."""

    record: str  # as JSON
    is_broken: bool = False  # the device no longer computes in this process
    was_crowded_out: bool = False  # memory ran out on a shared GPU, and the trial had not used its share
    has_left_processes: bool = False
