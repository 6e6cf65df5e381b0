"""A trial as claims are judged by it: its properties, its validation value, and whether it is at chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.comparing.chance import STANDARD_ERRORS
from initbench.comparing.conditions import properties_of_spec
from initbench.comparing.metrics import outcome_key, outcome_sign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.ledger import TrialRecord


@dataclass(frozen=True)
class Found:
    """A trial, and what of it can be judged.

    Attributes:
        row: of the results frame.
        record: of the trial.
        properties: what conditions on it can name (`suite.match`).
    """

    row: Mapping[str, Any]
    record: TrialRecord
    properties: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """Of the trial."""
        seed: int = self.properties["seed"]
        return seed

    @property
    def is_diverged(self) -> bool:
        """Whether its training diverged."""
        return self.record.status == "diverged"

    @property
    def validation(self) -> float:
        """The outcome on the validation split, oriented so that lower is better; +∞ if diverged, NaN if there is none.

        It is the value by which a search chooses (`execution.searched`).
        """
        if self.is_diverged:
            return math.inf
        value = self.record.metrics.get(_validation_key(self.record))
        return math.nan if value is None else outcome_sign(self.record) * float(value)

    @property
    def is_stable(self) -> bool:
        """Whether it neither diverged nor is at chance on the validation split; where chance is unknown, the first."""
        if math.isinf(self.validation):
            return False
        described = self.record.task["metrics"].get(_validation_key(self.record), {})
        chance, error = (described.get(key) for key in ("chance", "chance_standard_error"))
        if chance is None or error is None:
            return True
        return bool(outcome_sign(self.record) * chance - self.validation > STANDARD_ERRORS * error)


def found_of(row: Mapping[str, Any], record: TrialRecord) -> Found:
    """Return a trial of a row and a record."""
    return Found(row, record, properties_of_spec(record.spec))


def _validation_key(record: TrialRecord) -> str:
    key = outcome_key(record)
    split = record.task.get("metrics", {}).get(key, {}).get("split", "")
    return f"validation_{key.removeprefix(f'{split}_')}"
