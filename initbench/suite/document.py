"""A YAML file as plain data that remembers the line of every key.

The file is composed into nodes and these are converted here, so that nothing but plain data can come out: tags that
build objects are refused, and anchors are expanded under a limit (an "alias bomb" is a small file that expands to
billions of values).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from initbench.errors import SuiteError
from initbench.validation import nearest, show

Key = tuple[str | int, ...]
_MOST_VALUES = 20_000
_MOST_NESTED = 20
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "map", "seq")}


@dataclass
class Document:
    """A suite file.

    Attributes:
        path: as the user gave it.
        text: the file's text.
        data: its content: mappings, lists and scalars.
        lines: the line (from 1) of each key and list item.
        overrides: where a value came from the command line, the option (``--set recipe.lr=0.1``).
    """

    path: str
    text: str
    data: dict[str, Any]
    lines: dict[Key, int] = field(default_factory=dict)
    overrides: dict[Key, str] = field(default_factory=dict)

    def error(self, key: Key, message: str) -> SuiteError:
        """Return an error that says where: ``file:line: key: message``; the nearest known key stands for the line."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.overrides:
                return SuiteError(f"{self.overrides[key[:length]]}: {dotted(key)}: {message}")
            if key[:length] in self.lines:
                break
        line = self.lines.get(key[:length], 1)
        return SuiteError(f"{self.path}:{line}: " + (f"{dotted(key)}: " if key else "") + message)

    def set(self, assignment: str) -> None:
        """Apply one ``--set key.key=value``; the value is read as YAML.

        Raises:
            SuiteError: not of that form, or a part of the path is not a mapping.
        """
        option = f"--set {assignment}"
        path, equals, text = assignment.partition("=")
        parts = path.strip().split(".")
        if not equals or not all(parts):
            raise SuiteError(f"{option}: write --set KEY=VALUE, such as --set recipe.epochs=1")
        target: Any = self.data
        for depth, part in enumerate(parts[:-1]):
            target = target.setdefault(part, {}) if isinstance(target, dict) else None
            if isinstance(target, str) and parts[0] == "dataset":  # `dataset: digits` is short for a mapping
                target = self.data["dataset"] = {"name": target}
            if not isinstance(target, dict):
                where = ".".join(parts[: depth + 1])
                raise SuiteError(
                    f"{option}: {where} is not a mapping; --set reaches recipe, dataset, resources and seeds"
                )
        target[parts[-1]] = parse_value(text, option)
        self.overrides[tuple(parts)] = option


def dotted(key: Key) -> str:
    """Return a key as users read it: ``initializers[2].gain``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(path: str | Path) -> Document:
    """Read a suite file.

    Raises:
        SuiteError: it cannot be read, is not YAML, is not a mapping, or holds anything but plain data.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        folder = Path(path).parent
        others = [str(p) for p in folder.glob("*.y*ml")] if folder.is_dir() else []
        raise SuiteError(f"{path}: no such file{nearest(str(path), others, list_all=False)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def parse(text: str, path: str) -> Document:
    """Turn YAML text into a `Document`; see `read`."""
    node = _compose(text, path, lines=True)
    if node is None:
        raise SuiteError(f"{path}: is empty; a suite needs name, dataset, architectures and initializers")
    if node.id != "mapping":
        raise SuiteError(
            f"{path}:{node.start_mark.line + 1}: must be a mapping (name: ..., dataset: ...), got a {node.id}"
        )
    document = Document(path, text, {})
    document.data = _Converter(document).convert(node, ())
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
    return None if node is None else _Converter(Document(option, text, {})).convert(node, ())


def _compose(text: str, where: str, *, lines: bool) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).compose(text)
    except (YAMLError, ValueError) as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        problem = (error.problem if isinstance(error, MarkedYAMLError) else None) or str(error).partition("\n")[0]
        if lines and mark is not None:
            where = f"{where}:{mark.line + 1}"
        raise SuiteError(f"{where}: not YAML: {problem}") from error


class _Converter:
    def __init__(self, document: Document) -> None:
        from ruamel.yaml import YAML

        self.document = document
        self.constructor = YAML(typ="safe", pure=True).constructor
        self.values = 0

    def convert(self, node: Any, key: Key) -> Any:
        self.values += 1
        line = node.start_mark.line + 1
        self.document.lines.setdefault(key, line)
        if self.values > _MOST_VALUES:
            raise SuiteError(
                f"{self.document.path}:{line}: expands to more than {_MOST_VALUES} values; write less aliases"
            )
        if len(key) > _MOST_NESTED:
            raise SuiteError(f"{self.document.path}:{line}: nested deeper than {_MOST_NESTED} levels")
        tag = str(node.ctag) if node.ctag else str(node.tag)
        if tag not in _PLAIN_TAGS:
            raise self.document.error(key, f"the tag {tag} is not allowed; a suite is plain data")
        if node.id == "mapping":
            return self._mapping(node, key)
        if node.id == "sequence":
            return [self.convert(child, (*key, i)) for i, child in enumerate(node.value)]
        try:
            return self.constructor.construct_object(node)
        except ValueError as error:
            raise self.document.error(key, f"{show(node.value)} is not a {tag.rpartition(':')[2]}: {error}") from error

    def _mapping(self, node: Any, key: Key) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value
            here = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                raise SuiteError(f"{self.document.path}:{here}: a key must be a name, got a {key_node.id}")
            if name in result:
                first = self.document.lines[(*key, name)]
                raise SuiteError(
                    f"{self.document.path}:{here}: {dotted((*key, name))}: stands twice (first on line {first})"
                )
            self.document.lines[(*key, name)] = here
            result[name] = self.convert(value_node, (*key, name))
        return result
