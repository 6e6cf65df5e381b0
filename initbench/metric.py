"""A metric: what a trial is judged by, and how its values read. No torch: records carry it, and reports print by it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Metric:
    """A number that judges a model on one split.

    Attributes:
        name: as in records, such as ``error``; with a split's name before it where it is of one split (see `on`).
        better: whether ``lower`` or ``higher`` values are.
        label: in words; the name with spaces by default.
        unit: behind a value, such as ``%`` or ``nats``; empty for none.
        difference_unit: behind a difference of two values, such as ``points``; the unit by default.
        scale: a value times this is shown: 100 for a fraction shown in percent.
        show: the format of a scaled value.
        best: the best value that there can be, such as 0 for errors; None where none is known.
        primary: whether it is the outcome of a trial.
        chance: its value for the best constant predictor (`initbench.tasks.chance`), on the split that it is of.
        chance_standard_error: of `chance`, over samples.
    """

    name: str
    better: Literal["lower", "higher"]
    label: str = ""
    unit: str = ""
    difference_unit: str = ""
    scale: float = 1.0
    show: str = "{:.4g}"
    best: float | None = None
    primary: bool = False
    chance: float | None = None
    chance_standard_error: float | None = None

    @property
    def title(self) -> str:
        """The metric in words."""
        return self.label or self.name.replace("_", " ")

    def on(self, split: str) -> Self:
        """Return this metric of one split, whose name stands before the metric's, also in words."""
        return replace(self, name=f"{split}_{self.name}", label=f"{split} {self.title}")

    def oriented(self, value: float) -> float:
        """Return a number that is lower where the value is better: the value, or its negative."""
        return value if self.better == "lower" else -value

    def text(self, value: float) -> str:
        """Return a value as people read it: ``2.50 %``."""
        return _with_unit(self.show.format(self.scale * value), self.unit)

    def difference(self, value: float) -> str:
        """Return a difference of two values as people read it: ``87.20 points``."""
        return _with_unit(self.show.format(self.scale * value), self.difference_unit or self.unit)

    def to_json(self) -> dict[str, Any]:
        """Return the metric as a record holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the metric that a record holds; keys of a later version are passed over."""
        return cls(**{key: value for key, value in data.items() if key in cls.__dataclass_fields__})


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number
