"""A metric that judges trials, and the format of its values. No torch, because reports use it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

_MINUS_ZERO = re.compile(r"-[0.,]*(e[+-]?\d+)?")


@dataclass(frozen=True)
class Metric:
    """A number that judges a model on one split.

    Attributes:
        name: as in records, such as ``error``; prefixed with the split's name if it is for one split (see `on`).
        better: whether ``lower`` or ``higher`` values are better.
        label: the name in words; the name with spaces by default.
        unit: shown after a value, such as ``nats``; empty for none. A value in ``%`` is a share, stored as a fraction
            from 0 to 1.
        difference_unit: shown after a difference of two values, such as ``percentage points``; the unit by default.
        scale: factor for display: 100 for a fraction shown in percent.
        show: the format of a scaled value.
        best: the best possible value, such as 0 for errors; None if unknown.
        primary: whether it is the outcome of a trial.
        chance: its value for the best constant predictor (`initbench.tasks.describe`) on the same split.
        chance_standard_error: standard error of `chance` over samples.
        split: the split, such as ``test``; empty before `on`.
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
    split: str = ""

    @property
    def title(self) -> str:
        """The metric in words, including its split if it has one."""
        return self.label or self.name.replace("_", " ")

    @property
    def quantity(self) -> str:
        """The metric in words, without its split: ``error``."""
        return self.title.removeprefix(f"{self.split} ") if self.split else self.title

    @property
    def plural(self) -> str:
        """Several values in words."""
        return f"{self.title}s" if self.title.endswith(("error", "outcome")) else f"values of {self.title}"

    @property
    def points(self) -> str:
        """The unit of a difference in running text: a percentage point is a point."""
        return (self.difference_unit or self.unit).removeprefix("percentage ")

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and largest possible value: 0 and 1 for a share, otherwise `best` on one side; ±∞ if unknown."""
        if self.unit == "%":
            return 0.0, 1.0
        if self.best is None:
            return -math.inf, math.inf
        return (self.best, math.inf) if self.better == "lower" else (-math.inf, self.best)

    @property
    def largest_difference(self) -> float:
        """The largest possible difference of two values: 1 for a share, otherwise +∞."""
        return 1.0 if self.unit == "%" else math.inf

    @property
    def beside_title(self) -> Self:
        """The metric for values shown next to its title, which may contain the unit: ``3.513 test bits per byte``.

        Use it only to format values, not to compute with them.
        """
        return replace(self, unit="") if _says(self.title, self.unit) else self

    def on(self, split: str) -> Self:
        """Return this metric for one split, whose name precedes the metric's, also in words."""
        return replace(self, name=f"{split}_{self.name}", label=f"{split} {self.title}", split=split)

    def oriented(self, value: float) -> float:
        """Return a number that is lower for better values: the value or its negative; a second call undoes it."""
        return value if self.better == "lower" else 0.0 - value  # never -0

    def number(self, value: float) -> str:
        """Return a value for display without its unit: ``2.50``; a value that rounds to 0 has no sign."""
        number = self.show.format(self.scale * value)
        return number[1:] if _MINUS_ZERO.fullmatch(number) else number

    def text(self, value: float, half_width: float = math.nan) -> str:
        """Return a value for display: ``2.50 %``, ``2.50 ± 0.30 %``, or an en dash for NaN."""
        if math.isnan(value):
            return "–"
        interval = "" if math.isnan(half_width) else f" ± {self.number(half_width)}"
        return f"{self.number(value)}{interval}" + (f"\N{NO-BREAK SPACE}{self.unit}" if self.unit else "")

    def brief(self, value: float, unit: bool = True) -> str:
        """Return a value for a sentence: a percentage with one decimal, ``2.5 %``; others as in `text`.

        Args:
            value: in its stored unit; NaN is an en dash.
            unit: whether the unit follows.
        """
        rounded = replace(self, show="{:.1f}" if self.unit == "%" else self.show, unit=self.unit if unit else "")
        return rounded.text(value)

    def difference(self, value: float) -> str:
        """Return a difference of two values for display: ``87.20 points``."""
        return f"{self.number(value)} {self.points}".rstrip()

    def amount(self, value: float) -> str:
        """Return a difference to precede the metric's title, which may contain the unit: ``0.050`` bits."""
        return self.number(value) if _says(self.title, self.points) else self.difference(value)

    def signed(self, value: float) -> str:
        """Return a difference with its sign and without its unit, for tables: ``+1.30``."""
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "-∞" if value < 0 else "∞"
        number = self.number(value)
        return number if number.startswith("-") else f"+{number}"

    def to_json(self) -> dict[str, Any]:
        """Return the metric as stored in a record."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the metric stored in a record; keys of later versions are ignored."""
        return cls(**{key: value for key, value in data.items() if key in cls.__dataclass_fields__})


def _says(title: str, unit: str) -> bool:
    return bool(unit) and re.search(rf"(?<!\w){re.escape(unit)}(?!\w)", title) is not None
