"""Stops a sweep in which every trial fails with the same error, such as one whose only GPU is broken."""

import re

_TRIALS = 20


class Breaker:
    """Counts trials in a row that failed for good with the same error; a success anywhere starts the count anew.

    A failure counts only if the trial was the first of its process. A process that has already run other trials shows
    that the machine works.
    """

    def __init__(self) -> None:
        self._error = ""
        self._trials: set[str] = set()

    @property
    def reason(self) -> str:
        """Why the sweep must stop, in one line; empty if it need not."""
        if len(self._trials) < _TRIALS:
            return ""
        return f"{_TRIALS} trials in a row failed with the same error, each in a fresh process: {self._error}"

    def succeeded(self) -> None:
        self._trials.clear()

    def failed(self, trial: str, error: str, *, was_fresh: bool) -> None:
        if _without_numbers(error) != _without_numbers(self._error) or not was_fresh:
            self._trials.clear()
        self._error = error
        if was_fresh:
            self._trials.add(trial)


def _without_numbers(error: str) -> str:
    """Leave out process ids, sizes and addresses, which differ from failure to failure."""
    return re.sub(r"(0x)?\d[\da-f.]*", "", error)
