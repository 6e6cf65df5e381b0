"""Short names of treatments and workloads, for charts and sentences; a name may be written back as a request.

A detail is left out where the name says enough without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from initbench.arguments import nearest
from initbench.comparing.formatting import counted, natural
from initbench.comparing.keys import COMPONENTS, Component, Key, varying
from initbench.comparing.labels import (
    Labels,
    cell_texts,
    component_label,
    factor_text,
    recipe_text,
    scheme_text,
    value_text,
)
from initbench.errors import UnknownNameError

_MOST_WORDS = 3  # of a name in a sentence; a longer one has a number
_DIGITS = 4  # of a number in a name; where they do not distinguish two names, both are labels, which have all


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


def short_names(labels: Labels, treatments: Iterable[str], workloads: Iterable[str]) -> Names:
    """Return the short names of treatments and workloads, given by labels that `labels` has made."""
    treatment_keys = {label: _rounded(labels.treatments[label]) for label in dict.fromkeys(treatments)}
    workload_keys = {label: _rounded(labels.workloads[label]) for label in dict.fromkeys(workloads)}
    treatment_names = {label: _treatment_name(labels, key) for label, key in treatment_keys.items()}
    words, are_networks = _workload_words(workload_keys)
    workload_names = _numbered({label: Name(name, ", ".join(texts.values())) for label, (name, texts) in words.items()})
    details = {label: texts for label, (_, texts) in words.items() if workload_names[label].detail}
    noun = "network" if are_networks else "workload"
    return Names(_numbered(treatment_names), workload_names, noun, details)


def _rounded(value: Any) -> Any:
    """Return a key, a component or a value with numbers of `_DIGITS` digits."""
    if isinstance(value, Component):
        return Component(value.name, _rounded(value.arguments))
    if isinstance(value, Key):
        return Key({factor: _rounded(v) for factor, v in value.items()})
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _treatment_name(labels: Labels, key: Key) -> Name:
    """Return the first factor, and all others as detail."""
    each = [pair for pairs in labels.factors(key) for pair in pairs]
    if not each:
        return Name("–")
    (name, value), *others = each
    if isinstance(value, Component):
        short, details = f"{name}={value.name}" if name else value.name, list(_details(value).values())
    else:
        short, details = factor_text(name, value), []
    return Name(short, ", ".join([*details, *(factor_text(*other, " ") for other in others), *cell_texts(key, " ")]))


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
            f"{head.factor}.{argument}": factor_text(argument, value, " ")
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
            return _Head(factor, f"scheme {scheme_text(key)}", Key())
        if factor == "recipe" and key.below(factor):
            return _Head(factor, recipe_text(key), Key())
        if factor in key:
            component = key.component(factor)
            nested = {a: value for a, value in component.arguments.items() if isinstance(value, Component)}
            name = component_label(Component(component.name, Key(nested)))
            scheme = scheme_text(key) if factor == "architecture" else ""
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
        return {factor: value if factor == "metric" else factor_text(factor.partition(".")[2], value, " ")}
    return {factor: value.name} | _details(value, factor) if _has_arguments(value) else {factor: component_label(value)}


def _has_arguments(component: Component) -> bool:
    return any(not isinstance(v, Component) or _has_arguments(v) for v in component.arguments.values())
