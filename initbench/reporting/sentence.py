"""A sentence of a report: its text, and which names in it a page sets in bold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import Formatter


@dataclass(frozen=True)
class Sentence:
    """A finding in words.

    Attributes:
        parts: the pieces of its text in order, each with whether a page sets it in bold.
        is_open: whether it names something unknown; a page sets it in grey.
        subject: the workload or probe that it is about, if a question has answers for several; empty if about all.
    """

    parts: tuple[tuple[str, bool], ...]
    is_open: bool = False
    subject: str = ""

    @property
    def text(self) -> str:
        """The sentence, with its full stop."""
        return "".join(text for text, _ in self.parts)

    @property
    def bold(self) -> tuple[str, ...]:
        """What a page sets in bold."""
        return tuple(text for text, is_bold in self.parts if is_bold)

    def __str__(self) -> str:
        return self.text

    def __add__(self, end: Sentence) -> Sentence:
        return replace(self, parts=self.parts + end.parts)


def say(template: str, *, is_open: bool = False, subject: str = "", **fields: str | Sentence) -> Sentence:
    """Return a sentence from a template such as ``"{winner!b} beats {loser} by {size}."``.

    Args:
        template: with fields in braces; ``!b`` sets one in bold.
        is_open: as in `Sentence`.
        subject: as in `Sentence`.
        **fields: field → text, or a sentence, which keeps its bold parts.
    """
    parts: list[tuple[str, bool]] = []
    for literal, field, _, conversion in Formatter().parse(template):
        value = fields[field] if field else ""
        parts.append((literal, False))
        parts += value.parts if isinstance(value, Sentence) else [(value, conversion == "b")]
    return Sentence(tuple(part for part in parts if part[0]), is_open, subject)


def named(names: Sequence[str], most: int = 3) -> str:
    """Return ``a, b and c``, or ``a, b and 5 others`` if there are more than `most`."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def bold_names(names: Sequence[str], most: int = 3) -> Sentence:
    """Return the names as `named` does, each in bold."""
    shown = names if len(names) <= most else names[: most - 1]
    others = [] if len(names) <= most else [say(f"{len(names) - len(shown)} others")]
    *first, last = [*(say("{name!b}", name=name) for name in shown), *others]
    return joined([joined(first, ", "), last], " and ") if first else last


def joined(sentences: Sequence[Sentence], separator: str) -> Sentence:
    """Return clauses as one sentence."""
    first, *others = sentences
    parts = [*first.parts, *(part for clause in others for part in ((separator, False), *clause.parts))]
    return replace(first, parts=tuple(parts))
