"""The folder of a suite's checkpoints, as the driver keeps it: made, said, and emptied of what has a result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from initbench.comparing.formatting import counted
from initbench.execution.checkpoint_size import largest_checkpoint, sentence
from initbench.execution.checkpoints import CHECKPOINT, PART, CheckpointSettings
from initbench.execution.marked_folder import MarkedFolder, files_named
from initbench.files import remove
from initbench.ledger import TrialRecord
from initbench.suite.load import Suite
from initbench.suite.schema import Checkpoints
from initbench.suite.spec import TrialSpec

_RESULTS = {"finished", "diverged"}
# Bytes of a checkpoint from which on a run says what they take.
_LARGE = 100_000_000


class CheckpointFolder:
    """A folder with one folder for each trial under way."""

    def __init__(self, asked: Checkpoints, settings: CheckpointSettings) -> None:
        self.asked = asked
        self.settings = settings
        self.folder = Path(settings.folder)
        self.marked = MarkedFolder(self.folder, settings.mark)

    @classmethod
    def of(cls, suite: Suite, ledger: Path) -> CheckpointFolder | None:
        """Return the folder that a suite asks for, None if it asks for none. Nothing is written yet."""
        asked = suite.checkpoints
        if asked is None:
            return None
        # Unlike `Path.expanduser` it leaves the home of a user who does not exist as it is written.
        above = ledger if asked.folder is None else Path(os.path.expanduser(asked.folder))  # noqa: PTH111
        marked = MarkedFolder.at((above / ("checkpoints" if asked.folder is None else suite.name)).absolute())
        settings = CheckpointSettings(
            folder=str(marked.path),
            mark=marked.mark,
            every_epochs=asked.every_epochs,
            every_seconds=asked.every_seconds,
            keep=suite.keep_checkpoints,
        )
        return cls(asked, settings)

    def open(self, missing: Sequence[TrialSpec], records: Mapping[str, TrialRecord]) -> list[str]:
        """Make the folder, remove what is left of trials that have a result, and return what the user should know."""
        try:
            self.marked.make(parents=self.asked.folder is not None)
        except OSError as error:
            return [f"checkpoints: {self.folder}: {error.strerror}; a trial that is killed starts again"]
        for record in records.values():
            self.ended(record)
        going_on = sum(bool(files_named(self.folder / trial.id, CHECKPOINT)) for trial in missing)
        notes = []
        largest = largest_checkpoint(missing)
        if largest is not None and largest >= _LARGE:
            notes.append(f"{sentence(self.asked, largest)} (in {self.folder})")
        go = "goes" if going_on == 1 else "go"
        if going_on:
            notes.append(f"{counted(going_on, 'trial')} {go} on from a checkpoint in {self.folder}")
        return notes

    def ended(self, record: TrialRecord) -> None:
        """Remove the checkpoints of a trial whose record is in the ledger, if it is a result and they are not kept."""
        folder = self.folder / record.id
        if record.status not in _RESULTS or self.settings.keep != "none" or not folder.is_dir():
            return
        if self.marked.is_there():
            with suppress(OSError):
                for path in (*files_named(folder, CHECKPOINT), *files_named(folder, PART)):
                    remove(path, self.folder)
                folder.rmdir()

    def close(self) -> None:
        self.marked.remove_if_empty()
