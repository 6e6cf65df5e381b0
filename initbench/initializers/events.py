"""What an initializer did to a parameter: events as plain data, and the one place that puts them into words.

An event is a mapping with the key ``event`` and fields of its own; a record and its JSON hold the same:

- ``drawn``: ``law``, and the law's numbers, such as ``std``, ``bound`` or ``gain``.
- ``filled``: ``value``, that of all entries.
- ``scaled``: ``factor``, and ``runs`` where it is for the first of several runs of a layer.
- ``shifted``: ``by``.
- ``set_to``: ``to``, which values, see `SET_TO`.
- ``set_by``: ``initializer``, which did not say what it did.
- ``left``: ``reason``, None where there is nothing to do, see `REASONS`; and ``layer``, which the reason is about.
- ``tied``: ``to``, the name under which the parameter was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Event = Mapping[str, Any]
Law = dict[str, Any]
"""What values were drawn from: its name as ``law``, and its numbers."""

SET_TO = {
    "norms": "‖v‖",
    "inverse_deviations": "1/σ of each channel",
    "standardizing_shifts": "-μ/σ of each channel",
}
REASONS = {
    "frozen": "untouched: frozen",
    "unused": "untouched: the loss does not use it",
    "zero": "not scaled: zero",
    "zero_gain": "kept: its gain is 0",
    "frozen_gain": "untouched: its gain is frozen",
    "frozen_direction": "untouched: its direction is frozen",
    "no_layer_weight": "not scaled: it is no weight of a convolution or linear layer",
    "not_proportional": "not scaled: the outputs of {layer} are not proportional to it",
    "not_called": "not scaled: a function is given it, so that the outputs of {layer} alone are not seen",
    "not_run": "untouched: {layer} puts out nothing in the forward pass",
    "shared": "not scaled for {layer}, which shares it",
}
"""Why a parameter was left as it is; an initializer may have a reason of its own, in words."""

_LAW_NUMBERS = {
    "std": "std {:.4g}",
    "bound": "within ±{:.4g}",
    "gain": "gain {:g}",
    "kaiming_factor": "kaiming × {:.4g}",
    "order": "of order {}",
    "centre": "even kernel, centre at {}",
    "padding_row": "row {} is padding and 0",
}


def changes(event: Event) -> bool:
    """Return whether an event says that the parameter's values were set."""
    return event["event"] not in {"left", "tied"}


def describe(event: Event) -> str:
    """Return an event in words, such as ``drawn: normal, std 0.1179`` or ``scaled by 0.43``."""
    match event["event"]:
        case "drawn":
            return _drawn(event)
        case "filled":
            return ("zeroed" if event["value"] == 0 else f"set to {event['value']:g}") + _as_direction(event)
        case "scaled":
            runs = f"; its layer runs {event['runs']} times, this is for the first" if "runs" in event else ""
            return f"scaled by {event['factor']:.4g}{runs}"
        case "shifted":
            return f"shifted by {event['by']:.4g}"
        case "set_to":
            zeros = ", 0 where the weight is 0" if event.get("zeros") else ""
            return f"set to {SET_TO.get(event['to'], event['to'])}{zeros}"
        case "set_by":
            return f"set by {event['initializer']}"
        case "left":
            if event["reason"] is None:
                return "untouched"
            known = REASONS.get(event["reason"])
            return f"untouched: {event['reason']}" if known is None else known.format(layer=event.get("layer"))
        case _:
            return f"tied to {event['to']}"


def _drawn(event: Event) -> str:
    """Return the law and its numbers; those of a plug-in's law under their own names."""
    parts = [str(event["law"])]
    for name, value in event.items():
        if name == "keeps_norm":
            parts += [] if value else ["more inputs than outputs, norm not kept"]
        elif name not in {"event", "law", "part", "direction"}:
            shown = tuple(value) if isinstance(value, list) else value
            words = f"{name} {shown:.4g}" if isinstance(shown, float) else f"{name} {shown}"
            parts.append(_LAW_NUMBERS[name].format(shown) if name in _LAW_NUMBERS else words)
    part = f" as {event['part']}" if "part" in event else ""
    return f"drawn{part}: {', '.join(parts)}{_as_direction(event)}"


def _as_direction(event: Event) -> str:
    return ", as v" if event.get("direction") else ""
