"""A YAML file as plain data that remembers the line of every key.

The file is composed into nodes and these are converted here, so that nothing but plain data can come out: tags that
build objects are refused, and anchors are expanded under a limit (an "alias bomb" is a small file that expands to
billions of values).
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initbench.arguments import Key, dotted, read_text, show
from initbench.errors import SuiteError
from initbench.visible_text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from initbench.errors import ArgumentError

_MOST_VALUES = 20_000
_MOST_NESTED = 20
_LARGEST_INTEGER = 2**63 - 1
_TAG = "tag:yaml.org,2002:"
_COLLECTIONS = {"mapping": "map", "sequence": "seq"}
_SCALARS = {"null": "null", "bool": "true or false", "int": "an integer of at most 64 bits", "float": "a number"}
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_EMPTY = "is empty; a suite needs name, dataset, architectures and initializers"


@dataclass
class Document:
    """A suite file.

    Attributes:
        path: as the user gave it; for a value of the command line, the option.
        text: the file's text.
        data: its content: mappings, lists and scalars.
        lines: the line (from 1) of each key and list item; empty for a value of the command line.
        overrides: where a value came from the command line, the option (``--set recipe.lr=0.1``).
    """

    path: str
    text: str
    data: dict[str, Any]
    lines: dict[Key, int] = field(default_factory=dict)
    overrides: dict[Key, str] = field(default_factory=dict)

    def error(self, key: Key, problem: str, line: int | None = None) -> SuiteError:
        """Return an error that says where it is: the file and line, or the option; and the key.

        Args:
            key: what is wrong; where it has no line, the nearest one above it has.
            problem: what is wrong with it.
            line: of the key, where the document does not have it.
        """
        known = next(
            (key[:n] for n in range(len(key), -1, -1) if key[:n] in self.lines or key[:n] in self.overrides), ()
        )
        if known in self.overrides:
            return SuiteError(problem, self.overrides[known], None, dotted(key))
        return SuiteError(problem, self.path, line or self.lines.get(known), dotted(key))

    def has(self, key: Key) -> bool:
        """Return whether the user gave this key, in the file or on the command line."""
        value: Any = self.data
        for part in key:
            known = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
            if part not in known:
                return False
            value = value[part]
        return True

    def argument_error(self, key: Key, error: ArgumentError, places: Mapping[str, Key] | None = None) -> SuiteError:
        """Return what a component says of its arguments as an error of this document.

        Args:
            key: where the component stands.
            error: of an argument; of one of an initializer that is itself an argument, ``base.gain``.
            places: where arguments stand that are items of a list; the others stand below `key` by their names.
        """
        if not error.argument:
            return self.error(key, error.problem)
        name, *within = error.argument.split(".")
        return self.error((*(places or {}).get(name, (*key, name)), *within), error.problem)

    def replace(self, key: Key, value: Any, option: str) -> None:
        """Put a value of the command line in the place of what the file has.

        Args:
            key: where; what holds it is there.
            value: plain data.
            option: how the user wrote it, for messages.
        """
        target: Any = self.data
        for part in key[:-1]:
            target = target[part]
        target[key[-1]] = value
        self.lines = {k: line for k, line in self.lines.items() if k[: len(key)] != key}
        self.overrides[key] = option


def read(path: str | Path) -> Document:
    """Read a suite file.

    Raises:
        SuiteError: it cannot be read, is not YAML, is not a mapping, or holds anything but plain data.
    """
    return parse(read_text(path, "*.y*ml", lambda problem, line: SuiteError(problem, str(path), line)), str(path))


def parse(text: str, path: str) -> Document:
    """Turn YAML text into a `Document`; see `read`."""
    node = _compose(text, path, lines=True)
    if node is None:
        raise SuiteError(_EMPTY, path)
    document = Document(path, text, {})
    data = _Converter(document, lines=True).convert(node, ())
    if data is None:
        raise SuiteError(_EMPTY, path)
    if not isinstance(data, dict):
        raise document.error((), f"must be a mapping (name: ..., dataset: ...), got {show(data)}")
    document.data = data
    return document


def parse_value(text: str, option: str) -> Any:
    """Return the plain data that YAML text stands for, null where it is empty.

    Args:
        text: one value, as it would stand behind a key.
        option: the command-line option that it comes from, for messages.

    Raises:
        SuiteError: it is not YAML, or not plain data.
    """
    node = _compose(text, option, lines=False)
    return None if node is None else _Converter(Document(option, text, {}), lines=False).convert(node, ())


def _compose(text: str, where: str, *, lines: bool) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an anchor is defined twice, which YAML allows
            return YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if lines and error.problem_mark is not None else None
        problem = ", ".join(filter(None, [error.context, error.problem]))
        raise SuiteError(f"not YAML: {problem}", where, line) from error
    except (YAMLError, ValueError) as error:
        problem = str(error).partition("\n")[0]
        raise SuiteError(f"not YAML: {problem}", where) from error
    except RecursionError as error:
        raise SuiteError(f"nested deeper than {_MOST_NESTED} levels", where) from error


class _Converter:
    def __init__(self, document: Document, *, lines: bool) -> None:
        from ruamel.yaml import YAML

        self.document = document
        self.lines = lines
        self.constructor = YAML(typ="safe", pure=True).constructor
        self.values = 0
        self.above: list[Any] = []

    def convert(self, node: Any, key: Key) -> Any:
        self.values += 1
        self._remember(key, node)
        if any(node is other for other in self.above):
            raise self._error(key, node, "an alias refers to what it stands in")
        if self.values > _MOST_VALUES:
            raise self._error((), node, f"expands to more than {_MOST_VALUES} values; use fewer aliases")
        if len(key) > _MOST_NESTED:
            raise self._error((), node, f"nested deeper than {_MOST_NESTED} levels")
        tag = str(node.ctag) if node.ctag else str(node.tag)
        if tag == f"{_TAG}{_COLLECTIONS.get(node.id)}":
            self.above.append(node)
            result = self._mapping(node, key) if node.id == "mapping" else self._sequence(node, key)
            self.above.pop()
            return result
        return self._scalar(node, tag, key)

    def _mapping(self, node: Any, key: Key) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value
            if key_node.id != "scalar" or not name:
                raise self._error(key, key_node, "a key must be a name")
            self._check_text(name, key_node, key)
            if name in result:
                first = self.document.lines.get((*key, name))
                hint = "" if first is None else f" (first on line {first})"
                raise self._error((*key, name), key_node, f"stands twice{hint}")
            self._remember((*key, name), key_node)
            result[name] = self.convert(value_node, (*key, name))
        return result

    def _sequence(self, node: Any, key: Key) -> list[Any]:
        return [self.convert(child, (*key, index)) for index, child in enumerate(node.value)]

    def _scalar(self, node: Any, tag: str, key: Key) -> Any:
        kind = tag.removeprefix(_TAG)
        if node.id == "scalar" and kind in {"str", "timestamp"}:  # a suite has no dates: `name: 2026-11-21` is a text
            self._check_text(node.value, node, key)
            return node.value
        if node.id != "scalar" or kind not in _SCALARS:
            raise self._error(key, node, f"the tag {show(tag)} is not allowed; a suite is plain data")
        wrong = self._error(key, node, f"{show(node.value)} is not {_SCALARS[kind]}")
        try:
            value = self.constructor.construct_object(node)
        except (ValueError, KeyError, IndexError) as error:
            raise wrong from error
        if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            raise wrong
        return value

    def _check_text(self, text: str, node: Any, key: Key) -> None:
        """Refuse what no file can hold, and what ends a path or a name for other libraries."""
        wrong = _UNUSABLE.search(text)
        if wrong:
            raise self._error(key, node, f"holds {visible(wrong[0])}, which is no character of a text")

    def _remember(self, key: Key, node: Any) -> None:
        if self.lines:
            self.document.lines.setdefault(key, node.start_mark.line + 1)

    def _error(self, key: Key, node: Any, message: str) -> SuiteError:
        return self.document.error(key, message, node.start_mark.line + 1 if self.lines else None)
