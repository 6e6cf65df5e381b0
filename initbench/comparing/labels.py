"""Labels: texts made from keys, complete for tables and files, and short for charts and sentences.

``metainit(delta_orthogonal)``, ``delta_orthogonal[gain=2]``: a name, in brackets every argument that varies among the
components with that name (defaults too), in parentheses the components among its arguments. Arguments that a rule sets
or a search chooses vary with the pair and are left out of the brackets. Datasets that differ only in their content show
it: ``python_library[content=1ac505f5]``. Labels are never parsed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from initbench.arguments import nearest, show
from initbench.comparing.formatting import counted, natural
from initbench.comparing.keys import COMPONENTS, Component, Key, varying
from initbench.errors import UnknownNameError

_COMPONENT = {"name", "arguments", "version", "source"}
_MOST_WORDS = 3  # of a name in a sentence; a longer one has a number
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
    inner = {(c["name"], argument) for c, own in zip(components, nested, strict=True) for argument in own}
    arguments: dict[str, list[Key]] = defaultdict(list)
    for component, skip in zip(components, ignored, strict=True):
        arguments[component["name"]].append(Key(component["arguments"]).without(*skip))
    told_apart = {name: {*always, *varying(own)} for name, own in arguments.items()}
    shown = []
    for component, skip, own in zip(components, ignored, nested, strict=True):
        name = component["name"]
        plain = {
            argument
            for argument in component["arguments"]
            if argument in told_apart[name] and argument not in skip and (name, argument) not in inner
        }
        values = {a: own.get(a, value) for a, value in component["arguments"].items() if a in own or a in plain}
        shown.append(Component(name, Key(values)))
    return shown


def nested_components(components: Sequence[Mapping[str, Any]]) -> list[dict[str, Component]]:
    """Return for each component the components among its arguments, by argument.

    They are distinguished from one another, not from the same component at the top level.
    """
    nested = [{key: value for key, value in c["arguments"].items() if is_component(value)} for c in components]
    every = [value for own in nested for value in own.values()]
    shown = iter(shown_components(every) if every else ())
    return [{key: next(shown) for key in own} for own in nested]


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
        parts = [architecture_label(key) or (f"scheme {_scheme(key)}" if "scheme" in key else "")]
        parts += [component_label(key.component("dataset")) if "dataset" in key else "", _recipe(key)]
        parts += [component_label(key.component("initializer")) if "initializer" in key else "", key.get("metric", "")]
        label = " · ".join(filter(None, parts)) or "all trials"
        self.workloads.setdefault(label, key)
        return label

    def family(self, workload: str, factor: str) -> str:
        """Return the label of a workload, given by its label, without one factor."""
        return self.workload(self.workloads[workload].without(factor))

    def names(self, treatments: Iterable[str], workloads: Iterable[str]) -> Names:
        """Return the short names of treatments and workloads, given by labels that were made here."""
        short = {label: self._short(self.treatments[label]) for label in dict.fromkeys(treatments)}
        places, are_networks = _workload_words({label: self.workloads[label] for label in dict.fromkeys(workloads)})
        named = _numbered({label: Name(name, ", ".join(words.values())) for label, (name, words) in places.items()})
        details = {label: words for label, (_, words) in places.items() if named[label].detail}
        return Names(_numbered(short), named, "network" if are_networks else "workload", details)

    def _factors(self, key: Key) -> Iterator[list[tuple[str, Any]]]:
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
        return [", ".join(_text(name, value) for name, value in own) for own in self._factors(key)]

    @staticmethod
    def _braces(key: Key) -> str:
        cell = ", ".join(_cell(key, "="))
        return f" {{{cell}}}" if cell else ""

    def _short(self, key: Key) -> Name:
        """Return a treatment's name: its first factor, and all others as detail."""
        each = [pair for own in self._factors(key) for pair in own]
        if not each:
            return Name("–")
        (name, value), *others = each
        if isinstance(value, Component):
            short, details = f"{name}={value.name}" if name else value.name, list(_details(value).values())
        else:
            short, details = _text(name, value), []
        return Name(short, ", ".join([*details, *(_text(*other, " ") for other in others), *_cell(key, " ")]))


def _text(name: str, value: Any, sign: str = "=") -> str:
    text = component_label(value) if isinstance(value, Component) else value_text(value)
    return f"{name}{sign}{text}" if name else text


def architecture_label(key: Key) -> str:
    """Return ``wrn[depth=28, width=1] + fixup`` of a workload; empty if architectures are compared."""
    if "architecture" not in key:
        return ""
    return with_scheme(component_label(key.component("architecture")), _scheme(key) or "standard")


def _scheme(key: Key) -> str:
    return component_label(key.component("scheme")) if "scheme" in key else ""


def _recipe(key: Key) -> str:
    # A bracket at the end, such as the one of milestones, was never part of it; ledgers are compared by these labels.
    return ", ".join(_text(name, value) for name, value in key.below("recipe").items()).rstrip("]")


def _cell(key: Key, sign: str) -> list[str]:
    """Return what distinguishes cells with the same label: ``clip_norm=0.5``, and the cell's hash if necessary."""
    texts = [f"{column.partition('.')[2]}{sign}{value}" for column, value in key.below("cell").items()]
    return [*texts[:-1], f"{(texts or ['cell'])[-1]} {key['cell']}"] if "cell" in key else texts


class Name(NamedTuple):
    """A short name.

    Attributes:
        short: ``delta_orthogonal``.
        detail: the rest that distinguishes it, ``gain 2``; may be empty.
        number: among the names with the same `short`, if sentences show it instead of a long detail; else 0.
    """

    short: str
    detail: str = ""
    number: int = 0

    @property
    def text(self) -> str:
        """With its detail: ``delta_orthogonal (gain 2)``."""
        return f"{self.short} ({self.detail})" if self.detail else self.short

    @property
    def numbered(self) -> str:
        """The short name, with its number if it has one: ``metainit #2``."""
        return f"{self.short} #{self.number}" if self.number else self.short

    @property
    def spelled_out(self) -> str:
        """All of it, as a legend has it: ``metainit #2: steps 100, from delta_orthogonal``."""
        return f"{self.numbered}: {self.detail}" if self.number else self.text


@dataclass(frozen=True)
class Names:
    """The names of a report.

    Attributes:
        treatments: label → name.
        workloads: label → name.
        noun: ``network`` if workloads differ in nothing else, else ``workload``.
        details: label of a workload → factor → its part of the name, ``norm post``.
    """

    treatments: Mapping[str, Name]
    workloads: Mapping[str, Name]
    noun: str = "workload"
    details: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def treatment(self, label: str) -> str:
        """Return a treatment's name in a sentence: its detail only if needed, and a number if the detail is long."""
        return _told_apart(label, self.treatments)

    def treatment_in_figure(self, label: str) -> str:
        """Return a treatment as a sentence names it, a numbered name spelled out."""
        name = self.treatments[label]
        return name.spelled_out if name.number else self.treatment(label)

    def workload(self, label: str) -> str:
        return _told_apart(label, self.workloads)

    def workloads_of(self, count: int) -> str:
        """Return ``1 network`` or ``2 networks``."""
        return counted(count, self.noun)


def label_of(name: str, known: Mapping[str, Name], noun: str) -> str:
    """Return the label for a name that a user wrote: a label, or a name as in reports.

    Args:
        name: as the user wrote it.
        known: label → name.
        noun: the kind of thing, used in the message.

    Raises:
        UnknownNameError: nothing has that name; the message gives the nearest one.
    """
    ways = {way: label for label in known for way in (_told_apart(label, known), known[label].text, label)}
    if name not in ways:
        shown = [_told_apart(label, known) for label in known]
        raise UnknownNameError(f"no {noun} {name!r} in these results{nearest(name, shown)}")
    return ways[name]


def _told_apart(label: str, names: Mapping[str, Name]) -> str:
    name = names[label]
    if name.number or sum(other.short == name.short for other in names.values()) == 1:
        return name.numbered
    return name.text


def _numbered(names: Mapping[str, Name]) -> dict[str, Name]:
    """Return the names: the label if others have the same name, and a number if it is too long for a sentence."""
    counts = Counter(names.values())
    unique = {label: name if counts[name] == 1 else Name(label) for label, name in names.items()}
    alike: dict[str, list[str]] = defaultdict(list)
    for label in sorted(unique, key=lambda label: natural(unique[label].text)):
        alike[unique[label].short].append(label)
    for short, labels in alike.items():
        for number, label in enumerate(labels, 1):
            if len(labels) > 1 and len(unique[label].text.split()) > _MOST_WORDS:
                unique[label] = Name(short, unique[label].detail, number)
    return unique


def _details(component: Component, factor: str = "") -> dict[str, str]:
    """Return the text of each argument: ``gain 2``, ``from delta_orthogonal gain 2``."""
    start = f"{factor}." if factor else ""
    plain = {a: f"{a} {value_text(v)}" for a, v in component.arguments.items() if not isinstance(v, Component)}
    bases = {a: _base(v) for a, v in component.arguments.items() if isinstance(v, Component)}
    joined = {next(iter(bases)): f"from {', '.join(bases.values())}"} if bases else {}
    return {f"{start}{argument}": words for argument, words in (plain | joined).items()}


def _base(component: Component) -> str:
    return " ".join([component.name, *_details(component).values()])


class _Head(NamedTuple):
    """The first part of a workload, which names it."""

    factor: str
    name: str
    arguments: Key
    scheme: str = ""


def _workload_words(keys: Mapping[str, Key]) -> tuple[dict[str, tuple[str, dict[str, str]]], bool]:
    """Return the short name of each workload with its details by factor, and whether all are bare networks."""
    heads = {label: _head(label, key) for label, key in keys.items()}
    alike: dict[str, list[Key]] = defaultdict(list)
    for head in heads.values():
        alike[head.name].append(head.arguments)
    told_apart = {name: varying(arguments) for name, arguments in alike.items()}
    others = _others({label: (heads[label], key) for label, key in keys.items()})
    counts = Counter(heads.values())
    words = {}
    for label, head in heads.items():
        if counts[head] == 1:
            others[label] = others[label].without("recipe")
        depth = head.arguments.get("depth")
        details = {
            f"{head.factor}.{argument}": _text(argument, value, " ")
            for argument, value in head.arguments.items()
            if argument in told_apart[head.name] and argument != "depth"
        }
        details |= {"scheme": head.scheme} if head.scheme else {}
        for factor, value in others[label].items():
            details |= _other_details(factor, value)
        name = head.name if depth is None else f"{head.name}-{value_text(depth)}"
        words[label] = name, details
    are_networks = all(not others[label] and "architecture" in key for label, key in keys.items())
    return words, are_networks


def _head(label: str, key: Key) -> _Head:
    for factor in ("architecture", "scheme", "dataset", "recipe", "initializer"):
        if factor == "scheme" and factor in key:
            return _Head(factor, f"scheme {_scheme(key)}", Key())
        if factor == "recipe" and key.below(factor):
            return _Head(factor, _recipe(key), Key())
        if factor in key:
            component = key.component(factor)
            nested = {a: value for a, value in component.arguments.items() if isinstance(value, Component)}
            name = component_label(Component(component.name, Key(nested)))
            scheme = _scheme(key) if factor == "architecture" else ""
            return _Head(factor, name, component.arguments.without(*nested), scheme)
    return _Head("", label, Key())


def _others(workloads: Mapping[str, tuple[_Head, Key]]) -> dict[str, Key]:
    """Return the factors beside its head that distinguish each workload.

    A condition that goes with the architecture, such as a rule's, adds nothing to its name. If datasets differ, each is
    named nevertheless: a network's result on digits says nothing about text.
    """
    rest = {
        label: _rest(key.without(head.factor, "scheme")) if head.factor else Key()
        for label, (head, key) in workloads.items()
    }
    alike: dict[str, list[set[tuple[str, str]]]] = defaultdict(list)
    for label, (head, _) in workloads.items():
        alike[head.name].append({(factor, repr(value)) for factor, value in rest[label].items()})
    shared = {name: set.intersection(*items) for name, items in alike.items()}
    everywhere = set.intersection(*shared.values()) if shared else set()
    return {
        label: Key(
            {
                factor: value
                for factor, value in rest[label].items()
                if (factor, repr(value)) not in (shared[head.name] if factor.startswith("recipe.") else everywhere)
            }
        )
        for label, (head, _) in workloads.items()
    }


def _rest(key: Key) -> Key:
    """Return the parts of a workload after its head, each component as a whole."""
    values: dict[str, Any] = {}
    for factor in ("dataset", "recipe", "initializer", "metric"):
        if factor in COMPONENTS and factor in key:
            values[factor] = key.component(factor)
        elif factor == "recipe":
            values |= {f"recipe.{name}": value for name, value in key.below("recipe").items()}
        elif factor in key:
            values[factor] = key[factor]
    return Key(values)


def _other_details(factor: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Component):
        return {factor: value if factor == "metric" else _text(factor.partition(".")[2], value, " ")}
    return {factor: value.name} | _details(value, factor) if _has_arguments(value) else {factor: component_label(value)}


def _has_arguments(component: Component) -> bool:
    return any(not isinstance(v, Component) or _has_arguments(v) for v in component.arguments.values())


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
    return {key.partition(".")[2] for key in ignored_keys(spec) if key.startswith(kind + ".")}


def value_text(value: Any) -> str:
    """Return an argument's value as in a label."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return value if isinstance(value, str) else show(value)
