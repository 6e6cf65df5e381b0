"""Recipes by name: the papers' recipes, which are files in `initbench/recipes/`, and recipes of plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from initbench import plugins
from initbench.arguments import nearest
from initbench.errors import InitbenchError, UnknownNameError
from initbench.training.recipe import checked_recipe

_FOLDER = Path(__file__).parents[1] / "recipes"


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe that suites can start from, see `register_recipe`.

    All other fields keep their defaults; `origin` is the file or module that defines it.
    """

    name: str
    fields: Mapping[str, Any]
    origin: str
    description: str = ""
    reference: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        return self.description.partition("\n")[0]


class NamedRecipes:
    kind = "recipe"

    def __init__(self, folder: Path) -> None:
        self.builtins = {file.stem: file for file in sorted(folder.glob("*.yaml"))}
        self._registered: dict[str, NamedRecipe] = {}

    def register(self, recipe: NamedRecipe) -> None:
        name, taken = recipe.name, self._registered.get(recipe.name)
        if not name or any(c.isspace() or c in "[](),=" for c in name):
            raise InitbenchError(f"recipe {name!r}: a name must not contain spaces, brackets, commas or '='")
        # A module may be reloaded, and a notebook cell run again.
        if name in self.builtins or (taken is not None and taken.origin != recipe.origin):
            owner = "initbench" if taken is None or name in self.builtins else plugins.origin(taken.origin)
            raise InitbenchError(f"recipe {name!r} is already registered by {owner}")
        _check(recipe)
        self._registered[name] = recipe

    def names(self) -> list[str]:
        """Return the names of all recipes, including plug-ins."""
        plugins.load_entry_points()
        return sorted({*self.builtins, *self._registered})

    def get(self, name: str) -> NamedRecipe:
        if name not in self.names():
            raise UnknownNameError(f"unknown recipe {name!r}{nearest(name, self.names())}")
        if name not in self._registered:
            self._registered[name] = _read(self.builtins[name])
        return self._registered[name]


RECIPES = NamedRecipes(_FOLDER)


def register_recipe(
    name: str,
    fields: Mapping[str, Any],
    *,
    description: str = "",
    reference: str = "",
    sources: Mapping[str, str] | None = None,
) -> None:
    """Register a recipe that suites can start from: ``recipe: {use: NAME, epochs: 2}``.

    A trial's id contains the resulting fields and not the recipe's name. So a later change of the recipe does not
    affect trials that have run, and writing the recipe out gives the same trials.

    Args:
        name: the name used in suites.
        fields: the fields of a suite's ``recipe``, each with one value.
        description: one line, optionally followed by an empty line and further text.
        reference: the paper or code that it follows.
        sources: field → source of its value, such as ``appendix A.1``.

    Raises:
        InitbenchError: the name is taken, a field is unknown or its value refused, or `sources` names an unset field.
    """
    origin = str(sys._getframe(1).f_globals.get("__name__", ""))  # noqa: SLF001 - as `collections.namedtuple` does
    RECIPES.register(NamedRecipe(name, dict(fields), origin, description, reference, dict(sources or {})))


def _check(recipe: NamedRecipe) -> None:
    for name in recipe.sources:
        if name not in recipe.fields:
            raise InitbenchError(f"recipe {recipe.name!r}: sources names {name!r}{nearest(name, recipe.fields)}")
    checked_recipe(
        recipe.fields,
        lambda key, problem: InitbenchError(f"recipe {recipe.name!r}: {'.'.join(map(str, key))}: {problem}"),
    )


def _read(file: Path) -> NamedRecipe:
    """Return a recipe of the library; the comment after each value is its source."""
    from ruamel.yaml import YAML

    data = YAML().load(file.read_text(encoding="utf-8"))
    fields = data["recipe"]
    sources = {name: fields.ca.items[name][2].value.removeprefix("#").strip() for name in fields}
    plain = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))["recipe"]
    origin = f"initbench/recipes/{file.name}"
    return NamedRecipe(file.stem, plain, origin, str(data["description"]).strip(), str(data["reference"]), sources)
