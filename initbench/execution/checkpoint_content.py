"""Checks the content of a checkpoint, which anybody may have written.

A trial that reads a checkpoint copies parts of it into its record, so they must be what a record may hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from initbench.arguments import explain
from initbench.record_schema import Probe, check_history, check_initialization, check_nesting, check_probe
from initbench.training.checkpoint import CheckpointError

# Sums of what is below it are finite.
_MOST_SECONDS = 1e12
_Seconds = Annotated[float, Field(ge=-_MOST_SECONDS, le=_MOST_SECONDS)]
_MOST_SAMPLES_PER_SECOND = 1e15
_Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Initialization(_Part, extra="allow"):
    learning_rate_multipliers: dict[str, Annotated[float, Field(ge=0)]]


class _Timing(_Part, extra="allow"):
    __pydantic_extra__: dict[str, _Seconds]
    data_seconds: _Seconds
    initialization_seconds: _Seconds
    probes_seconds: _Seconds


class _Before(_Part):
    initialization: _Initialization
    probes: list[Probe]
    timing: _Timing


class _Network(_Part):
    record: _Initialization
    seconds: _Seconds


class _Progress(_Part, allow_inf_nan=True):
    steps: _Count
    samples: _Count
    seconds: Annotated[float, Field(ge=0, le=_MOST_SECONDS)]
    history: list[dict[str, Any]]
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
    """A checkpoint whose numbers and texts are such as a record may hold."""

    before: dict[str, Any]
    seconds: float
    training: dict[str, Any]
    steps: int

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Check what was loaded: a `CheckpointError` says what is missing, of another type, or no number."""
        try:
            _Content.model_validate(content)
            before = json.loads(content["before"])
            _check_before(before)
            progress = json.loads(content["training"]["progress"], parse_int=_integer)
            _check_progress(progress)
        except ValidationError as error:
            raise CheckpointError(f"it is no checkpoint: {_first_problem(error)}") from None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"it is no checkpoint: {error}") from None
        return cls(before, content["seconds"], content["training"], progress["steps"])


def check_network(record: Any, seconds: Any) -> None:
    """Check the record of an initialization that is kept beside its network: a ValueError says what is wrong."""
    _Network.model_validate({"record": record, "seconds": seconds})
    check_nesting(record)
    check_initialization(record)


def _check_before(before: Any) -> None:
    _Before.model_validate(before)
    check_nesting(before)
    check_initialization(before["initialization"])
    for probe in before["probes"]:
        check_probe(probe)


def _check_progress(progress: Any) -> None:
    _Progress.model_validate(progress)
    check_history(progress["history"], {"epochs": 1})
    if progress["samples"] > _MOST_SAMPLES_PER_SECOND * progress["seconds"]:
        raise ValueError("so many samples cannot be trained on in so little time")


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) >= 2**63:
        raise ValueError("an integer has more than 64 bits")
    return value


def _first_problem(error: ValidationError) -> str:
    details = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in details['loc'])} {explain(details)}"
