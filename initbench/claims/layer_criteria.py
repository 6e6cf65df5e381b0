"""Criteria on values per layer: of a probe that measures each layer, or the factors by which a tuner scaled tensors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from initbench.claims.criterion import SCALE, Criterion, HeldAt, Pattern, Selector, Share, check_bounds


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

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        check_bounds(self.at_least, self.at_most)
        return self

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The one side, and the other where there is one."""
        return {"of": self.of} if self.against is None else {"of": self.of, "against": self.against}


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

    @property
    def selectors(self) -> dict[str, dict[str, Any]]:
        """The two sides."""
        return {"of": self.of, "reference": self.reference}
