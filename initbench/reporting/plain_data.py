"""Data of any origin as JSON that a reader can see."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from initbench.visible_text import visible

KEPT = "\n\t"
"""Invisible characters that stay because they format text, as in a traceback."""


def plain_data(value: Any) -> Any:
    """Return mappings, lists, texts and numbers with invisible characters escaped and None for non-finite numbers."""
    if isinstance(value, str):
        return visible(value, KEPT)
    if isinstance(value, Mapping):
        return {plain_data(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
