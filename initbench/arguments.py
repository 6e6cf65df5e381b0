"""Check arguments, and explain in one line why a user's value or file is wrong."""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from initbench.errors import ArgumentError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Key = tuple[str | int, ...]
"""The names and indices that lead to a value in nested mappings and lists."""
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
_PLAIN = {"missing": "is required", "finite_number": "must be finite, got {got}"}
_LENGTHS = {
    "too_short": ("min_length", "at least", "items"),
    "too_long": ("max_length", "at most", "items"),
    "string_too_short": ("min_length", "at least", "characters"),
    "string_too_long": ("max_length", "at most", "characters"),
}
_MOST_NAMES = 20
_MOST_BYTES = 1_000_000


def show(value: Any) -> str:
    """Return a value as a user would write it in YAML, cut to 60 characters."""
    text = _written(value)
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(name: str, valid: Iterable[str], *, list_all: bool = True) -> str:
    """Return `` (did you mean 'x'?)`` for the valid name nearest to `name`.

    If none is close: `` (valid: a, b, c)`` if `list_all`, otherwise nothing.
    """
    names = list(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f" (did you mean {close[0]!r}?)"
    if not names or not list_all:
        return ""
    return f" (valid: {', '.join(sorted(names)[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''})"


def explain(error: ErrorDetails, valid_keys: Iterable[str] = ()) -> str:
    """Return the problem in one line that follows the key's name; `valid_keys` are suggestions for an unknown key."""
    kind, got, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return "is an unknown key" + nearest(str(error["loc"][-1]), valid_keys)
    if kind in _PLAIN:
        return _PLAIN[kind].format(got=show(got))
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}, got {show(got)}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"must be {words} {context[key]:g}, got {show(got)}"
    if kind == "literal_error":
        choices = _choices(str(context["expected"]))
        hint = nearest(got, choices, list_all=False) if isinstance(got, str) else ""
        return f"must be one of {', '.join(choices)}; got {show(got)}{hint}"
    if kind.startswith("union_tag"):
        return _explain_tag(context)
    if kind in {"too_short", "string_too_short"} and context["min_length"] == 1:
        return "must not be empty"
    if kind in _LENGTHS:
        key, words, what = _LENGTHS[kind]
        return f"must have {words} {context[key]} {what}, got {len(got)}"
    if kind == "value_error":
        return context["error"].problem if isinstance(context["error"], ArgumentError) else str(context["error"])
    return f"{error['msg']}, got {show(got)}"


def _explain_tag(context: Mapping[str, Any]) -> str:
    name = str(context["discriminator"]).strip("'")
    if "tag" not in context:
        return f"{name} is required"
    choices = _choices(str(context["expected_tags"]))
    hint = nearest(str(context["tag"]), choices, list_all=False)
    return f"{name} must be one of {', '.join(choices)}; got {show(context['tag'])}{hint}"


def argument_of(error: ErrorDetails) -> tuple[str | int, ...]:
    """Return the keys and indices that lead to the error in the mapping that was checked."""
    wrong = error.get("ctx", {}).get("error")
    within = (wrong.argument,) if isinstance(wrong, ArgumentError) and wrong.argument else ()
    return (*error["loc"], *within)


def types_of(annotation: Any) -> set[Any]:
    """Return the types that an annotation allows: ``int | tuple[float, ...]`` gives int and tuple."""
    admitted, left = set(), [annotation]
    while left:
        annotation = left.pop()
        origin = get_origin(annotation)
        if origin is Annotated:
            left.append(get_args(annotation)[0])
        elif origin in {Union, UnionType}:
            left.extend(get_args(annotation))
        else:
            admitted.add(origin or annotation)
    return admitted


def choices_of(annotation: Any) -> set[Any]:
    """Return the literal values in an annotation: ``float | Literal["inf"]`` gives ``inf``."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    members = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else ()
    return set().union(*(choices_of(member) for member in members))


def type_text(annotation: Any) -> str:
    """Return an annotation as users read it: ``'fan_in' | 'fan_out'``, ``int | null``."""
    if annotation is inspect.Parameter.empty:
        return "any"
    if get_origin(annotation) is Literal:
        return " | ".join(map(show, get_args(annotation)))
    if get_origin(annotation) in {Union, UnionType}:
        return " | ".join(map(type_text, get_args(annotation)))
    if isinstance(annotation, type) and annotation.__module__.partition(".")[0] == "initbench":
        return annotation.__name__
    return "null" if annotation is type(None) else inspect.formatannotation(annotation).replace("typing.", "")


def read_text(path: str | Path, pattern: str, error: Callable[[str, int | None], Exception]) -> str:
    """Return the text of a file that a user named: UTF-8, at most 1 MB.

    If it cannot be read, raise the exception that `error` makes of the reason and the line (None for the whole file).
    `pattern`, such as ``*.py``, finds neighbouring files that the user may have meant.
    """
    file = Path(path)
    try:
        if not file.exists():
            others = [str(other) for other in file.parent.glob(pattern)] if file.parent.is_dir() else []
            raise error(f"no such file{nearest(str(path), others, list_all=False)}", None)
        if file.is_dir():
            others = [str(other) for other in sorted(file.glob(pattern))[:1]]
            raise error("is a folder" + "".join(f"; did you mean {other}?" for other in others), None)
        if not file.is_file():
            raise error("is not a file", None)
        if file.stat().st_size > _MOST_BYTES:
            raise error(f"is larger than {_MOST_BYTES // 1_000_000} MB", None)
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = wrong.object[: wrong.start].count(b"\n") + 1
        byte = wrong.object[wrong.start]
        raise error(f"is not UTF-8 text (byte 0x{byte:02x})", line) from None
    except (OSError, ValueError) as wrong:  # a path with a null character is a ValueError
        raise error(f"cannot be read: {getattr(wrong, 'strerror', None) or wrong}", None) from None


def check_positive(**values: float | None) -> None:
    """Refuse the first argument that is not a finite number above 0; None is not checked."""
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ArgumentError(f"must be a finite number above 0, got {value}", name)


def check_counts(**counts: int | None) -> None:
    """Refuse the first argument that is below 1; None is not checked."""
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ArgumentError(f"must be at least 1, got {count}", name)


def dotted(key: Key) -> str:
    """Return a key as users read it: ``initializers[2].gain``."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[\w.*/<-]{1,60}", part) else show(part)
            text += f".{name}" if text else name
    return text


def _choices(expected: str) -> list[str]:
    return [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]


def _written(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_written(child)}" for key, child in value.items()) + "}"
    return repr(value) if isinstance(value, str) else str(value)
