"""Checks the content of a checkpoint, which anybody may have written.

A trial that reads a checkpoint copies parts of it into its record, so they must be what a record may hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from initbench.ledger.record import HistoryEntry, StoredInitialization, StoredMeasurement, check_nesting, checked
from initbench.training.checkpoint import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Sums of what is below it are finite.
_MOST_SECONDS = 1e12
_Seconds = Annotated[float, Field(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]
_MOST_SAMPLES_PER_SECOND = 1e15
_Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Initialization(StoredInitialization):
    learning_rate_multipliers: dict[str, Annotated[float, Field(ge=0)]]


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


class CheckpointContent(NamedTuple):
    """A checkpoint whose numbers and texts are such as a record may hold.

    Attributes:
        before: what came before training, as plain data.
        seconds: that the trial had taken.
        training: the state of the training run; whether it fits is for the run to check.
        steps: that the run had taken.
    """

    before: dict[str, Any]
    seconds: float
    training: dict[str, Any]
    steps: int

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Check what was loaded.

        Raises:
            CheckpointError: something is missing, of another type, or no number.
        """
        try:
            checked(_Content, content)
            before = json.loads(content["before"])
            _check_before(before)
            progress = json.loads(content["training"]["progress"], parse_int=_integer)
            _check_progress(progress)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"it is no checkpoint: {error}") from None
        return cls(before, content["seconds"], content["training"], progress["steps"])


def check_network(record: Any, seconds: Any) -> None:
    """Check the record of an initialization that is kept beside its network.

    Args:
        record: of the initialization, as plain data.
        seconds: that it took.

    Raises:
        ValueError: they are of another type, or no numbers.
    """
    checked(_Network, {"record": record, "seconds": seconds})
    check_nesting(record)


def _check_before(before: Any) -> None:
    checked(_Before, before)
    check_nesting(before)


def _check_progress(progress: Any) -> None:
    checked(_Progress, progress)
    if progress["samples"] > _MOST_SAMPLES_PER_SECOND * progress["seconds"]:
        raise ValueError("so many samples cannot be trained on in so little time")


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) >= 2**63:
        raise ValueError("an integer has more than 64 bits")
    return value
