"""What would hold a claim up: each kind of criterion, as a suite states it.

Each has a verdict of its own: *held*, *refuted* or neither; `initbench.reporting.judging` judges it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
Text = Annotated[str, Field(min_length=1)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Selector = Annotated[dict[str, Any], Field(min_length=1)]
"""Which trials are meant: a condition as of a rule's ``when`` (`initbench.suite.match`)."""


class Criterion(BaseModel):
    """What all criteria have.

    Attributes:
        each: properties, such as ``architecture`` or ``architecture.depth``: the criterion has to hold at each of their
            values that the trials have, and is refuted where it is at one of them.
        measure: what is judged: ``outcome``, or a column of the results frame such as ``first_epoch_accuracy`` or
            ``probe.gradient_quotient``. A diverged trial has the worst outcome.
        protocol: of a suite that tunes, which trials are meant: those at the ``recipe``'s values, at the ``shared``
            ones, or at the treatments' ``own``; null for those that the report compares.
    """

    model_config = STRICT

    each: list[Text] = []
    measure: Text = "outcome"
    protocol: Literal["recipe", "shared", "own"] | None = None

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The conditions that it has, by their keys; those within a list or mapping have dotted keys."""
        return {}


class Ordering(Criterion):
    """One treatment is below another at every seed.

    Held where the value of `higher` exceeds that of `lower` by more than `by`, and is at least `factor` times as large,
    at every seed; refuted where at the share `refuted_at` of the seeds or more it is smaller or, with `by` or `factor`
    given, does not reach that. A seed is one pair: both see the same data in the same order.
    """

    judge: Literal["ordering"]
    lower: Selector
    higher: Selector
    by: NonNegative = 0.0
    factor: Annotated[float, Field(ge=1)] = 1.0
    refuted_at: Share = 0.8

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The two sides."""
        return {"lower": self.lower, "higher": self.higher}


class Pair(BaseModel):
    """Two sides, of which one is expected to be below the other."""

    model_config = STRICT

    lower: Selector
    higher: Selector


class Lead(Criterion):
    """One treatment is below another in the mean.

    Held where the 95 % interval of the mean paired difference, `higher` less `lower`, lies above `by`; refuted where it
    lies below. With `beyond` the difference is less that of another pair: the lead there is smaller by more than `by`.
    """

    judge: Literal["lead"]
    lower: Selector
    higher: Selector
    by: float = 0.0
    beyond: Pair | None = None

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The two sides, and those of the pair that is compared with."""
        own = {"lower": self.lower, "higher": self.higher}
        return own if self.beyond is None else own | {f"beyond.{k}": v for k, v in self.beyond.model_dump().items()}


class Equality(Criterion):
    """Two treatments are equal within a margin, or within a factor.

    Held where both one-sided t-tests over paired seeds reject a difference of `within` or more at 5 % (Schuirmann, A
    comparison of the two one-sided tests procedure, 1987), which is where the 90 % interval of the mean difference lies
    within ±`within`; refuted where the 95 % interval lies beyond it. With `within_factor` the same of logarithms.
    """

    judge: Literal["equality"]
    between: Annotated[list[Selector], Field(min_length=2, max_length=2)]
    within: Annotated[float, Field(gt=0)] | None = None
    within_factor: Annotated[float, Field(gt=1)] | None = None

    @model_validator(mode="after")
    def _has_one_margin(self) -> Self:
        if (self.within is None) == (self.within_factor is None):
            raise ValueError("needs within or within_factor, one of them")
        return self

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The two sides."""
        return {f"between.{index}": selector for index, selector in enumerate(self.between)}


class NotWorse(Criterion):
    """A treatment is not worse than another by more than a margin.

    Held where the one-sided t-test over paired seeds rejects at 5 % that it is worse by `within` or more; refuted where
    it is worse by more than that at the share `refuted_at` of the seeds.
    """

    judge: Literal["not_worse"]
    of: Selector
    than: Selector
    within: NonNegative
    refuted_at: Share = 0.8

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The two sides."""
        return {"of": self.of, "than": self.than}


class Trains(Criterion):
    """A treatment trains at every seed.

    Held where the measure is at most `at_most` at every seed; refuted where the trial is at chance at the share
    `refuted_at` of the seeds or more. A diverged trial counts as at chance.
    """

    judge: Literal["trains"]
    of: Selector
    at_most: NonNegative = 0.45
    refuted_at: Share = 0.6

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The one side."""
        return {"of": self.of}


class AtChance(Criterion):
    """A treatment does not train at any seed.

    Held where the outcome is no better than chance by more than 2.576 standard errors of the chance level (the 99 %
    band of guessing) at every seed; refuted where at the share `refuted_at` of the seeds, or at one where none is
    given, it is at most `unless_below`, or else better than chance.
    """

    judge: Literal["at_chance"]
    of: Selector
    unless_below: NonNegative | None = None
    refuted_at: Share | None = None

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The one side."""
        return {"of": self.of}

    @field_validator("measure")
    @classmethod
    def _of_outcomes(cls, value: str) -> str:
        if value != "outcome":
            raise ValueError("chance is known of the outcome alone")
        return value


class Within(Criterion):
    """A value lies between two bounds at every seed.

    Held where it does at every seed; refuted where it does not at the share `refuted_at` of the seeds or more.
    """

    judge: Literal["within"]
    of: Selector
    at_least: float | None = None
    at_most: float | None = None
    refuted_at: Share = 0.5

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least must not be above at_most, got {self.at_least:g} and {self.at_most:g}")
        return self

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The one side."""
        return {"of": self.of}


class Correlation(Criterion):
    """A measurement at initialization tells the outcome.

    Spearman's correlation of `measure` with the outcome over the treatments that are selected, their medians over the
    seeds, within each value of `each`; averaged over these. Held where the mean's 95 % interval lies above `at_least`,
    refuted where it lies below.
    """

    judge: Literal["correlation"]
    of: Selector
    at_least: Annotated[float, Field(ge=-1, le=1)]

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The trials."""
        return {"of": self.of}

    @model_validator(mode="after")
    def _over_several(self) -> Self:
        if not self.each:
            raise ValueError("needs each: over whose values the correlations are averaged")
        if self.measure == "outcome":
            raise ValueError("needs measure: what is to tell the outcome, such as probe.gradient_quotient")
        return self


AnyCriterion = Annotated[
    Ordering | Lead | Equality | NotWorse | Trains | AtChance | Within | Correlation, Field(discriminator="judge")
]
CRITERIA = get_args(get_args(AnyCriterion)[0])
"""The kinds of criteria."""
