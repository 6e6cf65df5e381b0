"""A YAML file as plain data that knows the line of every key.

The file is composed into nodes, which are converted here, so the result is always plain data: tags that build objects
are refused, and anchors are expanded under a limit (an "alias bomb" is a small file that expands to billions of
values). Aliases become copies, so a change at one key does not change another.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from initbench.arguments import Key, dotted, read_text, show
from initbench.errors import ArgumentError, SuiteError
from initbench.visible_text import visible

_MOST_VALUES = 20_000
_MOST_NESTED = 20
_LARGEST_INTEGER = 2**63 - 1
_TAG = "tag:yaml.org,2002:"
_SCALARS = {"null": "null", "bool": "true or false", "int": "an integer of at most 64 bits", "float": "a number"}
# Halves of characters, which no file can hold, and the null character, which ends a path for other libraries.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_PLAIN = "a suite is plain data"
_EMPTY = "is empty; a suite needs name, dataset, architectures and initializers"


@dataclass
class Document:
    """A suite file, as plain data that knows where its keys are written.

    Attributes:
        path: as the user gave it; the option if the value is from the command line.
        lines: the line (from 1) of each key and list item; empty if the value is from the command line.
        overrides: key → the option that set it on the command line (``--set recipe.lr=0.1``).
    """

    path: str
    text: str
    data: dict[str, Any]
    lines: dict[Key, int] = field(default_factory=dict)
    overrides: dict[Key, str] = field(default_factory=dict)

    def error(self, key: Key, problem: str, line: int | None = None) -> SuiteError:
        """Return an error with its file and line, or the option, and the key.

        If the key has no line, `line` is its line, or the nearest key above it gives one.
        """
        above = (key[:n] for n in range(len(key), -1, -1))
        known = next((part for part in above if part in self.lines or part in self.overrides), ())
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

    def replace(self, key: Key, value: Any, option: str) -> None:
        """Replace a value of the file, whose parent must exist, by the plain data of an option of the command line."""
        target: Any = self.data
        for part in key[:-1]:
            target = target[part]
        target[key[-1]] = copy.deepcopy(value)  # one option can replace several values
        self.lines = {k: line for k, line in self.lines.items() if k[: len(key)] != key}
        self.overrides[key] = option


@dataclass(frozen=True)
class Origin:
    """Where a component is written.

    `listed` has the keys of arguments that are items of a list; the other arguments are below `key` by their names.
    """

    document: Document
    key: Key
    listed: Mapping[str, Key] = field(default_factory=dict)

    def error(self, problem: str) -> SuiteError:
        return self.document.error(self.key, problem)

    def argument_error(self, error: ArgumentError) -> SuiteError:
        """Return the component's error about an argument; for an argument of a nested initializer, at ``base.gain``."""
        if not error.argument:
            return self.error(error.problem)
        name, *within = error.argument.split(".")
        return self.document.error((*self.listed.get(name, (*self.key, name)), *within), error.problem)


def read(path: str | Path) -> Document:
    return parse(read_text(path, "*.y*ml", lambda problem, line: SuiteError(problem, str(path), line)), str(path))


def parse(text: str, path: str) -> Document:
    document = Document(path, text, {})
    data = _Reader(document).read()
    if data is None:
        raise SuiteError(_EMPTY, path)
    if not isinstance(data, dict):
        raise document.error((), f"must be a mapping (name: ..., dataset: ...), got {show(data)}")
    document.data = data
    return document


def parse_value(text: str, option: str) -> Any:
    return _Reader(Document(option, text, {}), has_lines=False).read()


@dataclass
class _Reader:
    """Converts YAML text and records the lines of its keys."""

    document: Document
    has_lines: bool = True
    values: int = 0
    above: list[Any] = field(default_factory=list)
    yaml: Any = None

    def read(self) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        self.yaml = YAML(typ="safe", pure=True)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an anchor is defined twice, which YAML allows
                node = self.yaml.compose(self.document.text)
        except MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if self.has_lines and error.problem_mark is not None else None
            problem = ", ".join(filter(None, [error.context, error.problem]))
            raise SuiteError(f"not YAML: {problem}", self.document.path, line) from error
        except (YAMLError, ValueError) as error:
            problem = str(error).partition("\n")[0]
            raise SuiteError(f"not YAML: {problem}", self.document.path) from error
        except RecursionError as error:
            raise SuiteError(f"nested deeper than {_MOST_NESTED} levels", self.document.path) from error
        return None if node is None else self._value(node, ())

    def _value(self, node: Any, key: Key) -> Any:
        self.values += 1
        if self.has_lines:
            self.document.lines.setdefault(key, node.start_mark.line + 1)
        if any(node is other for other in self.above):
            raise self._error(key, node, "an alias refers to a value that contains it")
        if self.values > _MOST_VALUES:
            raise self._error((), node, f"expands to more than {_MOST_VALUES} values; use fewer aliases")
        if len(key) > _MOST_NESTED:
            raise self._error((), node, f"nested deeper than {_MOST_NESTED} levels")
        kind = str(node.ctag or node.tag).removeprefix(_TAG)
        if node.id == "scalar":
            return self._scalar(node, kind, key)
        if (node.id, kind) not in {("mapping", "map"), ("sequence", "seq")}:
            raise self._error(key, node, f"the tag {show(str(node.ctag or node.tag))} is not allowed; {_PLAIN}")
        self.above.append(node)
        converted = (
            self._mapping(node, key)
            if node.id == "mapping"
            else [self._value(item, (*key, index)) for index, item in enumerate(node.value)]
        )
        self.above.pop()
        return converted

    def _mapping(self, node: Any, key: Key) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value
            if key_node.id != "scalar" or not name:
                raise self._error(key, key_node, "a key must be a name")
            if _UNUSABLE.search(name):
                raise self._unusable(key, key_node)
            if name in converted:
                first = self.document.lines.get((*key, name))
                hint = "" if first is None else f" (first on line {first})"
                raise self._error((*key, name), key_node, f"is given twice{hint}")
            if self.has_lines:
                self.document.lines.setdefault((*key, name), key_node.start_mark.line + 1)
            converted[name] = self._value(value_node, (*key, name))
        return converted

    def _scalar(self, node: Any, kind: str, key: Key) -> Any:
        if kind in {"str", "timestamp"}:  # a suite has no dates: `name: 2026-11-21` is text
            if _UNUSABLE.search(node.value):
                raise self._unusable(key, node)
            return node.value
        if kind not in _SCALARS:
            raise self._error(key, node, f"the tag {show(str(node.ctag or node.tag))} is not allowed; {_PLAIN}")
        problem = f"{show(node.value)} is not {_SCALARS[kind]}"
        try:
            value = self.yaml.constructor.construct_object(node)
        except (ValueError, KeyError, IndexError) as error:
            raise self._error(key, node, problem) from error
        if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            raise self._error(key, node, problem)
        return value

    def _unusable(self, key: Key, node: Any) -> SuiteError:
        [character, *_] = _UNUSABLE.findall(node.value)
        return self._error(key, node, f"holds {visible(character)}, which text cannot contain")

    def _error(self, key: Key, node: Any, problem: str) -> SuiteError:
        return self.document.error(key, problem, node.start_mark.line + 1 if self.has_lines else None)
