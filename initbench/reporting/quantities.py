"""Measurements and their values in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from initbench.comparing.formatting import typeset


def plain_number(value: float) -> str:
    """Return a number of any size with two or three significant digits: ``0.41``, ``1,840`` or ``3.1·10⁻⁹``."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e5:
        return typeset(f"{value:.1e}")
    return typeset(f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip("."))


def quantity_words(name: str) -> str:
    """Return the name of a measurement in words.

    That is ``gradient norm`` for ``gradient_norm.per_layer``, and ``mean square (signal by depth)`` for
    ``signal_by_depth.mean_square``, one of several of its probe.
    """
    words = re.sub(r"_(?![^\[(]*[\])])", " ", name.removesuffix(".per_layer"))
    several = re.fullmatch(r"(.*)\.([^.\[\]()]+)", words)
    return f"{several[2]} ({several[1]})" if several else words


def short_quantities(probes: Iterable[str]) -> dict[str, str]:
    """Return the names of measurements in words, for axes and titles: without arguments where they tell none apart.

    Args:
        probes: the names of all that a report has.
    """
    names = list(dict.fromkeys(probes))
    bare = {name: quantity_words(re.sub(r"\[.*\]", "", name)) for name in names}
    alike = Counter(bare.values())
    return {name: words if alike[words] == 1 else quantity_words(name) for name, words in bare.items()}
