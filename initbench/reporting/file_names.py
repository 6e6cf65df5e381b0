"""Names of files for what has a name of any characters."""

from __future__ import annotations

import re
from itertools import chain, count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST_STEM = 120  # a file system takes 255 bytes, with number and suffix
_REFUSED = re.compile(r'(?:[^ -~]|[/\\:*?"<>|])+')  # by some file system
_DEFAULT = "chart"


def plain_name(text: str) -> str:
    """Return a text as the name of a file, without its suffix: always of one in the folder where it is written.

    Args:
        text: such as the name of a probe, which a plug-in or the writer of a record chose.
    """
    return _REFUSED.sub("-", text).lstrip(". -")[:_LONGEST_STEM] or _DEFAULT


def name_apart(stem: str, used: set[str]) -> str:
    """Return a name, numbered where it is used, and add it to those that are.

    Args:
        stem: the name.
        used: names without upper case: some file systems do not tell cases apart.
    """
    numbered = chain([stem], (f"{stem}-{number}" for number in count(2)))
    chosen = next(candidate for candidate in numbered if candidate.casefold() not in used)
    used.add(chosen.casefold())
    return chosen


def file_names(names: Sequence[str], prefix: str = "", taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a file's name without its suffix for each name: another for each, whatever characters they have.

    Long names are cut, and no two differ in upper and lower case alone.

    Args:
        names: such as those of groups.
        prefix: what each begins with, of any characters.
        taken: names that are not given.
    """
    used = {name.casefold() for name in taken}
    stems = {name: re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII).strip("-") or _DEFAULT for name in names}
    return {name: name_apart(plain_name(prefix + stem), used) for name, stem in stems.items()}
