"""What an executor is: it runs trials somewhere and tells an observer what becomes of them."""

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
    """What one attempt at a trial may take; no part of a trial's identity."""

    minutes: float | None = None  # of wall time, from the moment at which a worker begins with it
    memory_gb: float | None = None  # gigabytes (10⁹ bytes) of a machine's memory, that of a GPU not counted


NO_LIMITS = Limits()


class Observer:
    """Told, in the driver's process, what happens to the trials; every method may be left as it is."""

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
    """What an executor is asked to do."""

    trials: Sequence[TrialSpec]  # in the order in which they should start
    cpus: float = 1.0  # of one trial
    gpus: float = 0.0  # of one trial; a fraction shares one
    plugins: tuple[PluginFile, ...] = ()
    workers: int | None = None  # most trials at a time; None for as many as the resources admit
    networks: SharedNetworks | None = None
    checkpoints: CheckpointSettings | None = None
    limits: Limits = NO_LIMITS  # of each attempt at a trial; the executor for debugging does not enforce them


class Executor(Protocol):
    """Runs a job; returns when every trial has ended."""

    def __call__(self, job: Job, observer: Observer) -> None:
        """Run every trial, and tell the observer of each exactly once that it has finished.

        Raises:
            InitbenchError: the resources that one trial asks for are not there.
            KeyboardInterrupt: as it comes; trials under way are given up.
        """
