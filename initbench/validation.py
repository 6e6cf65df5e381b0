"""One-line explanations of what is wrong with a value: pydantic's errors in the words of our users."""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

_TYPE_NAMES = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "mapping_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def show(value: Any) -> str:
    """Return a value as a user would have written it in YAML, cut to 60 characters."""
    text = {True: "true", False: "false", None: "null"}.get(value) if isinstance(value, bool | None) else None
    text = text or (repr(value) if isinstance(value, str) else str(value))
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(name: str, valid: Iterable[str], *, list_all: bool = True) -> str:
    """Return `` (did you mean 'x'?)`` for the valid name nearest to `name`.

    Where none is near: `` (valid: a, b, c)`` if `list_all`, else nothing.
    """
    names = list(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (valid: {', '.join(sorted(names)[:20])})" if names and list_all else ""


def explain(error: ErrorDetails, valid_keys: Iterable[str] = ()) -> str:
    """Return what is wrong, in one line that follows the name of the key.

    Args:
        error: one entry of pydantic's `ValidationError.errors()`.
        valid_keys: the keys that would have been right, for an unknown key.
    """
    kind, got, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key" + nearest(str(error["loc"][-1]), valid_keys)
    if kind == "missing":
        return "is required"
    if kind == "finite_number" or (isinstance(got, float) and not math.isfinite(got)):
        return f"must be finite, got {show(got)}"
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}, got {show(got)}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {context[key]}, got {show(got)}"
    if kind == "literal_error":
        choices = _choices(str(context["expected"]))
        hint = nearest(got, choices, list_all=False) if isinstance(got, str) else ""
        return f"must be one of {', '.join(choices)}; got {show(got)}{hint}"
    if kind in {"too_short", "string_too_short"}:
        return "must not be empty"
    if kind == "value_error":
        return str(context["error"])
    return f"{error['msg']}, got {show(got)}"


def _choices(expected: str) -> list[str]:
    """Return the names in pydantic's ``'a', 'b' or 'c'``."""
    return [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]
