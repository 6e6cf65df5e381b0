"""The folder of a suite's checkpoints, as the driver keeps it: made, said, and emptied of what has a result."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from initbench.execution.checkpoint_size import largest_checkpoint, sentence
from initbench.execution.checkpoints import MARK_FILE, CheckpointSettings
from initbench.reporting.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.suite.load import Suite
    from initbench.suite.schema import Checkpoints
    from initbench.suite.spec import TrialSpec

_RESULTS = {"finished", "diverged"}
# Bytes of a checkpoint from which on a run says what they take.
_LARGE = 100_000_000


class CheckpointFolder:
    """A folder with one folder for each trial under way.

    Args:
        asked: what the suite asks for.
        settings: what workers are told.
    """

    def __init__(self, asked: Checkpoints, settings: CheckpointSettings) -> None:
        self.asked = asked
        self.settings = settings
        self.folder = Path(settings.folder)

    @classmethod
    def of(cls, suite: Suite, ledger: Path) -> CheckpointFolder | None:
        """Return the folder that a suite asks for, None where it asks for none. Nothing is written yet.

        Args:
            suite: whose trials run.
            ledger: the suite's folder, where checkpoints are where the suite does not say.
        """
        asked = suite.checkpoints
        if asked is None:
            return None
        folder = ledger / "checkpoints" if asked.folder is None else Path(asked.folder).expanduser() / suite.name
        folder = folder.absolute()
        settings = CheckpointSettings(
            folder=str(folder),
            mark=_mark(folder),
            every_epochs=asked.every_epochs,
            every_seconds=asked.every_seconds,
            keep=suite.keep_checkpoints,
        )
        return cls(asked, settings)

    def open(self, missing: Sequence[TrialSpec], records: Mapping[str, TrialRecord]) -> list[str]:
        """Make the folder, remove what is left of trials that have a result, and return what the user should know.

        Args:
            missing: the trials that run now.
            records: of the ledger, by trial.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / MARK_FILE).write_text(self.settings.mark, encoding="ascii")
        except OSError as error:
            return [f"checkpoints: {self.folder}: {error.strerror}; a trial that is killed starts again"]
        for record in records.values():
            self.ended(record)
        going_on = sum(any((self.folder / trial.id).glob("step-*.pt")) for trial in missing)
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
        if record.status in _RESULTS and self.settings.keep == "none":
            shutil.rmtree(self.folder / record.id, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder where nothing is in it."""
        with suppress(OSError):
            if all(path.name == MARK_FILE for path in self.folder.iterdir()):
                (self.folder / MARK_FILE).unlink()
                self.folder.rmdir()


def _mark(folder: Path) -> str:
    """Return what tells this folder from another one at the same path of another machine."""
    with suppress(OSError, ValueError):
        known = (folder / MARK_FILE).read_text(encoding="ascii")
        if known:
            return known
    return secrets.token_hex(16)
