"""Sentences that fit whatever the names in them are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from initbench.reporting.sentence import Sentence
from initbench.reporting.words.sentence import MOST_WORDS, bolded, words_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIELD = re.compile(r"\{(\w+)\}")
_SHORTER = (8, 6, 4, 3, 2)  # words of a name, tried one after the other


def said(
    *templates: str,
    names: Mapping[str, str],
    bold: Sequence[str] = (),
    is_open: bool = False,
    subject: str = "",
    **values: str,
) -> Sentence:
    """Return the first of several sentences that fits; where none does, the last with its names cut.

    Args:
        templates: with fields in braces, from the one that says most to the one that says least.
        names: field → display text. These are cut if need be; an empty one leaves its field out.
        bold: the fields that are set in bold.
        is_open: as in `Sentence`.
        subject: likewise.
        values: field → text that is never cut.
    """
    attempts = [(template, names) for template in templates]
    attempts += [(templates[-1], cut(names, most)) for most in _SHORTER]
    texts = [(_filled(template, {**values, **own}), own) for template, own in attempts]
    text, own = next((found for found in texts if words_in(found[0]) <= MOST_WORDS), texts[-1])
    return bolded(text, tuple(own[field] for field in bold if own[field] and own[field] in text), is_open, subject)


def cut(names: Mapping[str, str], most: int) -> dict[str, str]:
    """Return names of at most so many words: the first, and the last ones or those in which they differ.

    Args:
        names: field → display text.
        most: words, at least 2.
    """
    words = {field: name.split(" ") for field, name in names.items()}
    shorter = {field: _cut(own, most) for field, own in words.items()}
    texts = list(shorter.values())
    for field, own in words.items():
        if len(own) > most and texts.count(shorter[field]) > 1:
            others = [other for name, other in words.items() if name != field and _cut(other, most) == shorter[field]]
            at = next((i for i, word in enumerate(own) if any(other[i : i + 1] != [word] for other in others)), 1)
            at = max(1, min(at, len(own) - most + 1))
            end = "…" if at + most - 1 < len(own) else ""
            shorter[field] = f"{own[0]}… {' '.join(own[at : at + most - 1])}{end}"
    return shorter


def _filled(template: str, texts: Mapping[str, str]) -> str:
    """Return a template with its fields filled in; other braces, as labels and units may have, stay."""
    return _FIELD.sub(lambda field: texts.get(field[1], field[0]), template)


def _cut(words: Sequence[str], most: int) -> str:
    return " ".join(words) if len(words) <= most else f"{words[0]}… {' '.join(words[len(words) - most + 1 :])}"
