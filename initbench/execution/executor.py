"""What an executor is: it runs trials somewhere and tells an observer what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from initbench.execution.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.execution.checkpoints import CheckpointSettings
    from initbench.execution.shared_networks import SharedNetworks
    from initbench.ledger import TrialRecord
    from initbench.plugins import PluginFile
    from initbench.suite.spec import TrialSpec

_NO_LIMITS = Limits()


class Observer(Protocol):
    """Told, in the driver's process, what happens to the trials."""

    def ready(self) -> None:
        """What one trial asks for is there; trials start now."""

    def started(self, spec: TrialSpec) -> None:
        """A trial was given to a worker."""

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        """This fraction of a trial's training is done."""

    def finished(self, record: TrialRecord) -> None:
        """A trial has ended, with whatever status."""

    def note(self, message: str) -> None:
        """Something that the user should know, in one line: a node takes no more trials."""


@dataclass(frozen=True)
class Job:
    """What an executor is asked to do.

    Attributes:
        trials: in the order in which they should start.
        cpus: cores that one trial takes.
        gpus: GPUs that one trial takes; a fraction shares one.
        plugins: files to import before a trial runs.
        workers: most trials at a time; None for as many as the resources admit.
        networks: those that trials share; None where they share none.
        checkpoints: when trials under way are kept, and where; None for never.
        limits: of each attempt at a trial; the executor for debugging does not enforce them.
    """

    trials: Sequence[TrialSpec]
    cpus: float = 1.0
    gpus: float = 0.0
    plugins: tuple[PluginFile, ...] = ()
    workers: int | None = None
    networks: SharedNetworks | None = None
    checkpoints: CheckpointSettings | None = None
    limits: Limits = _NO_LIMITS


class Executor(Protocol):
    """Runs a job; returns when every trial has ended."""

    def __call__(self, job: Job, observer: Observer) -> None:
        """Run every trial, and tell the observer of each exactly once that it has finished.

        Raises:
            InitbenchError: the resources that one trial asks for are not there.
            KeyboardInterrupt: as it comes; trials under way are given up.
        """
