"""What would hold a claim up: each kind of criterion, as a suite states it.

Each has a verdict of its own: *held*, *refuted* or neither; `initbench.claims.judge` judges it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, field_validator, model_validator

from initbench.arguments import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.arguments import Key

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
_TWO = Field(min_length=2, max_length=2)
_SIDES = {"lower", "higher", "beyond", "between", "of", "than", "against", "reference", "cells"}
"""The keys of criteria that hold conditions."""


class Pair(BaseModel):
    """Two sides, one of them expected to be below the other."""

    model_config = STRICT

    lower: Selector
    higher: Selector


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
    def selectors(self) -> dict[Key, dict[str, Any]]:
        """Its conditions on trials by their keys, such as ``("between", 0)``."""
        given = [(name, getattr(self, name)) for name in type(self).model_fields if name in _SIDES]
        return {key: condition for name, value in given for key, condition in _conditions((name,), value)}

    @property
    def varies(self) -> tuple[str, ...] | None:
        """Properties in which trials of one side, group and seed may differ; None for any."""
        return () if self.best_over is None else (self.best_over,)


def _conditions(key: Key, value: Any) -> Iterator[tuple[Key, dict[str, Any]]]:
    if isinstance(value, dict):
        yield key, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _conditions((*key, index), item)
    elif isinstance(value, Pair):
        yield (*key, "lower"), value.lower
        yield (*key, "higher"), value.higher


def _check_bounds(criterion: Any) -> Any:
    at_least, at_most = criterion.at_least, criterion.at_most
    if at_least is None and at_most is None:
        raise ValueError("needs at_least, at_most or both")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ValueError(f"at_least must not be above at_most, got {at_least:g} and {at_most:g}")
    return criterion


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

    _has_a_bound = model_validator(mode="after")(_check_bounds)


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
            _check_bounds(self)
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
    def varies(self) -> tuple[str, ...]:
        """The rate, and what the ratio rises with."""
        return (self.rate,) if self.rises_with is None else (self.rate, self.rises_with)


class LayerCriterion(Criterion):
    """What criteria on layers share.

    Attributes:
        measure: ``probe.NAME`` of a probe that measures each layer, such as ``probe.parameter_norm``; or
            ``initialization.scale``, the factor by which a tuner scaled each tensor.
        layers: a regular expression; layers in whose name it is found are judged.
    """

    layers: Pattern = ".*"

    @model_validator(mode="after")
    def _is_of_layers(self) -> Self:
        if self.measure != SCALE and not self.measure.startswith("probe."):
            raise ValueError(f"needs measure: values per layer, such as probe.parameter_norm or {SCALE}")
        return self


class Layers(LayerCriterion):
    """Values of layers lie between two bounds.

    A seed meets it where the share `share` of the layers or more lies between the bounds, of those whose name `layers`
    is found in. With `against` the value is the ratio of `of` to `against`, of the same layer at the same seed. Held
    where the share `held_at` of the seeds meets it; refuted where the share `refuted_at` does not.
    """

    judge: Literal["layers"]
    of: Selector
    against: Selector | None = None
    at_least: float | None = None
    at_most: float | None = None
    share: Share = 1.0
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.8

    _has_a_bound = model_validator(mode="after")(_check_bounds)


class LayerDistance(LayerCriterion):
    """The layers of a treatment have values near those of another.

    The distance at a seed is the mean of |ln(v / r)| over the layers that both have and whose name `layers` is found
    in, v that of `of` and r that of `reference`. Layers at which both are 0, such as biases, say nothing and are left
    out; if a logarithm is not finite, the distance is infinite. Held where it is at most `at_most` at the share
    `held_at` of the seeds; refuted where it exceeds `refuted_above`, or `at_most` if that is null, at the share
    `refuted_at`.
    """

    judge: Literal["layer_distance"]
    of: Selector
    reference: Selector
    at_most: Annotated[float, Field(gt=0)]
    refuted_above: float | None = None
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.5

    @model_validator(mode="after")
    def _refutes_what_is_far(self) -> Self:
        if self.refuted_above is not None and self.refuted_above < self.at_most:
            raise ValueError(f"refuted_above must be at least at_most, {self.at_most:g}, got {self.refuted_above:g}")
        return self


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
