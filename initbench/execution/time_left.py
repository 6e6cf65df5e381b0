"""The remaining time of a sweep, estimated from its finished trials."""

import time
from collections import defaultdict
from statistics import mean

from initbench.suite.spec import TrialSpec


class TimeLeft:
    """An estimate of the seconds until all trials have ended.

    A trial is expected to take the mean time of the finished trials of its architecture and initializer, else of its
    architecture, else of all. The sum over the remaining trials, less the finished part of running ones, is divided by
    the number of trials that run at the same time.
    """

    def __init__(self, missing: tuple[TrialSpec, ...]) -> None:
        self.left = {trial.id: _keys(trial) for trial in missing}
        self.lasted: dict[str, list[float]] = defaultdict(list)
        self.running: dict[str, float] = {}
        self.fractions: dict[str, float] = {}
        self.at_a_time = 1

    def started(self, trial_id: str) -> None:
        self.running[trial_id] = time.monotonic()
        self.at_a_time = max(self.at_a_time, len(self.running))

    def finished(self, trial_id: str) -> float:
        """Note that a trial has ended; return its seconds."""
        seconds = time.monotonic() - self.running.pop(trial_id, time.monotonic())
        for key in self.left.pop(trial_id):
            self.lasted[key].append(seconds)
        return seconds

    def seconds(self) -> float | None:
        """Return the estimate; None before the first trial has ended or reported progress."""
        now = time.monotonic()
        means = {key: mean(seconds) for key, seconds in self.lasted.items()}
        total = 0.0
        for trial_id, keys in self.left.items():
            begun, fraction = self.running.get(trial_id), self.fractions.get(trial_id, 0.0)
            expected = next((means[key] for key in keys if key in means), None)
            if expected is None:
                told = [(now - self.running[i]) / f for i, f in self.fractions.items() if f > 0 and i in self.running]
                if not told:
                    return None
                expected = mean(told)
            done = 0.0 if begun is None else max(now - begun, fraction * expected)
            total += max(expected - done, 0.0)
        return total / self.at_a_time


def _keys(spec: TrialSpec) -> tuple[str, str, str]:
    architecture = spec.architecture.model_dump_json()
    return architecture + spec.initializer.model_dump_json(), architecture, ""
