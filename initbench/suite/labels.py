"""Labels: the shortest names by which the components of a suite can be told apart.

``metainit(delta_orthogonal)``, ``delta_orthogonal[gain=2]``: a name, in brackets every argument that varies among the
components of that name (defaults too), in parentheses the base. What a rule sets varies with the pair and is left out.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.validation import show

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def component_labels(
    components: Sequence[Mapping[str, Any]],
    ignore: Sequence[Collection[str]] | None = None,
    always: Collection[str] = (),
) -> list[str]:
    """Return one label for each component.

    Args:
        components: as in a trial record's spec: ``name``, ``arguments`` and, for tuners, ``base`` and ``batch_size``.
        ignore: for each component, the arguments that a rule has set.
        always: arguments that are shown even where they do not vary.
    """
    ignored = ignore if ignore is not None else [()] * len(components)
    bases = [c.get("base") for c in components]
    # Bases are told apart from one another, not from the same distribution used without a tuner.
    base_labels = iter(component_labels([b for b in bases if b]) if any(bases) else ())
    parts = [f"({next(base_labels)})" if b else "" for b in bases]
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for component, skip in zip(components, ignored, strict=True):
        for key, value in _arguments(component).items():
            if key not in skip:
                values[component["name"], key].add(repr(value))
    labels = []
    for component, skip, base in zip(components, ignored, parts, strict=True):
        name = component["name"]
        shown = [
            f"{key}={_value(value)}"
            for key, value in _arguments(component).items()
            if key not in skip and (key in always or len(values[name, key]) > 1)
        ]
        labels.append(name + (f"[{', '.join(shown)}]" if shown else "") + base)
    return labels


def initializer_labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the initializer's label for each spec (a `TrialSpec` as plain data)."""
    return component_labels([s["initializer"] for s in specs], [_set_by_rules(s, "initializer") for s in specs])


def architecture_labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the architecture's label for each spec; depth and width are always shown."""
    labels = component_labels(
        [s["architecture"] for s in specs],
        [_set_by_rules(s, "architecture") for s in specs],
        always=("depth", "width"),
    )
    return [
        label if s["scheme"] == "standard" else f"{label} + {s['scheme']}"
        for label, s in zip(labels, specs, strict=True)
    ]


def _set_by_rules(spec: Mapping[str, Any], kind: str) -> set[str]:
    return {key.partition(".")[2] for key in spec["set_by_rules"] if key.startswith(kind + ".")}


def _arguments(component: Mapping[str, Any]) -> dict[str, Any]:
    arguments = dict(component["arguments"])
    if component.get("batch_size") is not None:
        arguments["batch_size"] = component["batch_size"]
    return arguments


def _value(value: Any) -> str:
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return value if isinstance(value, str) else show(value)
