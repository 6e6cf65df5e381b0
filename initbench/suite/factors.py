"""Factors: what a suite can compare.

A key of a trial is ``architecture``, ``scheme``, ``initializer`` or ``dataset`` (a name), one of their arguments
(``initializer.steps``), or a field of the recipe (``recipe.lr``). A factor is such a key, or what stands before the
dot: it covers all keys below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.suite.schema import entry_key
from initbench.training.recipe import Recipe
from initbench.validation import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from initbench.suite.document import Document
    from initbench.suite.spec import ComponentSpec


def check_factors(
    document: Document, factors: Sequence[str], components: Mapping[str, Iterable[ComponentSpec]]
) -> None:
    """Refuse what no trial has.

    Args:
        document: for messages.
        factors: those of ``compare``.
        components: ``architecture``, ``initializer`` and ``dataset`` → each that the suite has.

    Raises:
        SuiteError: a factor is unknown, or stands twice.
    """
    known = {"scheme", "recipe", *components, *(f"recipe.{name}" for name in Recipe.model_fields)}
    for kind, specs in components.items():
        known |= {f"{kind}.{name}" for spec in specs for name in spec.arguments}
    for index, factor in enumerate(factors):
        key = entry_key(document, "compare", index)
        if factor not in known:
            raise document.error(key, f"nothing in the suite has {factor!r}{nearest(factor, known)}")
        if factor in factors[:index]:
            raise document.error(key, f"{factor} stands twice")
