"""What an initializer did to each parameter: events as plain data, their record, and both in words.

An event is a mapping with the key ``event`` and fields of its own; a record and its JSON have the same fields:

- ``drawn``: ``law``, and the law's numbers, such as ``std``, ``bound`` or ``gain``.
- ``filled``: ``value``, the same for all entries.
- ``scaled``: ``factor``; if the layer runs several times, the factor is for its first run and ``runs`` counts them.
- ``shifted``: ``by``.
- ``set_to``: ``to``, the name of the values, see `SET_TO`.
- ``set_by``: ``initializer``, which did not say what it did.
- ``left``: ``reason``, None if there was nothing to do, see `REASONS`; and ``layer``, which the reason is about.
- ``tied``: ``to``, the name under which the parameter was set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from initbench.json_values import json_values

Event = Mapping[str, Any]
Law = dict[str, Any]
"""A probability law: its name under ``law``, and its numbers."""

SET_TO = {
    "norms": "‖v‖",
    "profiled": "the deviation that the branches before it have added up",
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
    "not_called": "not scaled: it is passed directly to a function, so the outputs of {layer} alone cannot be observed",
    "not_run": "untouched: {layer} does not run in the forward pass",
    "shared": "not scaled for {layer}, which shares it",
}
"""Why a parameter was left as it is; an initializer may also give a reason in its own words."""

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
    """Describe the law and its numbers; numbers of a plug-in's law appear under their own names."""
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


@dataclass(frozen=True)
class Coverage:
    """Which of a model's weights were set. Trainable weights of layers count, each once; g·v/‖v‖ counts as one.

    Attributes:
        weights: how many there are.
        set: how many were drawn, filled, scaled or set in another way.
        passed_over: reasons for those that were not set, or that a tuner left out, by the parameters' names.
    """

    weights: int
    set: int
    passed_over: dict[str, str] = field(default_factory=dict)

    def in_words(self) -> str:
        """Return ``19 of 21 weights set``."""
        return f"{self.set} of {self.weights} weights set"


@dataclass
class InitializationRecord:
    """What an initialization did; prints as a short table.

    Attributes:
        initializer: registered name.
        arguments: all its arguments, as plain data.
        seed: the trial's seed.
        tensors: the events of each parameter, in order, see `initbench.initializers.record`.
        history: for each step of a tuner, its objective and similar values.
        conditions: conditions under which a tuner worked.
        coverage: which of the model's weights were set; None until known.
        cost: numbers of ``forward`` and ``backward`` passes over a batch.
        seconds: wall-clock time.
        learning_rate_multipliers: by parameter name; 1 if missing.
        weight_decay_multipliers: the same for the weight decay.
        epsilon_multipliers: the same for ε of Adam and AdamW.
    """

    initializer: str
    arguments: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    tensors: dict[str, list[Event]] = field(default_factory=dict)
    history: list[dict[str, float | None]] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    coverage: Coverage | None = None
    cost: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0})
    seconds: float = 0.0
    learning_rate_multipliers: dict[str, float] = field(default_factory=dict)
    weight_decay_multipliers: dict[str, float] = field(default_factory=dict)
    epsilon_multipliers: dict[str, float] = field(default_factory=dict)
    _parameters: dict[str, nn.Parameter] = field(default_factory=dict, repr=False, compare=False)

    def drawn(self, name: str, law: str, **numbers: Any) -> None:
        """Record that a parameter's values were drawn from a law (``normal``), and the law's numbers (``std``)."""
        self._add(name, "drawn", law=law, **numbers)

    def filled(self, name: str, value: float, **further: Any) -> None:
        """Record that all entries of a parameter were set to one value."""
        self._add(name, "filled", value=value, **further)

    def scaled(self, name: str, factor: float, runs: int = 1) -> None:
        """Record that a parameter was multiplied; if its layer runs several times, the factor is for the first run."""
        self._add(name, "scaled", factor=factor, **({"runs": runs} if runs > 1 else {}))

    def shifted(self, name: str, by: float) -> None:
        """Record that a number was added to all entries of a parameter."""
        self._add(name, "shifted", by=by)

    def set_to(self, name: str, to: str, **further: Any) -> None:
        """Record that a parameter was set to values with a name in `SET_TO`."""
        self._add(name, "set_to", to=to, **further)

    def set_by(self, name: str, initializer: str) -> None:
        """Record that a parameter was set by an initializer that did not say how."""
        self._add(name, "set_by", initializer=initializer)

    def left(self, name: str, reason: str | None = None, layer: str | None = None) -> None:
        """Record that a parameter was left as it is.

        `reason` is a key of `REASONS`, or other words; None if there was nothing to do. `layer` is the layer that the
        reason is about.
        """
        self._add(name, "left", reason=reason, **({} if layer is None else {"layer": layer}))

    def tied(self, name: str, to: str) -> None:
        """Record a further name of a parameter that was set under another name."""
        self._add(name, "tied", to=to)

    def _add(self, name: str, event: str, **fields: Any) -> None:
        self.tensors.setdefault(name, []).append({"event": event, **fields})

    def parameter_groups(
        self, lr: float, weight_decay: float | None = None, epsilon: float | None = None
    ) -> list[dict[str, Any]]:
        """Return parameter groups for an optimizer, one per combination of multipliers, without frozen parameters.

        Args:
            lr: learning rate of parameters without a multiplier.
            weight_decay: the same for the weight decay; None leaves it to the optimizer, without multipliers.
            epsilon: the same for ``eps`` of Adam and AdamW.
        """
        given = {"lr": lr, "weight_decay": weight_decay, "eps": epsilon}
        multipliers = {
            "lr": self.learning_rate_multipliers,
            "weight_decay": self.weight_decay_multipliers,
            "eps": self.epsilon_multipliers,
        }
        options = {option: value for option, value in given.items() if value is not None}
        groups: dict[tuple[float, ...], list[nn.Parameter]] = {}
        for name, parameter in self._parameters.items():
            if parameter.requires_grad:
                key = tuple(value * multipliers[option].get(name, 1.0) for option, value in options.items())
                groups.setdefault(key, []).append(parameter)
        return [{"params": parameters, **dict(zip(options, key, strict=True))} for key, parameters in groups.items()]

    def lines(self) -> list[str]:
        """Return a line for each parameter: its name and what was done to it."""
        width = max(map(len, self.tensors), default=0)
        return [f"{name:{width}}  {'; '.join(map(describe, events))}" for name, events in self.tensors.items()]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; non-finite numbers become None with a reason beside them (see `json_values`).

        Weight-decay and ε multipliers are left out if there are none.
        """
        fields = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        fields["coverage"] = None if self.coverage is None else vars(self.coverage)
        for name in ("weight_decay_multipliers", "epsilon_multipliers"):  # few initializers have them
            if not fields[name]:
                del fields[name]
        return json_values(fields)

    def __str__(self) -> str:
        return summary(self)


_NUMBERS = ("std", "bound", "gain", "kaiming_factor")
_NAMED = 3


def summary(record: InitializationRecord) -> str:
    """Summarize a record: a line for each kind of event with the number of parameters and the amount.

    A parameter that was drawn and then scaled appears in both lines. Weights that the initializer passed over come
    last, with the reason.
    """
    rows: dict[tuple[str, str], list[Event]] = {}
    for events in record.tensors.values():
        for event in events:
            if not (event["event"] == "left" and len(events) > 1):  # if drawn and then left, it counts as drawn
                rows.setdefault(_row(event), []).append(event)
    width = max((len(str(len(events))) for events in rows.values()), default=0)
    coverage = record.coverage
    lines = [f"{record.initializer}, seed {record.seed}" + (f": {coverage.in_words()}" if coverage else "")]
    lines += [f"  {what:7}  {len(events):{width}}  {_how(what, events)}" for (what, _), events in rows.items()]
    passed_over = list(coverage.passed_over.items()) if coverage else []
    lines += [f"  passed over: {name}: {reason}" for name, reason in passed_over[:_NAMED]]
    if len(passed_over) > _NAMED:
        lines.append(f"  passed over: {len(passed_over) - _NAMED} more, see record.coverage")
    return "\n".join(lines)


def _row(event: Event) -> tuple[str, str]:
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
    numbers = {name: [event[name] for event in events if name in event] for name in _NUMBERS}
    words = {"bound": "within ±", "kaiming_factor": "kaiming × "}
    return [words.get(name, f"{name} ") + _range(values) for name, values in numbers.items() if values]


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
    words: str = REASONS[reason].format(layer="the layer") if reason in REASONS else reason
    return words.removeprefix("untouched: ")


def _counted(words: Iterable[str]) -> str:
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{word} ({number})" for word, number in counts.items())
