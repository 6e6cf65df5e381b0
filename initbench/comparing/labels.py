"""Labels: complete texts made from keys, for tables and files; `names` has short ones for charts and sentences.

``metainit(delta_orthogonal)``, ``delta_orthogonal[gain=2]``: a name, in brackets every argument that varies among the
components with that name (defaults too), in parentheses the components among its arguments. Arguments that a rule sets
or a search chooses vary with the pair and are left out of the brackets. Datasets that differ only in their content show
it: ``python_library[content=1ac505f5]``. Labels are never parsed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from initbench.arguments import show
from initbench.comparing.keys import COMPONENTS, Component, Key, varying

_COMPONENT = {"name", "arguments", "version", "source"}
ALWAYS = ("depth", "width")
"""The arguments of an architecture that its label always shows."""


def is_component(value: Any) -> bool:
    """Return whether an argument's value is itself a component, such as the base initializer of a tuner."""
    return isinstance(value, Mapping) and value.keys() >= _COMPONENT and isinstance(value["arguments"], Mapping)


def shown_components(
    components: Sequence[Mapping[str, Any]],
    ignore: Sequence[Collection[str]] | None = None,
    always: Collection[str] = (),
) -> list[Component]:
    """Return each component with the arguments that distinguish it from the others.

    Args:
        components: as in a trial record's spec: ``name`` and ``arguments``.
        ignore: for each component, the arguments that a rule has set or a search chooses.
        always: arguments that are shown even if they do not vary.
    """
    ignored = ignore if ignore is not None else [()] * len(components)
    nested = nested_components(components)
    # If some have a component and others null, null means that there is none, and is not shown.
    inner = {(c["name"], argument) for c, parts in zip(components, nested, strict=True) for argument in parts}
    arguments: dict[str, list[Key]] = defaultdict(list)
    for component, skip in zip(components, ignored, strict=True):
        arguments[component["name"]].append(Key(component["arguments"]).without(*skip))
    told_apart = {name: {*always, *varying(keys)} for name, keys in arguments.items()}
    shown = []
    for component, skip, parts in zip(components, ignored, nested, strict=True):
        name = component["name"]
        plain = {
            argument
            for argument in component["arguments"]
            if argument in told_apart[name] and argument not in skip and (name, argument) not in inner
        }
        values = {a: parts.get(a, value) for a, value in component["arguments"].items() if a in parts or a in plain}
        shown.append(Component(name, Key(values)))
    return shown


def nested_components(components: Sequence[Mapping[str, Any]]) -> list[dict[str, Component]]:
    """Return for each component the components among its arguments, by argument.

    They are distinguished from one another, not from the same component at the top level.
    """
    nested = [{key: value for key, value in c["arguments"].items() if is_component(value)} for c in components]
    every = [value for parts in nested for value in parts.values()]
    shown = iter(shown_components(every) if every else ())
    return [{key: next(shown) for key in parts} for parts in nested]


def component_label(component: Component) -> str:
    """Return ``metainit[steps=100](delta_orthogonal)``."""
    nested = [component_label(value) for value in component.arguments.values() if isinstance(value, Component)]
    plain = [
        f"{argument}={value_text(value)}"
        for argument, value in component.arguments.items()
        if not isinstance(value, Component)
    ]
    brackets = f"[{', '.join(plain)}]" if plain else ""
    return component.name + brackets + (f"({', '.join(nested)})" if nested else "")


def component_labels(
    components: Sequence[Mapping[str, Any]],
    ignore: Sequence[Collection[str]] | None = None,
    always: Collection[str] = (),
) -> list[str]:
    return [component_label(component) for component in shown_components(components, ignore, always)]


def initializer_labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the initializer's label for each spec (a `TrialSpec` as plain data)."""
    return component_labels([s["initializer"] for s in specs], [ignored_arguments(s, "initializer") for s in specs])


def architecture_labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the architecture's label for each spec; depth and width are always shown."""
    labels = component_labels(
        [s["architecture"] for s in specs], [ignored_arguments(s, "architecture") for s in specs], ALWAYS
    )
    return [with_scheme(label, scheme_label(s)) for label, s in zip(labels, specs, strict=True)]


def scheme_of(spec: Mapping[str, Any]) -> Component:
    """Return the scheme of a spec with its arguments that are not at their defaults."""
    return Component(spec["scheme"], Key(spec.get("scheme_arguments", {})))


def scheme_label(spec: Mapping[str, Any]) -> str:
    return component_label(scheme_of(spec))


def with_scheme(label: str, scheme: str) -> str:
    return label if scheme == "standard" else f"{label} + {scheme}"


class Labels:
    """Makes the labels of a comparison, and remembers the key of each.

    Args:
        compare: the factors that make the treatment.

    Attributes:
        treatments: label → key, for every label that was made.
        workloads: likewise.
    """

    def __init__(self, compare: Sequence[str] = ("initializer",)) -> None:
        self.compare = tuple(compare)
        self._last = Counter(factor.rpartition(".")[2] for factor in compare)
        self.treatments: dict[str, Key] = {}
        self.workloads: dict[str, Key] = {}

    def treatment(self, key: Key) -> str:
        """Return a treatment's label: ``metainit(delta_orthogonal), norm=none``."""
        label = (", ".join(filter(None, self._texts(key))) or "–") + self._braces(key)
        self.treatments.setdefault(label, key)
        return label

    def part(self, key: Key) -> tuple[str, str]:
        """Return the part of a treatment that is exchanged as a whole, and the rest.

        The part is the initializer if it is compared, else the first factor of `compare`.
        """
        texts = self._texts(key)
        whole = self.compare.index("initializer") if "initializer" in self.compare else 0
        return texts[whole] + self._braces(key), ", ".join(text for i, text in enumerate(texts) if text and i != whole)

    def workload(self, key: Key) -> str:
        """Return a workload's label: ``wrn[depth=28, width=1] + fixup · digits · lr=0.1``."""
        parts = [architecture_label(key) or (f"scheme {scheme_text(key)}" if "scheme" in key else "")]
        parts += [component_label(key.component("dataset")) if "dataset" in key else "", recipe_text(key)]
        parts += [component_label(key.component("initializer")) if "initializer" in key else "", key.get("metric", "")]
        label = " · ".join(filter(None, parts)) or "all trials"
        self.workloads.setdefault(label, key)
        return label

    def family(self, workload: str, factor: str) -> str:
        """Return the label of a workload, given by its label, without one factor."""
        return self.workload(self.workloads[workload].without(factor))

    def factors(self, key: Key) -> Iterator[list[tuple[str, Any]]]:
        """Yield for each compared factor the names and values that it adds; a component needs no name."""
        for factor in self.compare:
            kind, _, argument = factor.partition(".")
            if factor == "recipe":
                yield list(key.below(factor).items())
            elif factor in COMPONENTS:
                yield [("", key.component(factor))]
            elif factor == "scheme" and factor in key:
                yield [(factor, key.component(factor))]
            elif factor in key and kind not in self.compare:
                yield [(argument if argument and self._last[argument] == 1 else factor, key[factor])]
            else:
                yield []

    def _texts(self, key: Key) -> list[str]:
        return [", ".join(factor_text(name, value) for name, value in row) for row in self.factors(key)]

    @staticmethod
    def _braces(key: Key) -> str:
        cell = ", ".join(cell_texts(key, "="))
        return f" {{{cell}}}" if cell else ""


def factor_text(name: str, value: Any, sign: str = "=") -> str:
    text = component_label(value) if isinstance(value, Component) else value_text(value)
    return f"{name}{sign}{text}" if name else text


def architecture_label(key: Key) -> str:
    """Return ``wrn[depth=28, width=1] + fixup`` of a workload; empty if architectures are compared."""
    if "architecture" not in key:
        return ""
    return with_scheme(component_label(key.component("architecture")), scheme_text(key) or "standard")


def scheme_text(key: Key) -> str:
    return component_label(key.component("scheme")) if "scheme" in key else ""


def recipe_text(key: Key) -> str:
    # A bracket at the end, such as the one of milestones, was never part of it; ledgers are compared by these labels.
    return ", ".join(factor_text(name, value) for name, value in key.below("recipe").items()).rstrip("]")


def cell_texts(key: Key, sign: str) -> list[str]:
    """Return what distinguishes cells with the same label: ``clip_norm=0.5``, and the cell's hash if necessary."""
    texts = [f"{column.partition('.')[2]}{sign}{value}" for column, value in key.below("cell").items()]
    return [*texts[:-1], f"{(texts or ['cell'])[-1]} {key['cell']}"] if "cell" in key else texts


def with_contents(datasets: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return datasets with their content among their arguments, if that is needed to distinguish them.

    That is the case if two have the same name and arguments but different content, such as the libraries of two Python
    versions. Then all datasets of that name get it, as 8 digits of its hash, or more if these are equal.

    Args:
        datasets: as in a trial record's spec; a dataset without ``content`` is identified by its name and arguments.
    """
    short = same_names(datasets)
    return [
        {**dataset, "arguments": {**dataset["arguments"], "content": short[dataset["name"]][dataset.get("content")]}}
        if dataset["name"] in short
        else dataset
        for dataset in datasets
    ]


def same_names(datasets: Iterable[Mapping[str, Any]]) -> dict[str, dict[str | None, str]]:
    """Return the names of datasets with equal arguments and different content, and a short form of each content.

    Args:
        datasets: as in a trial record's spec.
    """
    by_name: dict[str, dict[str, set[str | None]]] = defaultdict(lambda: defaultdict(set))
    for dataset in datasets:
        by_name[dataset["name"]][repr(sorted(dataset["arguments"].items()))].add(dataset.get("content"))
    return {
        name: _short({content for contents in alike.values() for content in contents})
        for name, alike in by_name.items()
        if any(len(contents) > 1 for contents in alike.values())
    }


_LEAST_DIGITS = 8


def _short(contents: Collection[str | None]) -> dict[str | None, str]:
    """Return the shortest prefix of each content that no other content begins with."""
    digits = {content: "none" if content is None else content.rpartition(":")[2] for content in contents}
    longest = max(map(len, digits.values()))
    for length in range(_LEAST_DIGITS, longest):
        if len({text[:length] for text in digits.values()}) == len(digits):
            return {content: text[:length] for content, text in digits.items()}
    return digits


def tuned_keys(spec: Mapping[str, Any]) -> set[str]:
    """Return the keys of a trial that its suite searches (``recipe.lr``); older records have none."""
    return {*spec.get("tuned", ())}


def ignored_keys(spec: Mapping[str, Any]) -> set[str]:
    """Return the keys that do not distinguish cells: those that the suite's rules set, and those that it searches."""
    return {*spec["set_by_rules"]} | tuned_keys(spec)


def ignored_arguments(spec: Mapping[str, Any], kind: str) -> set[str]:
    """Return the arguments of one kind among the `ignored_keys` of a trial."""
    return arguments_of(kind, ignored_keys(spec))


def arguments_of(kind: str, keys: Iterable[str]) -> set[str]:
    """Return the arguments of one kind among keys: ``lr`` of ``recipe.lr`` and ``dataset``, for the kind ``recipe``."""
    return {key.partition(".")[2] for key in keys if key.startswith(f"{kind}.")}


def value_text(value: Any) -> str:
    """Return an argument's value as in a label."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return value if isinstance(value, str) else show(value)
