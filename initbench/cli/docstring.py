"""Docstrings in Google style, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEADER = re.compile(r"(Args|Arguments|Attributes|Example|Examples|Note|Raises|Returns|Yields):$")
_ENTRY = re.compile(r"(\*{0,2}[\w.]+)(?: \([^)]*\))?:(?:\s+(.*))?$")


@dataclass
class Docstring:
    text: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    raises: dict[str, str] = field(default_factory=dict)


def parse(docstring: str) -> Docstring:
    """Take apart a docstring without indentation, as `inspect.getdoc` returns it."""
    result = Docstring()
    sections = {"Args": result.arguments, "Arguments": result.arguments, "Raises": result.raises}
    # What other sections hold is read past.
    entries: dict[str, str] | None = None
    latest: str | None = None
    paragraph = ""
    for line in [*docstring.splitlines()[1:], ""]:
        words = line.strip()
        header = _HEADER.match(line)
        if header:
            entries, latest = sections.get(header[1], {}), None
        elif entries is not None and words and line.startswith(" "):
            entry = _ENTRY.match(words) if not line.startswith(" " * 5) else None
            if entry:
                latest = entry[1].lstrip("*")
                entries[latest] = entry[2] or ""
            elif latest is not None:
                entries[latest] = f"{entries[latest]} {words}".strip()
        elif words:
            entries, paragraph = None, f"{paragraph} {words}".strip()
        if paragraph and (not words or header):
            result.text.append(paragraph)
            paragraph = ""
    return result
