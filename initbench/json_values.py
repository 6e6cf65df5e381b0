"""Values that JSON can represent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def json_values(value: Any) -> Any:
    """Return a value with every non-finite float replaced by None.

    In each mapping, a key with such a value gets a companion ``<key>_reason``: the texts of the non-finite values
    (``nan``, ``inf``, ``-inf``), each once, in the order met.
    """
    return _convert(value, [])


def _convert(value: Any, reasons: list[str]) -> Any:
    if isinstance(value, Mapping):
        converted: dict[str, Any] = {}
        for key, item in value.items():
            item_reasons: list[str] = []
            converted[str(key)] = _convert(item, item_reasons)
            if item_reasons:
                converted[f"{key}_reason"] = ", ".join(dict.fromkeys(item_reasons))
        return converted
    if isinstance(value, list | tuple):
        return [_convert(item, reasons) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of torch or NumPy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        reasons.append(str(value))
        return None
    return value
