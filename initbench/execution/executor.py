"""The interface of executors: they run trials somewhere and report to an observer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from initbench.ledger import TrialRecord
from initbench.plugins import PluginFile
from initbench.suite.spec import TrialSpec

if TYPE_CHECKING:
    from initbench.execution.checkpoints import CheckpointSettings
    from initbench.execution.shared_networks import SharedNetworks


@dataclass(frozen=True)
class Limits:
    """Limits of one attempt at a trial; not part of a trial's identity."""

    minutes: float | None = None  # of wall time, from the start in a worker
    memory_gb: float | None = None  # gigabytes (10⁹ bytes) of main memory, without GPU memory


NO_LIMITS = Limits()


class Observer:
    """Receives events of trials in the driver's process; a subclass overrides the methods that it needs."""

    def ready(self) -> None:
        """The resources of a trial are available; trials start now."""

    def started(self, spec: TrialSpec) -> None:
        pass

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        """This fraction of a trial's training is done."""

    def finished(self, record: TrialRecord) -> None:
        """A trial has ended, with any status."""

    def note(self, message: str) -> None:
        """A one-line message for the user."""


TRIAL_ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""What libraries read in the environment when a trial's process starts; values that the user has set take precedence.

The first makes cuBLAS deterministic, as `recipe.deterministic` requires. The second keeps `torch.compile` from starting
processes, which would outlive the trial.
"""


@dataclass(frozen=True)
class Job:
    trials: Sequence[TrialSpec]  # in the order of their start
    cpus: float = 1.0  # of one trial
    gpus: float = 0.0  # of one trial; a fraction shares one
    plugins: tuple[PluginFile, ...] = ()
    workers: int | None = None  # most trials at the same time; None for as many as the resources allow
    networks: SharedNetworks | None = None
    checkpoints: CheckpointSettings | None = None
    limits: Limits = NO_LIMITS  # of each attempt at a trial; the in-process executor does not enforce them


def device_of(gpus: float) -> str:
    """Return the device of a trial with this share of a GPU; PyTorch calls AMD's GPUs ``cuda``, too."""
    return "cuda" if gpus else "cpu"


class Executor(Protocol):
    """Runs every trial of a job and calls the observer's `finished` exactly once for each; returns when all have ended.

    An InitbenchError says that the resources of a trial do not exist. A KeyboardInterrupt gives up running trials.
    """

    def __call__(self, job: Job, observer: Observer) -> None: ...
