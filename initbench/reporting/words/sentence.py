"""A sentence of a report: short, and marked where a page sets its names in bold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from initbench.reporting.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WORDS = 25


def bolded(text: str, bold: Sequence[str] = (), is_open: bool = False, subject: str = "") -> Sentence:
    """Return a sentence with some of its words in bold: what questions use that are not yet made of templates."""
    names = sorted({name for name in bold if name and name in text}, key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)
    pieces = re.split(f"({pattern})", text) if names else [text]
    return Sentence(tuple((part, index % 2 == 1) for index, part in enumerate(pieces) if part), is_open, subject)


def words_in(text: str) -> int:
    """Return how many words a text has: what stands between spaces; a no-break space parts none."""
    return len([word for word in text.split(" ") if word])


def first_fitting(*candidates: str) -> str:
    """Return the first text that has at most `MOST_WORDS` words, the last where none has.

    Args:
        candidates: from the one that says most to the one that says least, which has to fit whatever the names are.
    """
    return next((text for text in candidates if words_in(text) <= MOST_WORDS), candidates[-1])
