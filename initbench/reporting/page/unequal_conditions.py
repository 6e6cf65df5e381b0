"""The line beside the map on conditions that are not the same for all networks and treatments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from initbench.arguments import show
from initbench.comparing.formatting import counted, listed, natural
from initbench.reporting.conditions import OPTIMIZERS, effective
from initbench.reporting.page.methods import DETAILS, OFF
from initbench.reporting.results import Results
from initbench.reporting.sentence import named

_MOST_CLAUSES = 4
_WORDS = {
    "length": "",
    "batch_size": "batch size",
    "optimizer": "",
    "lr": "learning rate",
    **DETAILS,
    "nesterov": "Nesterov momentum",
    "step_factor": "step factor",
}
"""Field of the recipe → its words before a value; the length is in steps or epochs."""
_FIELDS = {"length": ("epochs", "steps")}


class _Cell(NamedTuple):
    """A treatment on a workload, by their labels."""

    workload: str
    treatment: str


def unequal_conditions(results: Results) -> str:
    """Return ``Conditions differ: gradients clipped at norm 1 on plain-28 only; batch size 8 on gpt-4.``, or nothing.

    It names the fields of the recipe that differ between cells and are neither tuned nor in the names of workloads and
    treatments, and arguments of initializers below their defaults, if ``resolved.json`` has these.
    """
    recipes = list(_recipe_clauses(results))
    if len(recipes) > _MOST_CLAUSES:
        recipes = [*recipes[: _MOST_CLAUSES - 1], f"{len(recipes) - _MOST_CLAUSES + 1} others (see Methods)"]
    clauses = [*recipes, *_initializer_clauses(results)]
    return f"Conditions differ: {'; '.join(clauses)}." if clauses else ""


def _recipe_clauses(results: Results) -> Iterator[str]:
    """Yield one clause for all fields that deviate in the same cells."""
    recipes = {
        _Cell(row["workload"], row["treatment"]): _recipe(results.by_id[row["trial_id"]].spec["recipe"])
        for row in results.trials.drop_duplicates(["workload", "treatment"]).to_dict("records")
    }
    labels = results.labels
    said = {factor for key in (*labels.workloads.values(), *labels.treatments.values()) for factor in key}
    said |= set() if results.tune is None else set(results.tune.keys)
    together: dict[str, list[str]] = defaultdict(list)
    for field in _WORDS:
        values = {cell: recipe[field] for cell, recipe in recipes.items() if field in recipe}
        if said.isdisjoint(f"recipe.{name}" for name in _FIELDS.get(field, (field,))):
            for where, text in _deviations(field, values, results):
                together[where].append(text)
    for where, texts in together.items():
        yield f"{named(texts, _MOST_CLAUSES)} {where}"


def _recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    used = effective(recipe)
    length = counted(used["steps"], "step") if used.get("steps") else counted(used.get("epochs", 0), "epoch")
    return used | {"length": length, "optimizer": OPTIMIZERS.get(used["optimizer"], used["optimizer"])}


def _deviations(field: str, values: Mapping[_Cell, Any], results: Results) -> Iterator[tuple[str, str]]:
    """Yield where a field is set to which value; the value of most cells is left out if the field is set in all."""
    counts = Counter(_text(value) for value in values.values() if value not in OFF)
    is_off = counts.total() < len(values)
    most = [] if is_off else [text for text, count in counts.items() if count == max(counts.values())]
    for text in counts:
        if most != [text]:
            cells = {cell for cell, value in values.items() if _text(value) == text}
            where = _where(cells, set(values), results) + (" only" if is_off else "")
            yield where, _WORDS[field] if text == "True" else f"{_WORDS[field]} {text}".strip()


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else show(value) if isinstance(value, dict) else str(value)


def _where(cells: set[_Cell], every: set[_Cell], results: Results) -> str:
    """Return ``on plain-28``, ``for metainit``, or ``in 3 of 8 cells``."""
    names = results.names
    workloads, treatments = {cell.workload for cell in cells}, {cell.treatment for cell in cells}
    if all(cell in cells for cell in every if cell.workload in workloads):
        return f"on {named(sorted(map(names.workload, workloads), key=natural))}"
    if all(cell in cells for cell in every if cell.treatment in treatments):
        return f"for {named(sorted(map(names.treatment, treatments), key=natural))}"
    return f"in {len(cells)} of {counted(len(every), 'cell')}"


def _initializer_clauses(results: Results) -> Iterator[str]:
    """Yield which initializers run with less than their defaults."""
    lower: dict[tuple[str, str, float], set[float]] = defaultdict(set)
    for trial in results.trials["trial_id"]:
        initializer = results.by_id[trial].spec["initializer"]
        for argument, default in results.source.defaults.get(initializer["name"], {}).items():
            value = initializer["arguments"].get(argument)
            if isinstance(value, int | float) and value < default:
                lower[initializer["name"], argument, default].add(value)
    for (name, argument, default), values in lower.items():
        amount = listed([_text(value) for value in sorted(values)])
        yield f"{name} with {amount} {argument.replace('_', ' ')} (default {_text(default)})"
