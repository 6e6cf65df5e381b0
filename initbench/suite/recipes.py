"""The recipes of a suite: every combination of the listed values, on top of the recipe that it starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.arguments import show
from initbench.errors import UnknownNameError
from initbench.suite.crossing import cross
from initbench.suite.schema import recipe_of, recipe_takes_a_list
from initbench.training.named_recipes import RECIPES
from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.suite.document import Document

USE = "use"
"""The key of the recipe that a suite's recipe starts from; no field of it."""
_KEY = ("recipe",)
# What stands in the place of another field, or says what it means: with another value of the first the others go.
_BELONG_TO = {
    "epochs": ("steps",),
    "steps": ("epochs",),
    "warmup_epochs": ("warmup_steps",),
    "warmup_steps": ("warmup_epochs",),
    "schedule": ("milestones", "step_factor"),
    "optimizer": ("momentum", "nesterov", "betas"),
}


def cross_recipes(document: Document, written: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the fields of every recipe of a suite.

    ``use`` names a registered recipe, or several in a list, and the other keys are set on top of it. The recipe's own
    value of a field goes where the suite sets what that field belongs to otherwise: ``steps`` in the place of its
    ``epochs``, or another ``schedule`` than that of its ``milestones``.

    Args:
        document: for messages.
        written: the suite's ``recipe``.

    Raises:
        SuiteError: a recipe is unknown, a field is unknown or its value refused, or two combinations are one recipe.
    """
    if USE in written:
        _check_names(document, written[USE])
    found: list[dict[str, Any]] = []
    seen: set[Recipe] = set()
    for own in cross(document, written, _KEY, recipe_takes_a_list):
        fields = _resolved(own)
        recipe = recipe_of(document, fields, _KEY)
        if USE in written and recipe in seen:
            raise document.error((*_KEY, USE), f"comes to the same recipe twice, the second time with {own[USE]}")
        seen.add(recipe)
        found.append(fields)
    return tuple(found)


def _check_names(document: Document, named: Any) -> None:
    key = (*_KEY, USE)
    places = [((*key, i), name) for i, name in enumerate(named)] if isinstance(named, list) else [(key, named)]
    for place, name in places:
        if not isinstance(name, str):
            raise document.error(place, f"must be the name of a recipe, got {show(name)}")
        try:
            RECIPES.get(name)
        except UnknownNameError as error:
            raise document.error(place, str(error)) from error


def _resolved(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a combination with those of the recipe that it starts from."""
    if USE not in own:
        return dict(own)
    named = RECIPES.get(own[USE]).fields
    changed = {name for name in own if own[name] != named.get(name, _default(name))}
    gone = {field for name in changed for field in _BELONG_TO.get(name, ())}
    kept = {name: value for name, value in named.items() if name not in gone}
    return kept | {name: value for name, value in own.items() if name != USE}


def _default(name: str) -> Any:
    return Recipe.model_fields[name].default if name in Recipe.model_fields else None
