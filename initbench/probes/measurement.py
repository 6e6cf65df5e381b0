"""The measurement of a probe: a number, a curve, or a value per layer, and how it is stored."""

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
    """A number that statistics can use.

    Attributes:
        value: the number.
        conditions: measurement conditions and details: numbers, texts, and lists and mappings of them.
        unit: shown after the value; empty for none.
    """

    kind: ClassVar[str] = "scalar"
    value: float
    conditions: Mapping[str, Any] = field(default_factory=dict)
    unit: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a record, without its name.

        Raises:
            InitbenchError: the value is not a number.
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
        over: the meaning of the places: ``depth``, ``step``, ...
        x: the places; 0, 1, 2, ... by default.
        unit: unit of the numbers; empty for none.
        log: whether the curve is best drawn on a logarithmic axis.
        conditions: as in `Scalar`.
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
            InitbenchError: the numbers of places and values differ, or a place or value is not a number.
        """
        y = [_number(value, "a value of a curve") for value in self.y]
        x = [_number(position, "a place of a curve") for position in (range(len(y)) if self.x is None else self.x)]
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
        unit: unit of the numbers; empty for none.
        conditions: as in `Scalar`.
    """

    kind: ClassVar[str] = "per_layer"
    values: Mapping[str, float]
    unit: str = ""
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a record, without its name.

        Raises:
            InitbenchError: a value is not a number.
        """
        numbers = [_number(value, f"the value of {name}") for name, value in self.values.items()]
        # The reasons for non-finite values are stored beside them: among them, a layer's name might clash.
        stored: dict[str, Any] = json_values({"values": numbers})
        stored["values"] = dict(zip(map(str, self.values), stored["values"], strict=True))
        return {"kind": self.kind} | stored | {"unit": self.unit, "conditions": self.conditions}


Measurement = Scalar | Curve | PerLayer
"""The measurement of a probe."""


def entries(name: str, measured: Measurement | Mapping[str, Measurement]) -> list[dict[str, Any]]:
    """Return the entries of a probe in a record, one for each measurement.

    A number that is not finite becomes None, and its text is stored under ``value_reason``, ``y_reason`` or
    ``values_reason``. A mapping contains several measurements by a suffix of the name, "" for none. Anything else, and
    conditions that are not plain data, raise an InitbenchError.
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
    """Return a number as a Python number; also accepts a tensor or array with one number."""
    number = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(number, bool) or not isinstance(number, Real):
        raise InitbenchError(f"{what} must be a number, got {type(value).__name__}")
    return number if isinstance(number, int | float) else float(number)
