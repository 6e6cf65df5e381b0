"""Values as JSON can hold them. No torch, so that ledgers and reports can import it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from initbench.visible_text import visible

# What `json.dumps` makes of control characters without a short form, and of halves of characters among others.
_MAY_BE_INVISIBLE = re.compile(r"\\u(?:00[0189]|d[89a-f])")


def json_values(value: Any) -> Any:
    """Return a value with every non-finite float as None.

    Beside the key of each mapping whose value held any stands ``<key>_reason``: the texts of the non-finite values
    (``nan``, ``inf``, ``-inf``), each once, in the order met.
    """
    return _convert(value, [])


def _convert(value: Any, reasons: list[str]) -> Any:
    if isinstance(value, Mapping):
        converted: dict[str, Any] = {}
        for key, item in value.items():
            own: list[str] = []
            converted[str(key)] = _convert(item, own)
            if own:
                converted[f"{key}_reason"] = ", ".join(dict.fromkeys(own))
        return converted
    if isinstance(value, list | tuple):
        return [_convert(item, reasons) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of torch or NumPy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        reasons.append(str(value))
        return None
    return value


def with_visible_text(data: dict[str, Any]) -> dict[str, Any]:
    """Return plain data with every text and key made `visible`, but for ends of lines and tabs; mostly `data` itself.

    Raises:
        TypeError: something is no plain data.
        ValueError: a number is not finite.
    """
    return _visible(data) if _MAY_BE_INVISIBLE.search(json.dumps(data, allow_nan=False)) else data


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value, keep="\n\t")
    if isinstance(value, Mapping):
        return {_visible(key): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value
