"""A metric: what a trial is judged by, and how its values read. No torch: records carry it, and reports print by it."""

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
        name: as in records, such as ``error``; with a split's name before it where it is of one split (see `on`).
        better: whether ``lower`` or ``higher`` values are.
        label: in words; the name with spaces by default.
        unit: behind a value, such as ``nats``; empty for none. A value in ``%`` is a share, which is stored as a
            fraction from 0 to 1.
        difference_unit: behind a difference of two values, such as ``percentage points``; the unit by default.
        scale: a value times this is shown: 100 for a fraction shown in percent.
        show: the format of a scaled value.
        best: the best value that there can be, such as 0 for errors; None where none is known.
        primary: whether it is the outcome of a trial.
        chance: its value for the best constant predictor (`initbench.tasks.describe`), on the split that it is of.
        chance_standard_error: of `chance`, over samples.
        split: that it is of, such as ``test``; empty before `on`.
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
        """The metric in words, with its split where it is of one."""
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
        """The unit of a difference as running text has it: a percentage point is a point."""
        return (self.difference_unit or self.unit).removeprefix("percentage ")

    @property
    def largest_difference(self) -> float:
        """The largest difference that two values can have: 1 for a share, else +∞."""
        return 1.0 if self.unit == "%" else math.inf

    @property
    def beside_title(self) -> Self:
        """The metric as its values read beside its title, which may say the unit: ``3.513 test bits per byte``.

        It is for writing values, not for reckoning with them.
        """
        return replace(self, unit="") if _says(self.title, self.unit) else self

    def on(self, split: str) -> Self:
        """Return this metric of one split, whose name stands before the metric's, also in words."""
        return replace(self, name=f"{split}_{self.name}", label=f"{split} {self.title}", split=split)

    def oriented(self, value: float) -> float:
        """Return a number that is lower where the value is better: the value, or its negative; and back again."""
        return value if self.better == "lower" else 0.0 - value  # of 0 no -0

    def number(self, value: float) -> str:
        """Return a value as people read it, without its unit: ``2.50``; one that rounds to 0 has no sign."""
        number = self.show.format(self.scale * value)
        return number[1:] if _MINUS_ZERO.fullmatch(number) else number

    def text(self, value: float, half_width: float = math.nan) -> str:
        """Return a value as people read it: ``2.50 %``, ``2.50 ± 0.30 %``, or an en dash where it is NaN."""
        if math.isnan(value):
            return "–"
        interval = "" if math.isnan(half_width) else f" ± {self.number(half_width)}"
        return f"{self.number(value)}{interval}" + (f"\N{NO-BREAK SPACE}{self.unit}" if self.unit else "")

    def brief(self, value: float, unit: bool = True) -> str:
        """Return a value as a sentence has it: a percentage with one decimal, ``2.5 %``; others as `text` does.

        Args:
            value: in the unit in which it is stored; NaN is an en dash.
            unit: whether the unit follows.
        """
        rounded = replace(self, show="{:.1f}" if self.unit == "%" else self.show, unit=self.unit if unit else "")
        return rounded.text(value)

    def difference(self, value: float) -> str:
        """Return a difference of two values as people read it: ``87.20 points``."""
        return f"{self.number(value)} {self.points}".rstrip()

    def amount(self, value: float) -> str:
        """Return a difference as it stands before the metric's title, which may have the unit: ``0.050`` bits."""
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
        """Return the metric as a record holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the metric that a record holds; keys of a later version are passed over."""
        return cls(**{key: value for key, value in data.items() if key in cls.__dataclass_fields__})


def _says(title: str, unit: str) -> bool:
    return bool(unit) and re.search(rf"(?<!\w){re.escape(unit)}(?!\w)", title) is not None
