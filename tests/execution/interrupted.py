"""Trials that are kept at chosen steps, and end there as if they had been killed; and folders that are anybody's."""

import json
import signal
from contextlib import contextmanager

from initbench.execution.checkpoints import CheckpointSettings, TrialCheckpoints
from initbench.execution.trial import run_trial

MARK_FILE = ".folder"


class Killed(BaseException):
    """In the place of a signal."""


class KilledAt(TrialCheckpoints):
    """Keeps the trial when it is asked for the n-th time, and ends it: 0 is before the first step, n after the n-th."""

    def __init__(self, settings, trial_id, nth):
        super().__init__(settings, trial_id, "cpu")
        self.nth = nth
        self.asked = -1

    def due(self, epoch=None, *, last=False):
        self.asked += 1
        return self.asked == self.nth or super().due(epoch, last=last)

    def save(self, run):
        super().save(run)
        if self.asked == self.nth:
            raise Killed


def settings(folder, **given):
    """The settings of a driver that has made the folder."""
    folder.mkdir(exist_ok=True)
    (folder / MARK_FILE).write_text("this one", encoding="ascii")
    never = {} if "every_epochs" in given else {"every_seconds": 1e9}
    return CheckpointSettings(str(folder), "this one", **never | given)


def run_killed(spec, kept, *nth, on_epoch=None):
    """Run a trial that is killed so many steps after it begins, and after it goes on, and on; return its record."""
    for n in nth:
        try:
            run_trial(spec, on_epoch, checkpoints=KilledAt(kept, spec.id, n))
        except Killed:
            continue
        raise AssertionError(f"it ended before it was asked {n} times")
    checkpoints = TrialCheckpoints(kept, spec.id, "cpu", tell=fail)
    record = run_trial(spec, on_epoch, checkpoints=checkpoints)
    assert (checkpoints.state is not None) == bool(nth)
    return record


def fail(message):
    raise AssertionError(message)


def numbers(record):
    """What of a record is bitwise reproducible, as it stands in the ledger."""
    return json.dumps(record.numbers(), sort_keys=True)


class HangsError(BaseException):
    """It waits for what does not come."""


@contextmanager
def seconds(limit):
    """End what takes longer, such as reading a pipe that nobody writes to."""

    def end(*_):
        raise HangsError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def contents(folder):
    """Everything in a folder, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def precious(folder):
    """Make a folder in which somebody keeps files; return it and what is in it."""
    (folder / "sub").mkdir(parents=True)
    for name in ("thesis.tex", ".hidden", "id_rsa", "half.part", "sub/photo.jpg"):
        (folder / name).write_text("précieux", encoding="utf-8")
    return folder, contents(folder)
