"""The kinds of criteria of claims, as a suite states them.

Each criterion has a verdict of its own: *held*, *refuted* or neither; `initbench.claims.judge` judges it.
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
"""The measure for the factor by which a tuner scaled each tensor."""
Text = Annotated[str, Field(min_length=1)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Selector = Annotated[dict[str, Any], Field(min_length=1)]
"""A selection of trials: a condition as in a rule's ``when`` (`initbench.comparing.conditions`)."""


def _share_or_any(value: Any) -> Any:
    is_share = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
    if value != "any" and not is_share:
        raise ValueError(f"must be a share of the seeds above 0 and at most 1, or any, got {show(value)}")
    return float(value) if is_share else value


def _compiles(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return value


HeldAt = Annotated[float | Literal["any"], PlainValidator(_share_or_any)]
"""The share of the seeds at which a criterion must be met; ``any`` for at least one seed."""
Pattern = Annotated[str, AfterValidator(_compiles)]
_TWO = Field(min_length=2, max_length=2)
_SIDES = {"lower", "higher", "beyond", "between", "of", "than", "against", "reference", "cells"}
"""The keys of criteria that hold conditions."""


class Pair(BaseModel):
    """Two sides; `lower` is expected to be below `higher`."""

    model_config = STRICT

    lower: Selector
    higher: Selector


class Criterion(BaseModel):
    """The keys that all criteria have.

    Attributes:
        each: properties, such as ``architecture`` or ``architecture.depth``: the criterion is judged at each of their
            values in the trials.
        groups: the number of these values at which it must hold; it is refuted once so many are refuted that this
            number is out of reach. Null for all of them.
        measure: the judged quantity: ``outcome``, or a column of the results frame such as ``first_epoch_accuracy`` or
            ``probe.gradient_quotient``. A diverged trial has the worst outcome.
        best_over: a crossed property, such as ``recipe.lr``: among trials of one side and one seed that differ only in
            it, the one with the best validation outcome counts; of equals the one with the smallest value of the
            property. A diverged trial is the worst.
        protocol: in a suite that tunes, the trials to use: at the ``recipe``'s values, at the ``shared`` ones, or at
            the treatments' ``own``; null for the trials that the report compares.
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
            raise ValueError("groups needs each, the properties by which trials are grouped")
        if self.best_over in self.each:
            raise ValueError("best_over must not be in each: within a group nothing differs in it")
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

    Held if, at the share `held_at` of the seeds, the value of `higher` exceeds the value of `lower` by more than `by`
    and is at least `factor` times as large. Refuted if, at the share `refuted_at` of the seeds or more, it is smaller
    or, if `by` or `factor` is given, does not reach it. A seed is one pair: both see the same data in the same order.
    """

    judge: Literal["ordering"]
    lower: Selector
    higher: Selector
    by: NonNegative = 0.0
    factor: Annotated[float, Field(ge=1)] = 1.0
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.8


class Lead(Criterion):
    """One treatment is below another on average.

    Held if the 95 % interval of the mean paired difference, `higher` less `lower`, lies above `by`; refuted if it lies
    below. With `beyond`, the difference of another pair is subtracted: the lead there is smaller by more than `by`.
    """

    judge: Literal["lead"]
    lower: Selector
    higher: Selector
    by: float = 0.0
    beyond: Pair | None = None


class Equality(Criterion):
    """Two treatments are equal within a margin, or within a factor.

    Held if both one-sided t-tests over paired seeds reject a difference of `within` or more at 5 % (Schuirmann, A
    comparison of the two one-sided tests procedure, 1987), that is, if the 90 % interval of the mean difference lies
    within ±`within`; refuted if the 95 % interval lies beyond it. `within_factor` does the same with logarithms.
    """

    judge: Literal["equality"]
    between: Annotated[list[Selector], _TWO]
    within: Annotated[float, Field(gt=0)] | None = None
    within_factor: Annotated[float, Field(gt=1)] | None = None

    @model_validator(mode="after")
    def _has_one_margin(self) -> Self:
        if (self.within is None) == (self.within_factor is None):
            raise ValueError("needs either within or within_factor")
        return self


class Difference(Criterion):
    """Two treatments differ by more than a margin, in whichever direction.

    Held if the 95 % interval of the mean paired difference lies beyond ±`by`; refuted if both one-sided t-tests of an
    `Equality` reject a difference of `by` or more.
    """

    judge: Literal["difference"]
    between: Annotated[list[Selector], _TWO]
    by: Annotated[float, Field(gt=0)]


class NotWorse(Criterion):
    """A treatment is not worse than another by more than a margin.

    Held if the one-sided t-test over paired seeds rejects at 5 % that it is worse by `within` or more; refuted if it is
    worse by more than `within` at the share `refuted_at` of the seeds.
    """

    judge: Literal["not_worse"]
    of: Selector
    than: Selector
    within: NonNegative
    refuted_at: Share = 0.8


class Trains(Criterion):
    """A treatment trains at every seed.

    Held if the measure is at most `at_most` at the share `held_at` of the seeds; refuted if the trial is at chance at
    the share `refuted_at` of the seeds or more. A diverged trial counts as at chance, and a trial at chance does not
    train. If higher values are better, nothing is judged: such a measure needs a lower bound (`Within`).
    """

    judge: Literal["trains"]
    of: Selector
    at_most: NonNegative = 0.45
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.6


class AtChance(Criterion):
    """A treatment does not train at any seed.

    Held if, at the share `held_at` of the seeds, the outcome is not better than chance by more than 2.576 standard
    errors of the chance level (the 99 % band of guessing). Refuted if it is better than chance, and at most
    `unless_below` if that is given, at the share `refuted_at` of the seeds, or at a single seed if no share is given.
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
            raise ValueError("only the outcome has a chance level")
        return value


class Within(Criterion):
    """A value lies between two bounds at every seed.

    With `against` the value is the ratio of `of` to `against` at the same seed. Held if it does at the share `held_at`
    of the seeds; refuted if it does not at the share `refuted_at` or more.
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
    """A measurement at initialization predicts the outcome.

    Spearman's correlation of `measure` with the outcome over the selected treatments (medians over the seeds), within
    each value of `each`, averaged over these values. With `trained_only`, treatments whose median outcome is at chance
    are left out. A value of `each` with fewer than three treatments is left out, too: two are always perfectly
    correlated. Held if the mean's 95 % interval lies above `at_least`, refuted if it lies below.
    """

    judge: Literal["correlation"]
    of: Selector
    at_least: Annotated[float, Field(ge=-1, le=1)]
    trained_only: bool = False

    @model_validator(mode="after")
    def _over_several(self) -> Self:
        if not self.each:
            raise ValueError("needs each, over whose values the correlations are averaged")
        if self.groups is not None:
            raise ValueError("takes no groups: its correlations are averaged over each")
        if self.measure == "outcome":
            raise ValueError("needs measure, the predictor of the outcome, such as probe.gradient_quotient")
        return self

    @property
    def varies(self) -> None:
        return


class Contrast(Criterion):
    """The first of two factors has the larger effect.

    In `cells`, two rows of two, the first factor differs between the rows and the second between the columns. The
    effect of a factor at a seed is |mean of the cells at one value - mean of the cells at the other|. Held if the first
    effect exceeds `factor` times the second at the share `held_at` of the seeds; refuted if the second exceeds the
    first at the share `refuted_at`.
    """

    judge: Literal["contrast"]
    cells: Annotated[list[Annotated[list[Selector], _TWO]], _TWO]
    factor: Annotated[float, Field(ge=1)] = 1.0
    held_at: HeldAt = 1.0
    refuted_at: Share = 0.8


class RateRatio(Criterion):
    """The best rate lies near the largest stable one, or far below it; or nearer if a property is larger.

    Among the trials of one seed that differ only in `rate`, the best rate has the best validation value, and the
    largest stable rate is the largest at which the trial neither diverged nor is at chance on the validation split. In
    a suite that tunes `rate` these are the trials of its searches. The judged value is best / largest stable.

    With bounds: held if the ratio lies between them at the share `held_at` of the seeds, refuted if it lies outside at
    the share `refuted_at`. With `against`, the trials `of` are divided by the trials `against` at the same seed. With
    `rises_with` instead, a property such as ``recipe.batch_size``: held if Spearman's correlation of that property with
    the ratio's geometric mean over the seeds is at least `correlation`, refuted if it is 0 or less.
    """

    judge: Literal["rate_ratio"]
    of: Selector
    against: Selector | None = None
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
            raise ValueError("rises_with replaces bounds; give bounds a criterion of their own")
        if self.rises_with is not None and self.against is not None:
            raise ValueError("takes either rises_with or against")
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
            raise ValueError("rates are chosen only by the outcome's validation value")
        return value

    @property
    def varies(self) -> tuple[str, ...]:
        return (self.rate,) if self.rises_with is None else (self.rate, self.rises_with)


class LayerCriterion(Criterion):
    """The keys that criteria on layers share.

    Attributes:
        measure: ``probe.NAME`` of a probe that measures each layer, such as ``probe.parameter_norm``; or
            ``initialization.scale``, the factor by which a tuner scaled each tensor.
        layers: a regular expression that a layer's name must contain.
    """

    layers: Pattern = ".*"

    @model_validator(mode="after")
    def _is_of_layers(self) -> Self:
        if self.measure != SCALE and not self.measure.startswith("probe."):
            raise ValueError(f"needs measure: values per layer, such as probe.parameter_norm or {SCALE}")
        return self


class Layers(LayerCriterion):
    """Values of layers lie between two bounds.

    A seed meets it if the share `share` or more of the layers whose name contains `layers` lies between the bounds.
    With `against` the value is the ratio of `of` to `against`, for the same layer at the same seed. Held if the share
    `held_at` of the seeds meets it; refuted if the share `refuted_at` does not.
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

    The distance at a seed is the mean of |ln(v / r)| over the layers that both have and whose name contains `layers`,
    with v from `of` and r from `reference`. Layers at which both are 0, such as biases, carry no information and are
    left out; if a logarithm is not finite, the distance is infinite. Held if it is at most `at_most` at the share
    `held_at` of the seeds; refuted if it exceeds `refuted_above`, or `at_most` if that is null, at the share
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
    | Difference
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
