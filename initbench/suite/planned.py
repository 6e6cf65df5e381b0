"""The plan: every trial of a suite, and the pairs that cannot run with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.arguments import Key
    from initbench.errors import DataError
    from initbench.suite.compatibility import Other
    from initbench.suite.search import TunedTrial
    from initbench.suite.spec import DatasetSpec, TrialDraft, TrialSpec

_MOST_REASONS = 5


@dataclass(frozen=True)
class Incompatible:
    """A pair that cannot run.

    Attributes:
        spec: the first of its trials.
        reason: why, in one line.
        other: what the architecture does not go with: the trial's ``initializer``, or its ``dataset``, whatever the
            initializer; None where its scheme or the recipe is refused, whatever both.
    """

    spec: TrialDraft
    reason: str
    other: Other | None


@dataclass(frozen=True)
class Undescribed:
    """Trials whose ids are not known, because files of their dataset are absent.

    Attributes:
        trials: what would run.
        key: where the dataset stands in the file.
        reason: what is missing, and what to put where.
        dataset: what the dataset asks of a model, where that is known without the files.
    """

    trials: tuple[TrialDraft, ...]
    key: Key
    reason: DataError
    dataset: DatasetSpec | None = None


@dataclass(frozen=True)
class Plan:
    """What a suite comes to.

    Attributes:
        trials: what runs, in the order of the file, all cells at the first seed before the second seed.
        incompatible: the pairs that cannot run, each with each reason once.
        excluded: how many trials ``exclude`` left out.
        unselected: the trials of the suite that ``only`` left out; labels tell trials apart from these too.
        undescribed: what can run only when the files of a dataset are there.
        refused: each cell that cannot run, whether or not ``only`` leaves it out, at its first seed and with its first
            reason: a pair that is refused whatever the initializer stands here with every initializer.
        tuned: of a suite that tunes, what each seed of each cell that runs searches and comes to.
    """

    trials: tuple[TrialSpec, ...]
    incompatible: tuple[Incompatible, ...]
    excluded: int
    unselected: tuple[TrialSpec, ...]
    undescribed: tuple[Undescribed, ...] = ()
    refused: tuple[Incompatible, ...] = ()
    tuned: tuple[TunedTrial, ...] = ()

    @property
    def awaited(self) -> int:
        """How many final trials are not known before searches have results; those that agree are counted apart."""
        return sum(len(trial.awaited) for trial in self.tuned)

    @property
    def reasons(self) -> str:
        """Why pairs cannot run, each reason once, in one line; empty where all can."""
        reasons = [*dict.fromkeys(pair.reason for pair in self.incompatible)]
        more = len(reasons) - _MOST_REASONS
        return "; ".join([*reasons[:_MOST_REASONS], *[f"and {more} more"] * (more > 0)])

    def missing(self, statuses: Mapping[str, str]) -> tuple[TrialSpec, ...]:
        """Return the trials without a result; a failed one is tried again.

        Args:
            statuses: trial id → status, as the ledger has them.
        """
        return tuple(t for t in self.trials if statuses.get(t.id) not in {"finished", "diverged"})
