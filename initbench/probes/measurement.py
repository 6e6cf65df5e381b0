"""What a probe measures: a number, a curve, or a value for each layer. Each says how it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar

from initbench.errors import InitbenchError
from initbench.json_values import json_values


@dataclass(frozen=True)
class Scalar:
    """A number, which statistics take.

    Attributes:
        value: the number.
        conditions: what it was measured under, and its details: numbers, texts, lists and mappings of them.
        unit: behind the value; empty for none.
    """

    kind: ClassVar[str] = "scalar"
    value: float
    conditions: Mapping[str, Any] = field(default_factory=dict)
    unit: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a record, without its name.

        Raises:
            InitbenchError: the value is no number.
        """
        return {
            "kind": self.kind,
            "value": _number(self.value, "the value"),
            "unit": self.unit,
            "conditions": self.conditions,
        }


@dataclass(frozen=True)
class Curve:
    """A number at each of several places, such as depths or steps.

    Attributes:
        y: the numbers.
        over: what the places are: ``depth``, ``step``, ...
        x: the places; 0, 1, 2, ... by default.
        unit: of the numbers; empty for none.
        log: whether it is best drawn on a logarithmic axis.
        conditions: as of `Scalar`.

    """

    kind: ClassVar[str] = "curve"
    y: Sequence[float]
    over: str = "depth"
    x: Sequence[float] | None = None
    unit: str = ""
    log: bool = False
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a record, without its name.

        Raises:
            InitbenchError: there are not as many places as values, or one is no number.
        """
        y = [_number(value, "a value of a curve") for value in self.y]
        x = [_number(place, "a place of a curve") for place in (range(len(y)) if self.x is None else self.x)]
        if len(x) != len(y):
            raise InitbenchError(f"a curve of {len(y)} values needs as many places, got {len(x)}")
        return {
            "kind": self.kind,
            "x": x,
            "y": y,
            "over": self.over,
            "unit": self.unit,
            "log": self.log,
            "conditions": self.conditions,
        }


@dataclass(frozen=True)
class PerLayer:
    """A number for each layer or parameter, by name and in the model's order.

    Attributes:
        values: name → number.
        unit: of the numbers; empty for none.
        conditions: as of `Scalar`.
    """

    kind: ClassVar[str] = "per_layer"
    values: Mapping[str, float]
    unit: str = ""
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a record, without its name.

        Raises:
            InitbenchError: a value is no number.
        """
        numbers = [_number(value, f"the value of {name}") for name, value in self.values.items()]
        # What is not finite is told beside the values, not among them, where a layer may have any name.
        stored: dict[str, Any] = json_values({"values": numbers})
        stored["values"] = dict(zip(map(str, self.values), stored["values"], strict=True))
        return {"kind": self.kind} | stored | {"unit": self.unit, "conditions": self.conditions}


Measurement = Scalar | Curve | PerLayer
"""What a probe measures."""


def entries(name: str, measured: Measurement | Mapping[str, Measurement]) -> list[dict[str, Any]]:
    """Return what a record holds of a probe: one entry for each measurement.

    A number that is not finite is None there, and the text of such numbers stands beside it: under ``value_reason``,
    ``y_reason`` or ``values_reason``. A mapping has several measurements by a suffix of the name, "" for none.
    Something else, values that are no numbers, or conditions that are no plain data are an InitbenchError.
    """
    several = measured if isinstance(measured, Mapping) else {"": measured}
    return [_entry(f"{name}.{suffix}" if suffix else name, measurement) for suffix, measurement in several.items()]


def _entry(name: str, measurement: Measurement) -> dict[str, Any]:
    if not isinstance(measurement, Scalar | Curve | PerLayer):
        raise InitbenchError(
            f"probe {name} must return a Scalar, a Curve, a PerLayer or a mapping to these, "
            f"got {type(measurement).__name__}"
        )
    try:
        entry: dict[str, Any] = json_values({"name": name} | measurement.to_json())
        json.dumps(entry, allow_nan=False)
    except InitbenchError as error:
        raise InitbenchError(f"probe {name}: {error}") from error
    except (TypeError, ValueError) as error:
        raise InitbenchError(f"probe {name}: its conditions must be plain data: {error}") from error
    return entry


def _number(value: Any, what: str) -> float:
    """Return a number as Python's; a tensor or array of one number is one, all else is an InitbenchError."""
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(number, bool) or not isinstance(number, Real):
        raise InitbenchError(f"{what} must be a number, got {type(value).__name__}")
    return number if isinstance(number, int | float) else float(number)
