"""The checkpoints of a trial, in the worker that runs it: written completely or not at all, and checked when read.

The name ``<folder>/<trial id>/step-<steps>-<SHA-256 of the file>.pt`` contains the file's hash, because PyTorch does
not check the bytes that it reads. A file gets its name when it is complete and on the disk; then its predecessor is
removed. An unusable file is removed, so that later attempts do not read it again.
"""

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from initbench.execution.environment import differences, environment
from initbench.execution.marked_folder import files_named, read_mark
from initbench.files import check_readable
from initbench.ledger.record import HistoryEntry, StoredInitialization, StoredMeasurement, check_nesting, checked
from initbench.plugins import first_line
from initbench.training.checkpoint import CheckpointError, training_state
from initbench.training.run import TrainingRun
from initbench.visible_text import cut, visible

# Sums of smaller values are finite.
_MOST_SECONDS = 1e12
_Seconds = Annotated[float, Field(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]
_MOST_SAMPLES_PER_SECOND = 1e15
_Count = Annotated[int, Field(ge=0)]
FORMAT = 1
"""Raised when a checkpoint's content changes; a trial does not continue from another format."""
CHECKPOINT = re.compile(r"step-([0-9]{9,})-([0-9a-f]{64})\.pt")
"""The name of a checkpoint."""
PART = re.compile(r"[0-9]+\.part")
"""The name of a checkpoint that is being written, with its writer's process id."""
# Most characters of the reason why a file is not used, which may quote the file.
_LONGEST_REASON = 500
# Writing checkpoints by time takes at most 1 part in this many of the training time.
_WRITING_SHARE = 20


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_Multipliers = dict[str, Annotated[float, Field(ge=0)]]


class _Initialization(StoredInitialization):
    learning_rate_multipliers: _Multipliers
    weight_decay_multipliers: _Multipliers = Field(default_factory=dict)  # left out if there are none
    epsilon_multipliers: _Multipliers = Field(default_factory=dict)


class _Timing(_Part, extra="allow"):
    __pydantic_extra__: dict[str, _Seconds]
    data_seconds: _Seconds
    initialization_seconds: _Seconds
    probes_seconds: _Seconds


class _Before(_Part):
    initialization: _Initialization
    probes: list[StoredMeasurement]
    timing: _Timing


class _Network(_Part):
    record: _Initialization
    seconds: _Seconds


class _Progress(_Part, allow_inf_nan=True):
    steps: _Count
    samples: _Count
    seconds: Annotated[float, Field(ge=0, le=_MOST_SECONDS)]
    history: list[HistoryEntry]
    evaluations: list[dict[str, float]]
    first: dict[str, float] | None
    names: list[str]
    sums: dict[str, float]
    epoch_samples: _Count


class _Training(_Part, extra="allow"):
    progress: str


class _Content(_Part, extra="allow"):
    before: str
    seconds: _Seconds
    training: _Training


def _checked_content(content: Mapping[str, Any]) -> tuple[dict[str, Any], float, dict[str, Any], int]:
    """Return what precedes training, the seconds, the training state and the steps of a loaded checkpoint.

    A trial copies parts of them into its record, so a `CheckpointError` says what is missing, of another type, or not a
    number.
    """
    try:
        checked(_Content, content)
        before = json.loads(content["before"])
        checked(_Before, before)
        check_nesting(before)
        progress = json.loads(content["training"]["progress"], parse_int=_integer)
        checked(_Progress, progress)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"it is not a checkpoint: {error}") from None
    if progress["samples"] > _MOST_SAMPLES_PER_SECOND * progress["seconds"]:
        raise CheckpointError("it is not a checkpoint: the number of samples is too large for the training time")
    return before, content["seconds"], content["training"], progress["steps"]


def check_network(record: Any, seconds: Any) -> None:
    """Check the record of an initialization that is stored beside its network; a ValueError describes the fault."""
    checked(_Network, {"record": record, "seconds": seconds})
    check_nesting(record)


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) >= 2**63:
        raise ValueError("an integer has more than 64 bits")
    return value


@dataclass(frozen=True)
class CheckpointSettings:
    """When and where trials are saved; it is not part of their identity."""

    folder: str  # of all trials of a suite; an absolute path, which the driver has made
    mark: str  # see `MarkedFolder`
    every_epochs: int | None = None
    every_seconds: float | None = None  # if `every_epochs` is None
    keep: Literal["none", "last"] = "none"  # `last` also keeps the network after the last step


class TrialCheckpoints:
    """The checkpoints of one trial; its clock starts here. `tell` receives one-line notes for the user."""

    def __init__(
        self, settings: CheckpointSettings, trial_id: str, device: str, tell: Callable[[str], None] | None = None
    ) -> None:
        self.settings = settings
        self.trial_id = trial_id
        self.folder = Path(settings.folder) / trial_id
        self.device = device
        self.tell = tell or (lambda _: None)
        self.before: dict[str, Any] = {}  # the initialization and measurements, as plain data; `save` writes it too
        self.state: dict[str, Any] | None = None  # of the training run to continue
        self.reachable = True
        self._begun = self._last = time.monotonic()
        self._cost = 0.0
        # Of earlier attempts, up to the checkpoint from which this one continues.
        self._spent = 0.0
        self._steps = 0
        self._loaded: Path | None = None

    def load(self) -> None:
        """Look for a checkpoint to continue from; unusable ones are reported and skipped."""
        problem = self._problem()
        if problem is not None:
            self.reachable = False
            self.tell(f"checkpoints: {platform.node()} {problem}; trials killed there start again from the beginning")
            return
        for part in files_named(self.folder, PART):  # left by a killed writer
            _remove(part)
        # The numbers of steps have equal lengths, so this is the order of the steps.
        by_steps = sorted(files_named(self.folder, CHECKPOINT), key=lambda path: (len(path.name), path.name))
        for path in reversed(by_steps):
            try:
                self.before, self._spent, self.state, self._steps = self._read(path)
            except Exception as error:  # noqa: BLE001  # a file may hold anything
                self._refuse(path, error)
            else:
                self._loaded = path
                return

    def discard(self, error: CheckpointError) -> None:
        assert self._loaded is not None
        self._refuse(self._loaded, error)
        self.before, self.state, self._spent, self._loaded = {}, None, 0.0, None

    def due(self, epoch: int | None = None, *, last: bool = False) -> bool:
        """See `initbench.training.run.Checkpoints`."""
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
        """Save a training run; if that fails, report it and keep the previous checkpoint."""
        begun = time.monotonic()
        part = self.folder / f"{os.getpid()}.part"
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
            part.unlink(missing_ok=True)  # it may be a link
            self._put(part, content, run.steps)
        except (OSError, RuntimeError, TypeError, ValueError) as error:  # PyTorch raises a RuntimeError for a full disk
            with suppress(OSError):
                part.unlink(missing_ok=True)
            reason = error if isinstance(error, OSError) else error.__context__ or error
            text = getattr(reason, "strerror", None) or first_line(reason)
            self.tell(
                f"checkpoints: {platform.node()} cannot write to {self.settings.folder}: {text}; training "
                "continues, and a trial that is killed starts again from its last checkpoint, if there is one"
            )
        self._last = time.monotonic()
        self._cost = self._last - begun

    def whole_timing(self, timing: dict[str, float]) -> dict[str, float]:
        """Return a trial's seconds including earlier attempts up to the checkpoint.

        ``resumed_at_step`` is the step from which this attempt continued; it is missing if the attempt started at the
        beginning.
        """
        if self.state is None:
            return timing
        earlier: dict[str, float] = self.before["timing"]
        trained = self._spent - sum(earlier[f"{stage}_seconds"] for stage in ("data", "initialization", "probes"))
        trained += earlier.get("initialization_saved_seconds", 0.0)  # charged, but spent by another trial
        whole = earlier | timing | {"resumed_at_step": self._steps}
        whole["training_seconds"] += trained
        whole["total_seconds"] += self._spent
        return whole

    def _put(self, part: Path, content: dict[str, Any], steps: int) -> None:
        with part.open("xb+") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = file_digest(file, "sha256").hexdigest()
        path = self.folder / _name(steps, digest)
        part.rename(path)
        with suppress(OSError):  # some systems cannot write a folder's names to the disk
            handle = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        for other in files_named(self.folder, CHECKPOINT):
            if other != path:
                _remove(other)

    def _problem(self) -> str | None:
        """Return why this process cannot save checkpoints; None if it can."""
        folder = Path(self.settings.folder)
        mark = read_mark(folder)
        if mark is None:
            return f"cannot see the driver's folder {folder}"
        if mark != self.settings.mark:
            return f"has a different folder at {folder} than the driver"
        if self.folder.is_symlink():
            return f"does not follow {self.folder}, which is a link"
        return None if os.access(folder, os.W_OK | os.X_OK) else f"may not write to {folder}"

    def _read(self, path: Path) -> tuple[dict[str, Any], float, dict[str, Any], int]:
        """Return the content of a file of this trial in this environment."""
        check_readable(path, sys.maxsize)
        with path.open("rb") as file:
            if file_digest(file, "sha256").hexdigest() != _digest_in(path):
                raise CheckpointError("it is damaged: its bytes are not the ones that were written")
            file.seek(0)
            loaded: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if loaded["format"] != FORMAT:
            raise _ElsewhereError(f"it has format {loaded['format']}, and this version of initbench has {FORMAT}")
        if loaded["trial"] != self.trial_id:
            raise CheckpointError(f"it belongs to trial {loaded['trial'][:12]}")
        written, here = json.loads(loaded["environment"]), environment(self.device)
        changed = differences(written, here, "initbench")
        if changed:
            raise _ElsewhereError(f"it was written elsewhere ({'; '.join(changed)})")
        content = _checked_content(loaded)
        if path.name != _name(content[-1], _digest_in(path)):
            raise CheckpointError(f"it is at step {content[-1]}, and its name has another step")
        return content

    def _refuse(self, path: Path, error: Exception) -> None:
        """Report why a checkpoint is not used, and remove it unless it may be usable later or on another machine."""
        if isinstance(error, CheckpointError):
            reason = str(error)
        else:
            strerror = error.strerror if isinstance(error, OSError) else None
            reason = f"it cannot be read: {strerror or f'{type(error).__name__}: {first_line(error)}'}"
        shown = visible(cut(" ".join(reason.split()), _LONGEST_REASON))
        self.tell(f"checkpoint {path} of trial {self.trial_id[:12]} is not used, and the trial starts again: {shown}")
        cause = error.__cause__ or error
        may_pass = isinstance(cause, OSError | MemoryError | torch.OutOfMemoryError | _ElsewhereError)
        if not may_pass and "can't allocate memory" not in str(cause):  # PyTorch's RuntimeError for the CPU's memory
            _remove(path)


class _ElsewhereError(CheckpointError):
    """The checkpoint is usable where it was written."""


def _name(steps: int, digest: str) -> str:
    return f"step-{steps:09}-{digest}.pt"


def _digest_in(path: Path) -> str:
    return path.stem.rpartition("-")[2]


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
