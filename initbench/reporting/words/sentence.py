"""A sentence of a report: short, and marked where a page sets its names in bold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WORDS = 25


@dataclass(frozen=True)
class Sentence:
    """A finding in words.

    Attributes:
        text: the sentence, with its full stop; at most `MOST_WORDS` words.
        bold: names in it that a page sets in bold, as they stand in the text.
        is_open: whether it says what is not known, which a page sets in grey.
        subject: what it is about where several stand below one another: a workload, a probe; empty for all.
    """

    text: str
    bold: tuple[str, ...] = ()
    is_open: bool = False
    subject: str = ""

    def __str__(self) -> str:
        return self.text

    def pieces(self) -> list[tuple[str, bool]]:
        """Return the text in pieces, each with whether it is set in bold."""
        names = sorted({name for name in self.bold if name}, key=len, reverse=True)
        if not names:
            return [(self.text, False)]
        pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)
        parts = re.split(f"({pattern})", self.text)
        return [(part, index % 2 == 1) for index, part in enumerate(parts) if part]


def words_in(text: str) -> int:
    """Return how many words a text has: what stands between spaces; a no-break space parts none."""
    return len([word for word in text.split(" ") if word])


def first_fitting(*candidates: str) -> str:
    """Return the first text that has at most `MOST_WORDS` words, the last where none has.

    Args:
        candidates: from the one that says most to the one that says least, which has to fit whatever the names are.
    """
    return next((text for text in candidates if words_in(text) <= MOST_WORDS), candidates[-1])


def named(names: Sequence[str], most: int = 3) -> str:
    """Return ``a, b and c``, or ``a, b and 5 others`` where there are more than `most`."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
