"""File names for things whose names contain any characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, count

_LONGEST_STEM = 120  # a file system takes 255 bytes, including number and suffix
_REFUSED = re.compile(r'(?:[^ -~]|[/\\:*?"<>|])+')  # by some file system
_DEFAULT = "chart"


def plain_name(text: str) -> str:
    """Return a text, such as the name of a plug-in's probe, as a safe file name without a suffix or folders."""
    return _REFUSED.sub("-", text).lstrip(". -")[:_LONGEST_STEM] or _DEFAULT


def name_apart(stem: str, used: set[str]) -> str:
    """Return a name, with a number if it is used, and add it to `used` in lower case: some file systems ignore case."""
    numbered = chain([stem], (f"{stem}-{number}" for number in count(2)))
    chosen = next(candidate for candidate in numbered if candidate.casefold() not in used)
    used.add(chosen.casefold())
    return chosen


def file_names(names: Sequence[str], prefix: str = "", taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a different file name without suffix for each name, none of them `taken`; long names are cut."""
    used = {name.casefold() for name in taken}
    stems = {name: re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII).strip("-") or _DEFAULT for name in names}
    return {name: name_apart(plain_name(prefix + stem), used) for name, stem in stems.items()}
