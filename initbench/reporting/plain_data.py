"""Data of any origin as JSON can hold them and as a reader can see them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from initbench.visible_text import visible

KEPT = "\n\t"
"""What is invisible and stays: it sets text, as in a traceback."""


def plain_data(value: Any) -> Any:
    """Return data with visible characters alone, and None for numbers that are not finite.

    Args:
        value: mappings, lists, texts and numbers, such as a specification of Vega-Lite.
    """
    if isinstance(value, str):
        return visible(value, KEPT)
    if isinstance(value, Mapping):
        return {plain_data(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
