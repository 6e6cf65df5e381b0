"""Short names of treatments and workloads: what varies among them, for tables, charts and sentences.

Labels (`suite.labels`) tell everything apart that ever could be confused, ``plain[depth=28, width=1] · clip_norm=1.0``.
A reader of one report needs what varies in it: ``plain-28``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from initbench.arguments import nearest
from initbench.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OPENING, _CLOSING = "[({", "])}"
_PART = " · "


class Name(NamedTuple):
    """A short name.

    Attributes:
        short: ``delta_orthogonal``.
        detail: what else tells it apart, ``gain 2``; may be empty.
    """

    short: str
    detail: str = ""

    @property
    def text(self) -> str:
        """Both, as a sentence has them: ``delta_orthogonal (gain 2)``."""
        return f"{self.short} ({self.detail})" if self.detail else self.short


@dataclass(frozen=True)
class Names:
    """The names of a report.

    Attributes:
        treatments: label → name.
        workloads: label → name.
        noun: what a workload is called: ``network`` where they differ in nothing else, else ``workload``.
    """

    treatments: Mapping[str, Name]
    workloads: Mapping[str, Name]
    noun: str = "workload"

    def treatment(self, label: str) -> str:
        """Return a treatment as a sentence names it: without its detail where it is told apart without."""
        return _told_apart(label, self.treatments)

    def workload(self, label: str) -> str:
        """Return a workload as a sentence names it, likewise."""
        return _told_apart(label, self.workloads)

    def workloads_of(self, count: int) -> str:
        """Return ``1 network`` or ``2 networks``."""
        return f"{count} {self.noun}{'s' if count != 1 else ''}"


def label_of(name: str, known: Mapping[str, Name], noun: str) -> str:
    """Return the label of what a user named, by its label or as reports name it.

    Args:
        name: as the user wrote it.
        known: label → name.
        noun: of what it is, for the message.

    Raises:
        UnknownNameError: nothing has that name; the message gives the nearest one.
    """
    ways = {way: label for label in known for way in (_told_apart(label, known), known[label].text, label)}
    if name not in ways:
        shown = [_told_apart(label, known) for label in known]
        raise UnknownNameError(f"no {noun} {name!r} in these results{nearest(name, shown)}")
    return ways[name]


def short_names(treatments: Iterable[str], workloads: Iterable[str], architectures: Iterable[str] = ()) -> Names:
    """Return the short names of all treatments and workloads of a report.

    Args:
        treatments: labels, as in the results frame.
        workloads: likewise.
        architectures: likewise; a workload that begins with one is called a network where nothing else tells it apart.
    """
    places = list(dict.fromkeys(workloads))
    own = {label: _treatment(label) for label in dict.fromkeys(treatments)}
    short, parts = _workloads(places)
    networks = set(architectures)
    are_networks = not any(parts.values()) and all(_split(label, _PART)[0] in networks for label in places)
    noun = "network" if are_networks else "workload"
    return Names(_unique(own), _unique(short), noun)


def _told_apart(label: str, names: Mapping[str, Name]) -> str:
    name = names[label]
    return name.short if sum(other.short == name.short for other in names.values()) == 1 else name.text


def _unique(names: dict[str, Name]) -> dict[str, Name]:
    """Return the names, the label in place of one that others have too."""
    counts = Counter(names.values())
    return {label: name if counts[name] == 1 else Name(label) for label, name in names.items()}


def _treatment(label: str) -> Name:
    first, *others = _split(label, ", ")
    short, details = _component(first)
    return Name(short, ", ".join([*details, *(other.replace("=", " ", 1) for other in others)]))


def _component(label: str) -> tuple[str, list[str]]:
    """Return the name of ``metainit[steps=100](delta_orthogonal[gain=2])``, and what varies in it."""
    begin = min((at for sign in _OPENING if (at := label.find(sign)) > 0), default=len(label))
    details = []
    for group in _groups(label[begin:]):
        sign, inside = group[0], group[1:-1]
        if sign == "(":
            bases = [_component(base) for base in _split(inside, ", ")]
            details.append("from " + ", ".join(" ".join([name, *own]) for name, own in bases))
        else:
            details += [part.replace("=", " ", 1) for part in _split(inside, ", ")]
    return label[:begin].strip(), details


def _workloads(labels: list[str]) -> tuple[dict[str, Name], dict[str, list[str]]]:
    """Return the short names, and what else than their architectures tells workloads apart."""
    split = {label: _split(label, _PART) for label in labels}
    heads = {label: _architecture(parts[0]) for label, parts in split.items()}
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, arguments, _ in heads.values():
        for key, value in arguments.items():
            values[name, key].add(value)
    others = _others({label: (heads[label][0], parts[1:]) for label, parts in split.items()})
    bare = Counter((name, *sorted(arguments.items()), suffix) for name, arguments, suffix in heads.values())
    found = {}
    for label, (name, arguments, suffix) in heads.items():
        rest = dict(arguments)
        depth = rest.pop("depth", None)
        varying = [f"{key} {value}" for key, value in rest.items() if len(values[name, key]) > 1]
        if bare[name, *sorted(arguments.items()), suffix] == 1:
            others[label] = [part for part in others[label] if _is_name(part)]
        details = [*varying, *([suffix] if suffix else []), *map(_condition, others[label])]
        found[label] = Name(f"{name}-{depth}" if depth is not None else name, ", ".join(details))
    return found, others


def _others(parts: Mapping[str, tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Return what else than its architecture's arguments tells each workload apart.

    A condition that goes with the architecture, as a rule's does, tells nothing apart that its name does not. Where
    datasets differ each is named all the same: what one network does on digits it need not do on text.

    Args:
        parts: the architecture's name and the other parts of the label, by label.
    """
    items = {
        label: [item for part in own for item in ([part] if _is_name(part) else _split(part, ", "))]
        for label, (_, own) in parts.items()
    }
    alike: dict[str, list[set[str]]] = defaultdict(list)
    for label, (name, _) in parts.items():
        alike[name].append(set(items[label]))
    shared = {name: set.intersection(*found) for name, found in alike.items()}
    everywhere = set.intersection(*shared.values()) if shared else set()
    return {
        label: [
            item for item in items[label] if item not in (everywhere if _is_name(item) else shared[parts[label][0]])
        ]
        for label in parts
    }


def _is_name(part: str) -> bool:
    """Return whether a part is a component's label, as a dataset's is, and not conditions such as ``lr=0.1``."""
    return "=" not in part.partition("[")[0]


def _condition(part: str) -> str:
    """Return ``python_library, content 1ac505f5`` of such a dataset's label, ``lr 0.1`` of ``lr=0.1``."""
    if _is_name(part) and part.find("[") > 0:
        short, details = _component(part)
        return ", ".join([short, *details])
    return part.replace("=", " ", 1)


def _architecture(part: str) -> tuple[str, dict[str, str], str]:
    """Return the name, the arguments and what follows of ``plain[depth=28, width=1] fixup``."""
    begin = part.find("[")
    groups = _groups(part[begin:]) if begin > 0 else []
    if not groups:  # of a bracket that is never closed, nothing is read
        return part, {}, ""
    inside = groups[0]
    pairs = (text.partition("=") for text in _split(inside[1:-1], ", "))
    return part[:begin], {key: value for key, _, value in pairs}, part[begin + len(inside) :].strip(" +,")


def _split(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if depth == 0 and at >= start and text.startswith(separator, at):
            parts.append(text[start:at])
            start = at + len(separator)
    return [*parts, text[start:]]


def _groups(text: str) -> list[str]:
    """Return the bracketed groups of a text, each with its brackets."""
    groups, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign in _OPENING:
            start = at if depth == 0 else start
            depth += 1
        elif sign in _CLOSING and depth:
            depth -= 1
            if depth == 0:
                groups.append(text[start : at + 1])
    return groups
