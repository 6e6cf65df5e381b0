"""Labels: the shortest names by which the components of a suite can be told apart.

``metainit(delta_orthogonal)``, ``delta_orthogonal[gain=2]``: a name, in brackets every argument that varies among the
components of that name (defaults too), in parentheses the components among its arguments. What a rule sets or a search
chooses varies with the pair and is left out of the brackets. Of datasets that differ in their content alone, the
content stands there too: ``python_library[content=1ac505f5]``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from initbench.arguments import show

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_COMPONENT = {"name", "arguments", "version", "source"}


def is_component(value: Any) -> bool:
    """Return whether an argument's value is a component itself, such as the initializer that a tuner starts from."""
    return isinstance(value, Mapping) and value.keys() >= _COMPONENT and isinstance(value["arguments"], Mapping)


def component_labels(
    components: Sequence[Mapping[str, Any]],
    ignore: Sequence[Collection[str]] | None = None,
    always: Collection[str] = (),
) -> list[str]:
    """Return one label for each component.

    Args:
        components: as in a trial record's spec: ``name`` and ``arguments``.
        ignore: for each component, the arguments that a rule has set or a search chooses.
        always: arguments that are shown even where they do not vary.
    """
    ignored = ignore if ignore is not None else [()] * len(components)
    nested = nested_labels(components)
    # Where some have a component and others null, null says that there is none.
    inner = {(c["name"], key) for c, found in zip(components, nested, strict=True) for key in found}
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for component, skip in zip(components, ignored, strict=True):
        for key, value in component["arguments"].items():
            if key not in skip and (component["name"], key) not in inner:
                values[component["name"], key].add(repr(value))
    labels = []
    for component, skip, found in zip(components, ignored, nested, strict=True):
        name = component["name"]
        shown = [
            f"{key}={value_text(value)}"
            for key, value in component["arguments"].items()
            if key not in skip and (name, key) not in inner and (key in always or len(values[name, key]) > 1)
        ]
        brackets = f"[{', '.join(shown)}]" if shown else ""
        labels.append(name + brackets + (f"({', '.join(found.values())})" if found else ""))
    return labels


def nested_labels(components: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return for each component the labels of the components among its arguments, by argument.

    They are told apart from one another, not from the same component that stands by itself.
    """
    found = [
        {key: value for key, value in component["arguments"].items() if is_component(value)} for component in components
    ]
    every = [value for own in found for value in own.values()]
    labels = iter(component_labels(every) if every else ())
    return [{key: next(labels) for key in own} for own in found]


def initializer_labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the initializer's label for each spec (a `TrialSpec` as plain data)."""
    return component_labels([s["initializer"] for s in specs], [ignored_arguments(s, "initializer") for s in specs])


def architecture_labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the architecture's label for each spec; depth and width are always shown."""
    labels = component_labels(
        [s["architecture"] for s in specs], [ignored_arguments(s, "architecture") for s in specs], ALWAYS
    )
    return [with_scheme(label, s["scheme"]) for label, s in zip(labels, specs, strict=True)]


ALWAYS = ("depth", "width")
"""The arguments of an architecture that its label always shows."""


def with_scheme(label: str, scheme: str) -> str:
    """Return an architecture's label with the scheme that it is built with."""
    return label if scheme == "standard" else f"{label} + {scheme}"


def with_contents(datasets: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return datasets that have their content among their arguments, where that is needed to tell them apart.

    That is where two have one name and equal arguments, and other content: the bytes of one Python's library and of
    another's. All of that name have it then, as 8 digits of its hash, more where these are equal.

    Args:
        datasets: as in a trial record's spec; what has no ``content`` is known by its name and arguments.
    """
    short = same_names(datasets)
    return [
        {**dataset, "arguments": {**dataset["arguments"], "content": short[dataset["name"]][dataset.get("content")]}}
        if dataset["name"] in short
        else dataset
        for dataset in datasets
    ]


def same_names(datasets: Iterable[Mapping[str, Any]]) -> dict[str, dict[str | None, str]]:
    """Return the names that stand for datasets of equal arguments and other content, and each content in few digits.

    Args:
        datasets: as in a trial record's spec.
    """
    found: dict[str, dict[str, set[str | None]]] = defaultdict(lambda: defaultdict(set))
    for dataset in datasets:
        found[dataset["name"]][repr(sorted(dataset["arguments"].items()))].add(dataset.get("content"))
    return {
        name: _short({content for own in alike.values() for content in own})
        for name, alike in found.items()
        if any(len(own) > 1 for own in alike.values())
    }


_LEAST_DIGITS = 8


def _short(contents: Collection[str | None]) -> dict[str | None, str]:
    """Return each content in few digits that none of the others begins with."""
    digits = {content: "none" if content is None else content.rpartition(":")[2] for content in contents}
    longest = max(map(len, digits.values()))
    for length in range(_LEAST_DIGITS, longest):
        if len({text[:length] for text in digits.values()}) == len(digits):
            return {content: text[:length] for content, text in digits.items()}
    return digits


def tuned_keys(spec: Mapping[str, Any]) -> set[str]:
    """Return the keys of a trial that its suite searches (``recipe.lr``); older records name none."""
    return {*spec.get("tuned", ())}


def ignored_keys(spec: Mapping[str, Any]) -> set[str]:
    """Return the keys by which cells are not told apart: those that the suite's rules set, and those it searches."""
    return {*spec["set_by_rules"]} | tuned_keys(spec)


def ignored_arguments(spec: Mapping[str, Any], kind: str) -> set[str]:
    """Return the arguments of one kind among the `ignored_keys` of a trial."""
    return {key.partition(".")[2] for key in ignored_keys(spec) if key.startswith(kind + ".")}


def value_text(value: Any) -> str:
    """Return an argument's value as a label shows it."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return value if isinstance(value, str) else show(value)
