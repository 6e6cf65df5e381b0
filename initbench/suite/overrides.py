"""``--set KEY=VALUE``: overrides of a suite from the command line, applied before any check.

A key is a path: ``recipe.epochs``. In a section of components (``architectures``, ``initializers``, ``probes``,
``dataset``) it applies to every entry whose component has the argument (``architectures.width``), or to the entries of
one name (``initializers.metainit.steps``, ``initializers.metainit.base.gain``, ``architectures.gpt.scheme.alpha``). In
``tune`` the keys contain dots: ``tune.recipe.lr`` is its key ``recipe.lr``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from initbench.arguments import Key, nearest
from initbench.errors import SuiteError, UnknownNameError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, SCHEMES, STANDARD, Component, Registry
from initbench.suite.document import Document, parse_value
from initbench.suite.schema import DEFAULT_PROBES

_DOTTED = "tune"
_SCHEME = "scheme"
_SECTIONS: dict[str, Registry[Any]] = {
    "architectures": ARCHITECTURES,
    "dataset": DATASETS,
    "initializers": INITIALIZERS,
    "probes": PROBES,
}


def override(document: Document, assignment: str, option: str | None = None) -> None:
    """Apply one ``key.key=value``; the value is read as YAML."""
    option = option or f"--set {assignment}"
    path, equals, text = assignment.partition("=")
    parts = path.strip().split(".")
    if not equals or not all(parts):
        raise SuiteError("write --set KEY=VALUE, such as --set recipe.epochs=1", option)
    value = parse_value(text, option)
    if parts[0] == _DOTTED and len(parts) > 1:
        parts = [_DOTTED, ".".join(parts[1:])]
    if parts[0] in _SECTIONS and len(parts) > 1:
        _Entries(document, parts[0], option).set(parts[1:], value)
    else:
        _set_plain(document, parts, value, option)


def _set_plain(document: Document, parts: Sequence[str], value: Any, option: str) -> None:
    missing: list[Key] = []
    target: Any = document.data
    for depth, part in enumerate(parts[:-1], start=1):
        if part not in target:
            missing.append(tuple(parts[:depth]))
        target = target.get(part, {})
        if not isinstance(target, dict):
            where = f"the top level, recipe, resources and the arguments in {', '.join(_SECTIONS)}"
            problem = f"{'.'.join(parts[:depth])} is not a mapping; --set reaches {where}"
            raise SuiteError(problem, option)
    for key in missing:
        document.replace(key, {}, option)
    document.replace(tuple(parts), value, option)


class _Entries:
    """The entries of one section of a document, which is changed; `option` is as the user wrote it."""

    def __init__(self, document: Document, section: str, option: str) -> None:
        self.document, self.section, self.option = document, section, option
        listed = document.data.get(section)
        if section == "probes" and section not in document.data:  # a suite without them has the defaults
            listed = [*DEFAULT_PROBES]
        self.listed = listed
        entries = dict(enumerate(listed)) if isinstance(listed, list) else {None: listed}
        self.keys: dict[Key, str | None] = {
            (section,) if index is None else (section, index): _name(entry) for index, entry in entries.items()
        }

    def set(self, path: Sequence[str], value: Any) -> None:
        dotted = ".".join(path)
        names = [name for name in self.keys.values() if name is not None]
        named = max((name for name in names if f"{dotted}.".startswith(f"{name}.")), key=len, default=None)
        if named == dotted:
            problem = f"say which argument of {named} it is: --set {self.section}.{named}.ARGUMENT=VALUE"
            raise SuiteError(problem, self.option)
        if named is not None:
            path = dotted.removeprefix(f"{named}.").split(".")
        known: set[str] = set()
        having: dict[Key, Component[Any]] = {}
        understood = not self.keys
        for key, name in self.keys.items():
            component = _component(_SECTIONS[self.section], name)
            if component is None or named not in {None, name}:
                continue
            understood = True
            arguments = [a.name for a in component.arguments] + [_SCHEME] * (self.section == "architectures")
            known.update(arguments)
            if path[0] in arguments:
                having[key] = component
        if understood and not having:  # the schema reports malformed entries
            problem = f"{named} has no argument {path[0]!r}"
            if named is None:
                problem = f"nothing in {self.section} has the name or an argument {path[0]!r}"
                known.update(names)
            raise SuiteError(problem + nearest(path[0], known), self.option)
        if having:
            self.document.data.setdefault(self.section, self.listed)
        for key, component in having.items():
            self._set(key, component, path, value)

    def _set(self, key: Key, component: Component[Any], path: Sequence[str], value: Any) -> None:
        """Set an argument of a component, or of a component (or list of components) among its arguments."""
        document, name = self.document, path[0]
        entry = _at(document, key)
        if isinstance(entry, str):  # `digits` is short for {name: digits}
            entry = _at(document, key[:-1])[key[-1]] = {"name": entry}
        if len(path) == 1:
            document.replace((*key, name), value, self.option)
            return
        if name not in entry:
            entry[name] = next((a.default for a in component.arguments if a.name == name), STANDARD)
        if name == _SCHEME and isinstance(entry[name], str):
            entry[name] = {"name": entry[name]}
        nested = entry[name]
        registry = SCHEMES if name == _SCHEME else INITIALIZERS
        keys = [(*key, name, index) for index in range(len(nested))] if isinstance(nested, list) else [(*key, name)]
        inner = {inner_key: _component(registry, _name(_at(document, inner_key))) for inner_key in keys}
        having = {
            inner_key: candidate
            for inner_key, candidate in inner.items()
            if candidate is not None and path[1] in {a.name for a in candidate.arguments}
        }
        if name not in {*component.initializer_arguments, _SCHEME} or not having:
            known = {a.name for candidate in inner.values() if candidate is not None for a in candidate.arguments}
            raise SuiteError(f"{component.name} has no {'.'.join(path)}{nearest(path[1], known)}", self.option)
        for inner_key, candidate in having.items():
            self._set(inner_key, candidate, path[1:], value)


def _at(document: Document, key: Key) -> Any:
    value: Any = document.data
    for part in key:
        value = value[part]
    return value


def _name(entry: Any) -> str | None:
    """Return an entry's name; None if it has none, which the schema reports."""
    name = entry.get("name") if isinstance(entry, dict) else entry
    return name if isinstance(name, str) else None


def _component(registry: Registry[Any], name: str | None) -> Component[Any] | None:
    """Return a component; None if its name is wrong, which is reported at the entry."""
    try:
        return None if name is None else registry.get(name)
    except UnknownNameError:
        return None


def parse_only(option: str) -> dict[str, Any]:
    key, equals, values = option.partition("=")
    if not equals or not key.strip() or not values.strip():
        problem = "write --only KEY=VALUE,VALUE such as --only initializer=metainit,kaiming"
        raise SuiteError(problem, f"--only {option}")
    return {key.strip(): parse_value(f"[{values}]", f"--only {option}")}
