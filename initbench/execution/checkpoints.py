"""The checkpoints of a trial, in the worker that runs it: written whole or not at all, and read with suspicion.

``<folder>/<trial id>/step-<steps>-<SHA-256 of the file>.pt``: the name says which bytes must be in it, since PyTorch
does not check those that it reads. A file gets its name when it is whole and on the disk; only then its predecessor
goes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from initbench.execution.environment import differences, environment
from initbench.plugins import first_line
from initbench.training.checkpoint import CheckpointError, training_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from initbench.training.run import TrainingRun

FORMAT = 1
"""Raised when a checkpoint's content changes; one of another format is not gone on from."""
MARK_FILE = ".folder"
"""Says which folder it is, so that a worker elsewhere can tell whether the same path is the same folder."""
# Writing checkpoints by time takes at most one part in so many of the time of training.
_WRITING_SHARE = 20
_NAME = re.compile(r"step-(\d+)-([0-9a-f]{64})\.pt")
_PART = ".part"


@dataclass(frozen=True)
class CheckpointSettings:
    """When trials are kept, and where; it is no part of their identity.

    Attributes:
        folder: of all trials of a suite, an absolute path; the driver has made it.
        mark: what its file `MARK_FILE` says.
        every_epochs: epochs between checkpoints; None to go by time.
        every_seconds: seconds between them; None to go by epochs.
        keep: ``last`` also keeps the network as it is after the last step.
    """

    folder: str
    mark: str
    every_epochs: int | None = None
    every_seconds: float | None = None
    keep: Literal["none", "last"] = "none"


class TrialCheckpoints:
    """The checkpoints of one trial; its clock starts here.

    Args:
        settings: when and where.
        trial_id: the trial's.
        device: where it runs.
        tell: is told, in one line, what a user should know of the trial's checkpoints; None to tell nobody.

    Attributes:
        before: what came before training, as plain data; `load` reads it, and `save` writes what is put here.
        state: the state of the training run to go on from; None to start at the beginning.
    """

    def __init__(
        self, settings: CheckpointSettings, trial_id: str, device: str, tell: Callable[[str], None] | None = None
    ) -> None:
        self.settings = settings
        self.trial_id = trial_id
        self.folder = Path(settings.folder) / trial_id
        self.device = device
        self.tell = tell or (lambda _: None)
        self.before: dict[str, Any] = {}
        self.state: dict[str, Any] | None = None
        self.reachable = True
        self._begun = self._last = time.monotonic()
        self._cost = 0.0
        # Of the attempts before this one, up to the checkpoint that it goes on from.
        self._spent = 0.0
        self._steps = 0

    def load(self) -> None:
        """Look for a checkpoint to go on from; what cannot be used is told and passed over."""
        problem = self._problem()
        if problem is not None:
            self.reachable = False
            self.tell(f"checkpoints: {platform.node()} {problem}; a trial that is killed there begins again")
            return
        if not self.folder.is_dir():
            return
        with suppress(OSError):
            for path in self.folder.glob(f"*{_PART}"):  # of a writer that was killed
                path.unlink(missing_ok=True)
        for path in sorted(self._files(), key=_steps, reverse=True):
            try:
                content = self._read(path)
                self.before, self._spent = json.loads(content["before"]), float(content["seconds"])
                self._steps, self.state = _steps(path), content["training"]
            except CheckpointError as error:
                self._ignored(path, str(error))
            except Exception as error:  # noqa: BLE001  # a file may hold anything
                self._ignored(path, f"it cannot be read: {type(error).__name__}: {first_line(error)}")
            else:
                return

    def discard(self, error: CheckpointError) -> None:
        """Say that what was loaded does not fit; the trial starts again."""
        self._ignored(self.folder, str(error))
        self.before, self.state = {}, None

    def due(self, epoch: int | None = None, *, last: bool = False) -> bool:
        """See `initbench.training.checkpoint.Checkpoints`."""
        settings = self.settings
        if not self.reachable:
            return False
        if last:
            return settings.keep == "last"
        if settings.every_epochs is not None:
            return epoch is not None and epoch % settings.every_epochs == 0
        assert settings.every_seconds is not None
        return time.monotonic() - self._last >= max(settings.every_seconds, _WRITING_SHARE * self._cost)

    def save(self, run: TrainingRun) -> None:
        """Keep a training run; where that cannot be done it is told, and what was kept before stays."""
        begun = time.monotonic()
        part = self.folder / f"{os.getpid()}{_PART}"
        try:
            content = {
                "format": FORMAT,
                "trial": self.trial_id,
                "environment": json.dumps(environment(self.device)),
                "before": json.dumps(self.before),
                "seconds": self._spent + begun - self._begun,
                "training": training_state(run),
            }
            self.folder.mkdir(exist_ok=True)
            self._put(part, content, run.steps)
        except (OSError, RuntimeError, TypeError, ValueError) as error:  # PyTorch says RuntimeError of a full disk
            with suppress(OSError):
                part.unlink(missing_ok=True)
            reason = error if isinstance(error, OSError) else error.__context__ or error
            text = getattr(reason, "strerror", None) or first_line(reason)
            self.tell(
                f"checkpoints: {platform.node()} cannot write to {self.settings.folder}: {text}; training goes on, and "
                "a trial that is killed starts again from its last checkpoint, if there is one"
            )
        self._last = time.monotonic()
        self._cost = self._last - begun

    def whole_timing(self, timing: dict[str, float]) -> dict[str, float]:
        """Return a trial's seconds with those of the attempts before, as far as they came to something.

        Args:
            timing: of this attempt, by stage (see `TrialRecord`).

        Returns:
            The seconds of the whole trial, and as ``resumed_at_step`` the step that this attempt went on from; `timing`
            itself where it began at the beginning.
        """
        if self.state is None:
            return timing
        earlier: dict[str, float] = self.before["timing"]
        trained = self._spent - sum(earlier[f"{stage}_seconds"] for stage in ("data", "initialization", "probes"))
        whole = {"training": trained, "total": self._spent}
        summed = {f"{stage}_seconds": timing[f"{stage}_seconds"] + seconds for stage, seconds in whole.items()}
        return earlier | timing | summed | {"resumed_at_step": self._steps}

    def _put(self, part: Path, content: dict[str, Any], steps: int) -> None:
        """Write a file, give it its name, and remove all others."""
        with part.open("wb+") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = file_digest(file, "sha256").hexdigest()
        path = self.folder / f"step-{steps:09}-{digest}.pt"
        part.rename(path)
        _sync_folder(self.folder)
        for other in self._files():
            if other != path:
                other.unlink(missing_ok=True)

    def _problem(self) -> str | None:
        """Return why checkpoints cannot be kept by this process, None where they can."""
        folder = Path(self.settings.folder)
        try:
            if (folder / MARK_FILE).read_text(encoding="ascii") != self.settings.mark:
                return f"has another folder at {folder} than the driver has"
        except (OSError, ValueError):
            return f"does not reach the driver's {folder}"
        return None if os.access(folder, os.W_OK | os.X_OK) else f"may not write to {folder}"

    def _files(self) -> list[Path]:
        return [path for path in self.folder.glob("step-*.pt") if _NAME.fullmatch(path.name)]

    def _read(self, path: Path) -> dict[str, Any]:
        """Return what a file has.

        Raises:
            CheckpointError: it is damaged, or not of this trial in this environment.
            Exception: it cannot be read.
        """
        found = _NAME.fullmatch(path.name)
        assert found is not None
        with path.open("rb") as file:
            if file_digest(file, "sha256").hexdigest() != found[2]:
                raise CheckpointError("it is damaged: its bytes are not those that were written")
            file.seek(0)
            content: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if content["format"] != FORMAT:
            raise CheckpointError(f"it is of format {content['format']}, and this version of initbench has {FORMAT}")
        if content["trial"] != self.trial_id:
            raise CheckpointError(f"it is of trial {content['trial'][:12]}")
        written, here = json.loads(content["environment"]), environment(self.device)
        changed = differences(written, here, "initbench")
        if changed:
            raise CheckpointError(f"it was written elsewhere ({'; '.join(changed)})")
        return content

    def _ignored(self, path: Path, why: str) -> None:
        self.tell(f"checkpoint {path} of trial {self.trial_id[:12]} is not used, and the trial starts again: {why}")


def _steps(path: Path) -> int:
    return int(path.name.split("-")[1])


def _sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
