"""What a probe measures: a number, a curve, or a value for each layer. Each says how it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        """Return the entry of a record, without its name."""
        return {"kind": self.kind, "value": self.value, "unit": self.unit, "conditions": self.conditions}


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

    Raises:
        InitbenchError: there are not as many places as numbers.
    """

    kind: ClassVar[str] = "curve"
    y: Sequence[float]
    over: str = "depth"
    x: Sequence[float] | None = None
    unit: str = ""
    log: bool = False
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.x is not None and len(self.x) != len(self.y):
            raise InitbenchError(f"a curve of {len(self.y)} values needs as many places, got {len(self.x)}")

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a record, without its name."""
        return {
            "kind": self.kind,
            "x": list(range(len(self.y)) if self.x is None else self.x),
            "y": list(self.y),
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
        """Return the entry of a record, without its name."""
        return {"kind": self.kind, "values": self.values, "unit": self.unit, "conditions": self.conditions}


Measurement = Scalar | Curve | PerLayer


def entries(name: str, measured: Measurement | Mapping[str, Measurement]) -> list[dict[str, Any]]:
    """Return what a record holds of a probe: one entry for each measurement.

    Args:
        name: the probe's, with the arguments that tell it from its default form.
        measured: what it returned: a measurement, or several by a suffix of the name, "" for none.

    Raises:
        InitbenchError: it returned something else.
    """
    several = measured if isinstance(measured, Mapping) else {"": measured}
    found: list[dict[str, Any]] = []
    for suffix, measurement in several.items():
        if not isinstance(measurement, Scalar | Curve | PerLayer):
            raise InitbenchError(
                f"probe {name} must return a Scalar, a Curve, a PerLayer or a mapping to these, "
                f"got {type(measurement).__name__}"
            )
        entry = {"name": f"{name}.{suffix}" if suffix else name} | measurement.to_json()
        found.append(json_values(entry))
    return found
