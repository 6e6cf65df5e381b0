"""What would hold a claim up: each kind of criterion, as a suite states it.

Each has a verdict of its own: *held*, *refuted* or neither; `initbench.claims` judges it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, Field, field_validator, model_validator

from initbench.claims.criterion import STRICT, Criterion, HeldAt, NonNegative, Selector, Share, Text, check_bounds
from initbench.claims.layer_criteria import LayerDistance, Layers

_TWO = Field(min_length=2, max_length=2)


class Ordering(Criterion):
    """One treatment is below another at every seed.

    Held where the value of `higher` exceeds that of `lower` by more than `by`, and is at least `factor` times as large,
    at the share `held_at` of the seeds; refuted where at the share `refuted_at` of the seeds or more it is smaller or,
    with `by` or `factor` given, does not reach that. A seed is one pair: both see the same data in the same order.
    """

    judge: Literal["ordering"]
    lower: Selector
    higher: Selector
    by: NonNegative = 0.0
    factor: Annotated[float, Field(ge=1)] = 1.0
    held_at: HeldAt = 1.0
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
    between: Annotated[list[Selector], _TWO]
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

    Held where the measure is at most `at_most` at the share `held_at` of the seeds; refuted where the trial is at
    chance at the share `refuted_at` of the seeds or more. A diverged trial counts as at chance, and what is at chance
    does not train.
    """

    judge: Literal["trains"]
    of: Selector
    at_most: NonNegative = 0.45
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.6

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The one side."""
        return {"of": self.of}


class AtChance(Criterion):
    """A treatment does not train at any seed.

    Held where the outcome is no better than chance by more than 2.576 standard errors of the chance level (the 99 %
    band of guessing) at the share `held_at` of the seeds; refuted where at the share `refuted_at` of the seeds, or at
    one where none is given, it is at most `unless_below`, or else better than chance.
    """

    judge: Literal["at_chance"]
    of: Selector
    unless_below: NonNegative | None = None
    held_at: HeldAt = 1.0
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

    With `against` the value is the ratio of `of` to `against` at the same seed. Held where it does at the share
    `held_at` of the seeds; refuted where it does not at the share `refuted_at` or more.
    """

    judge: Literal["within"]
    of: Selector
    against: Selector | None = None
    at_least: float | None = None
    at_most: float | None = None
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.5

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        check_bounds(self.at_least, self.at_most)
        return self

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The one side, and the other if there is one."""
        return {"of": self.of} if self.against is None else {"of": self.of, "against": self.against}


class Correlation(Criterion):
    """A measurement at initialization tells the outcome.

    Spearman's correlation of `measure` with the outcome over the treatments that are selected, their medians over the
    seeds, within each value of `each`; averaged over these. With `trained_only` treatments whose median outcome is at
    chance are left out. Held where the mean's 95 % interval lies above `at_least`, refuted where it lies below.
    """

    judge: Literal["correlation"]
    of: Selector
    at_least: Annotated[float, Field(ge=-1, le=1)]
    trained_only: bool = False

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The trials."""
        return {"of": self.of}

    @model_validator(mode="after")
    def _over_several(self) -> Self:
        if not self.each:
            raise ValueError("needs each: over whose values the correlations are averaged")
        if self.groups is not None:
            raise ValueError("takes no groups: its correlations are averaged over each")
        if self.measure == "outcome":
            raise ValueError("needs measure: what is to tell the outcome, such as probe.gradient_quotient")
        return self

    @property
    def varies(self) -> None:
        """Any property: every trial that is selected counts."""
        return


class Contrast(Criterion):
    """Of two factors the first has the larger effect.

    In `cells`, two rows of two, the first factor differs between the rows and the second between the columns. The
    effect of a factor at a seed is |mean of its one value's cells - mean of the other's|. Held where the first effect
    exceeds `factor` times the second at the share `held_at` of the seeds; refuted where the second exceeds the first at
    the share `refuted_at`.
    """

    judge: Literal["contrast"]
    cells: Annotated[list[Annotated[list[Selector], _TWO]], _TWO]
    factor: Annotated[float, Field(ge=1)] = 1.0
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.8

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The four cells, row by row."""
        return {f"cells.{row}.{column}": self.cells[row][column] for row in (0, 1) for column in (0, 1)}


class RateRatio(Criterion):
    """The best rate lies near the largest stable one, or far below it; or nearer where a property is larger.

    Of the trials of one seed that differ in `rate` alone, the best rate is that with the best validation value, and the
    largest stable rate the largest at which the trial neither diverged nor is at chance on the validation split. In a
    suite that tunes `rate` these are the trials of its searches. What is judged is best / largest stable.

    With bounds: held where the ratio lies between them at the share `held_at` of the seeds, refuted where it lies
    outside at the share `refuted_at`. With `rises_with` instead, a property such as ``recipe.batch_size``: held where
    Spearman's correlation of that property with the ratio's mean over the seeds is at least `correlation`, refuted
    where it is 0 or less.
    """

    judge: Literal["rate_ratio"]
    of: Selector
    rate: Text = "recipe.lr"
    at_least: float | None = None
    at_most: float | None = None
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.8
    rises_with: Text | None = None
    correlation: Annotated[float, Field(gt=0, le=1)] = 0.8

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        bounded = self.at_least is not None or self.at_most is not None
        if self.rises_with is None and not bounded:
            raise ValueError("needs at_least, at_most or rises_with")
        if self.rises_with is not None and bounded:
            raise ValueError("rises_with stands in the place of bounds; give those a criterion of their own")
        if bounded:
            check_bounds(self.at_least, self.at_most)
        if self.best_over is not None:
            raise ValueError("takes no best_over: it compares the trials at all rates")
        if {self.rate, self.rises_with} & set(self.each) or self.rate == self.rises_with:
            raise ValueError("rate, rises_with and each must be different properties")
        return self

    @field_validator("measure")
    @classmethod
    def _of_rates(cls, value: str) -> str:
        if value != "outcome":
            raise ValueError("rates are chosen by the outcome's validation value alone")
        return value

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The trials."""
        return {"of": self.of}

    @property
    def varies(self) -> tuple[str, ...]:
        """The rate, and what the ratio rises with."""
        return (self.rate,) if self.rises_with is None else (self.rate, self.rises_with)


AnyCriterion = Annotated[
    Ordering
    | Lead
    | Equality
    | NotWorse
    | Trains
    | AtChance
    | Within
    | Correlation
    | Contrast
    | RateRatio
    | Layers
    | LayerDistance,
    Field(discriminator="judge"),
]
CRITERIA = get_args(get_args(AnyCriterion)[0])
"""The kinds of criteria."""
