"""Names of files for what has a name of any characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_STEM = 120  # a file system takes 255 bytes, with number and suffix


def file_names(names: Sequence[str], prefix: str = "", taken: Sequence[str] = ()) -> dict[str, str]:
    """Return a file's name without its suffix for each name: another for each, whatever characters they have.

    Long names are cut, and no two differ in upper and lower case alone.

    Args:
        names: such as those of groups.
        prefix: what each begins with.
        taken: names that are not given.
    """
    chosen: dict[str, str] = {}
    used = {name.casefold() for name in taken}  # some file systems do not tell cases apart
    for name in names:
        stem = prefix + (re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII).strip("-") or "chart")
        stem = stem[:_LONGEST_STEM]
        numbered = (stem, *(f"{stem}-{number}" for number in range(2, len(names) + len(used) + 2)))
        chosen[name] = next(candidate for candidate in numbered if candidate.casefold() not in used)
        used.add(chosen[name].casefold())
    return chosen
