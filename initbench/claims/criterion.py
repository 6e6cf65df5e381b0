"""What all criteria of claims share: the keys that each has, and the types of their values."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, model_validator

from initbench.arguments import show

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
SCALE = "initialization.scale"
"""The measure that is the factor by which a tuner scaled each tensor."""
Text = Annotated[str, Field(min_length=1)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Selector = Annotated[dict[str, Any], Field(min_length=1)]
"""Which trials are meant: a condition as of a rule's ``when`` (`initbench.comparing.conditions`)."""


def _share_or_any(value: Any) -> Any:
    is_share = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    if value != "any" and not is_share:
        raise ValueError(f"must be a share of the seeds above 0 and at most 1, or any, got {show(value)}")
    return float(value) if is_share else value


def _compiles(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return value


HeldAt = Annotated[float | Literal["any"], PlainValidator(_share_or_any)]
"""At what share of the seeds a criterion must be met; ``any`` for at least one seed."""
Pattern = Annotated[str, AfterValidator(_compiles)]


class Criterion(BaseModel):
    """What all criteria have.

    Attributes:
        each: properties, such as ``architecture`` or ``architecture.depth``: the criterion is judged at each of their
            values that the trials have.
        groups: at how many of these values it has to hold; it is refuted where it is at so many of them that this
            number is out of reach. Null for all of them.
        measure: what is judged: ``outcome``, or a column of the results frame such as ``first_epoch_accuracy`` or
            ``probe.gradient_quotient``. A diverged trial has the worst outcome.
        best_over: a property that is crossed, such as ``recipe.lr``: of the trials of one side and one seed that differ
            in it alone, the one with the best validation value of the outcome counts; of equals that with the smallest
            value of the property. A diverged trial is the worst.
        protocol: of a suite that tunes, which trials are meant: those at the ``recipe``'s values, at the ``shared``
            ones, or at the treatments' ``own``; null for those that the report compares.
    """

    model_config = STRICT

    each: list[Text] = []
    groups: Annotated[int, Field(ge=1)] | None = None
    measure: Text = "outcome"
    best_over: Text | None = None
    protocol: Literal["recipe", "shared", "own"] | None = None

    @model_validator(mode="after")
    def _groups_are_of_each(self) -> Self:
        if self.groups is not None and not self.each:
            raise ValueError("groups needs each: the properties by whose values trials are grouped")
        if self.best_over in self.each:
            raise ValueError("best_over must not stand in each: within a group nothing differs in it")
        return self

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The conditions that it has, by their keys; those within a list or mapping have dotted keys."""
        return {}

    @property
    def varies(self) -> tuple[str, ...] | None:
        """Properties in which trials of one side, group and seed may differ; None for any."""
        return () if self.best_over is None else (self.best_over,)


def check_bounds(at_least: float | None, at_most: float | None) -> None:
    """Refuse bounds of which there is none, or between which nothing lies.

    Raises:
        ValueError: what is wrong.
    """
    if at_least is None and at_most is None:
        raise ValueError("needs at_least, at_most or both")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ValueError(f"at_least must not be above at_most, got {at_least:g} and {at_most:g}")
