"""A record in a few lines: what was done to how many parameters, and by how much."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from initbench.initializers.events import REASONS, SET_TO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from initbench.initializers.events import Event
    from initbench.initializers.record import InitializationRecord

_NUMBERS = ("std", "bound", "gain", "kaiming_factor")
_NAMED = 3


def summary(record: InitializationRecord) -> str:
    """Return a line for each thing that was done: what, to how many parameters, and by how much.

    A parameter that was drawn and then scaled is in both lines. The weights that the initializer passed over come last,
    with the reason.
    """
    rows: dict[tuple[str, str], list[Event]] = {}
    for events in record.tensors.values():
        for event in events:
            if not (event["event"] == "left" and len(events) > 1):  # what was drawn and then left is drawn
                rows.setdefault(_row(event), []).append(event)
    width = max((len(str(len(found))) for found in rows.values()), default=0)
    coverage = record.coverage
    lines = [f"{record.initializer}, seed {record.seed}" + (f": {coverage.in_words()}" if coverage else "")]
    lines += [f"  {what:7}  {len(found):{width}}  {_how(what, found)}" for (what, _), found in rows.items()]
    passed_over = list(coverage.passed_over.items()) if coverage else []
    lines += [f"  passed over: {name}: {reason}" for name, reason in passed_over[:_NAMED]]
    if len(passed_over) > _NAMED:
        lines.append(f"  passed over: {len(passed_over) - _NAMED} more, see record.coverage")
    return "\n".join(lines)


def _row(event: Event) -> tuple[str, str]:
    """Return what was done, and what keeps events of a kind apart from others of it."""
    match event["event"]:
        case "drawn":
            return "drawn", f"{event['law']} {event.get('part', '')}"
        case "filled" | "set_to" | "set_by":
            return "set", ""
        case other:
            return other, ""


def _how(what: str, events: list[Event]) -> str:
    match what:
        case "drawn":
            part = f" as {events[0]['part']}" if "part" in events[0] else ""
            return ", ".join([f"{events[0]['law']}{part}", *_laws_numbers(events)])
        case "set":
            return _counted(_value(event) for event in events)
        case "scaled":
            return f"by {_range(event['factor'] for event in events)}"
        case "shifted":
            return f"by {_range(event['by'] for event in events)}"
        case "left":
            return _counted(_reason(event) for event in events)
        case _:
            return "to others"


def _laws_numbers(events: list[Event]) -> list[str]:
    found = {name: [event[name] for event in events if name in event] for name in _NUMBERS}
    words = {"bound": "within ±", "kaiming_factor": "kaiming × "}
    return [words.get(name, f"{name} ") + _range(values) for name, values in found.items() if values]


def _range(numbers: Iterable[float]) -> str:
    ordered = sorted(numbers)
    least, most = f"{ordered[0]:.4g}", f"{ordered[-1]:.4g}"
    return least if least == most else f"{least} to {most}"


def _value(event: Event) -> str:
    if event["event"] == "filled":
        return f"to {event['value']:g}"
    return f"by {event['initializer']}" if event["event"] == "set_by" else f"to {SET_TO.get(event['to'], event['to'])}"


def _reason(event: Event) -> str:
    reason: Any = event["reason"]
    if reason is None:
        return "as the model was built"
    words: str = REASONS.get(reason, reason).format(layer="the layer")
    return words.removeprefix("untouched: ")


def _counted(words: Iterable[str]) -> str:
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{word} ({number})" for word, number in counts.items())
