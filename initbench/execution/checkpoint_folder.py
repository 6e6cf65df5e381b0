"""The folder of a suite's checkpoints: the driver creates it, empties it of finished trials, and reports its size."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from initbench.comparing.formatting import counted
from initbench.execution.checkpoints import CHECKPOINT, PART, CheckpointSettings
from initbench.execution.marked_folder import MarkedFolder, files_named
from initbench.files import remove
from initbench.ledger import TrialRecord
from initbench.registry import ARCHITECTURES
from initbench.suite.load import Suite
from initbench.suite.schema import Checkpoints
from initbench.suite.spec import TrialSpec

# Bytes of a checkpoint above which a run reports their size.
_LARGE = 100_000_000
# Moments of each optimizer, each as large as the parameters; `sgd` without momentum has none.
_MOMENTS = {"sgd": 1, "signsgd": 1, "adam": 2, "adamw": 2}
_FLOAT_BYTES = 4


class CheckpointFolder:
    def __init__(self, suite: Suite, asked: Checkpoints, ledger: Path) -> None:
        # Unlike `Path.expanduser` it keeps the home of an unknown user as written.
        above = ledger if asked.folder is None else Path(os.path.expanduser(asked.folder))  # noqa: PTH111
        self.asked = asked
        self.marked = MarkedFolder.at((above / ("checkpoints" if asked.folder is None else suite.name)).absolute())
        self.folder = self.marked.path
        self.settings = CheckpointSettings(
            str(self.folder), self.marked.mark, asked.every_epochs, asked.every_seconds, suite.keep_checkpoints
        )

    def open(self, missing: Sequence[TrialSpec], records: Mapping[str, TrialRecord]) -> list[str]:
        """Make the folder, remove files of trials that have a result, and return notes for the user."""
        try:
            self.marked.make(parents=self.asked.folder is not None)
        except OSError as error:
            return [f"checkpoints: {self.folder}: {error.strerror}; killed trials start again from the beginning"]
        for record in records.values():
            self.ended(record)
        going_on = sum(bool(files_named(self.folder / trial.id, CHECKPOINT)) for trial in missing)
        notes = []
        largest = largest_checkpoint(missing)
        if largest is not None and largest >= _LARGE:
            notes.append(f"{sentence(self.asked, largest)} (in {self.folder})")
        if going_on:
            go = "goes" if going_on == 1 else "go"
            notes.append(f"{counted(going_on, 'trial')} {go} on from a checkpoint in {self.folder}")
        return notes

    def ended(self, record: TrialRecord) -> None:
        """Remove the checkpoints of a trial with a result in the ledger, unless they are kept."""
        folder = self.folder / record.id
        if record.status == "failed" or self.settings.keep != "none" or not folder.is_dir():
            return
        if self.marked.is_there():
            with suppress(OSError):
                for path in (*files_named(folder, CHECKPOINT), *files_named(folder, PART)):
                    remove(path, self.folder)
                folder.rmdir()

    def close(self) -> None:
        self.marked.remove_if_empty()


def checkpoint_bytes(trial: TrialSpec) -> int | None:
    """Return the approximate size of a trial's checkpoint: parameters, buffers and moments; None if it is unknown.

    The parts of a scheme, the random streams and the history, some tens of kilobytes, are left out.
    """
    from initbench.architectures.size import model_size

    component = ARCHITECTURES.get(trial.architecture.name)
    try:
        arguments = component.resolve(trial.architecture.arguments)
        inputs, outputs = trial.dataset.inputs, trial.dataset.outputs
        assert inputs is not None
        size = model_size(component, arguments, inputs=inputs, outputs=outputs)
    except Exception:  # noqa: BLE001  # an architecture may not be made for the meta device; the trial runs all the same
        return None
    recipe = trial.recipe
    moments = 0 if recipe.optimizer == "sgd" and not recipe.momentum else _MOMENTS[recipe.optimizer]
    return size.bytes + moments * _FLOAT_BYTES * size.parameters


def largest_checkpoint(trials: Iterable[TrialSpec]) -> int | None:
    kinds = {
        (t.architecture.model_dump_json(), t.dataset.model_dump_json(), t.recipe.optimizer, t.recipe.momentum > 0): t
        for t in trials
    }
    known = [size for trial in kinds.values() if (size := checkpoint_bytes(trial)) is not None]
    return max(known, default=None)


def sentence(asked: Checkpoints, largest: int | None) -> str:
    if asked.every_epochs is not None:
        every = "epoch" if asked.every_epochs == 1 else f"{asked.every_epochs} epochs"
    else:
        minutes = (asked.every_seconds or 0) / 60
        every = "minute" if minutes == 1 else f"{minutes:g} minutes"
    takes = "" if largest is None else f", up to {_size(largest)} each"
    return f"a checkpoint every {every} of a trial{takes}; one per running trial, two while one is written"


def _size(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} bytes"
