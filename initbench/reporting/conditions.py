"""The conditions of a report's trials, and how they differ between suites."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from initbench.arguments import show
from initbench.comparing.formatting import natural
from initbench.ledger import TrialRecord

OPTIMIZERS = {"sgd": "SGD", "signsgd": "signSGD", "adam": "Adam", "adamw": "AdamW"}
"""The optimizers' names in texts."""
_MOST_VALUES = 4
_WORDS = {"eps": "ε", "epsilon_floor": "ε floor (GQ of the same gradient without curvature)"}

# A field of the recipe → the only values of another field with which it has an effect.
_ONLY_WITH = {
    "betas": ("optimizer", ("adam", "adamw")),
    "momentum": ("optimizer", ("sgd", "signsgd")),
    "nesterov": ("optimizer", ("sgd",)),
    "milestones": ("schedule", ("step",)),
    "step_factor": ("schedule", ("step",)),
}


def conditions(records: Sequence[TrialRecord]) -> pd.DataFrame:
    """Return one row per condition: ``section``, ``condition``, ``differs``, and a column of text for each suite.

    Read rows by position, because a suite may be called ``section``. Sections are ``data``, ``recipe``,
    ``environment`` and ``probe <name>``. Values that vary within a suite are joined by "or"; more than four numbers are
    given as range and median. ``differs`` says whether the suites that have the condition differ in it.
    """
    by_name: dict[tuple[str, str], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    left = Counter(map(_group, records))
    for record in records:
        suite, alike = record.spec["suite"], left.pop(_group(record), 0)  # the first of a group counts for all
        for section, name, value in _of_many(record) if alike else ():
            by_name[section, name][suite] += alike * [value]
        for section, name, value in _of_one(record):
            by_name[section, name][suite].append(value)
    suites = sorted({record.spec["suite"] for record in records}, key=natural)
    rows = []
    for (section, name), values in by_name.items():
        texts = {suite: _text(values[suite]) if suite in values else "" for suite in suites}
        measured = name in {"fraction_below_epsilon", "epsilon_floor", "saturated"}
        differs = not measured and len({text for text in texts.values() if text}) > 1
        rows.append((section, _WORDS.get(name, name), differs, *texts.values()))
    order = {section: i for i, section in enumerate(dict.fromkeys(section for section, *_ in rows))}
    rows.sort(key=lambda row: order[row[0]])
    return pd.DataFrame(rows, columns=["section", "condition", "differs", *suites])


def differing(table: pd.DataFrame) -> str:
    """Return a sentence on the differences between suites in a table of `conditions`; empty if there are none.

    A condition of several sections is named with its section: ``probe gradient_norm: batch_size``.
    """
    suites = list(table.columns[3:])
    sections = Counter(table.iloc[:, 1])
    texts = []
    for section, condition, differs, *values in table.itertuples(index=False, name=None):
        if differs:
            name = condition if sections[condition] == 1 else f"{section}: {condition}"
            said = "; ".join(f"{suite}: {value or '–'}" for suite, value in zip(suites, values, strict=True))
            texts.append(f"{name} ({said})")
    return f"The suites differ in {', '.join(texts)}." if texts else ""


def effective(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a recipe that have an effect."""
    nothing = {"epochs"} if recipe.get("steps") else {"steps"}
    if recipe.get("accumulate", 1) == 1:
        nothing |= {"accumulate", "batch_norm"}
    nothing.add("batch_size" if recipe.get("batch_tokens") else "batch_tokens")
    return {
        field: value
        for field, value in recipe.items()
        if field not in nothing
        if field not in _ONLY_WITH or recipe.get(_ONLY_WITH[field][0]) in _ONLY_WITH[field][1]
    }


def _group(record: TrialRecord) -> tuple[Any, ...]:
    """Return a key that is equal for records with the same conditions in `_of_many`."""
    spec = record.spec
    return spec["suite"], id(spec["dataset"]), id(spec["recipe"]), id(record.environment)


def _of_many(record: TrialRecord) -> Iterator[tuple[str, str, Any]]:
    """Yield section, name and value of the conditions that many trials share."""
    dataset = record.spec["dataset"]
    yield "data", "dataset", dataset["name"]
    for name, value in dataset["arguments"].items():
        yield "data", name, value
    for name, value in effective(record.spec["recipe"]).items():
        yield "recipe", name, value
    for name, value in sorted(record.environment.items()):
        yield "environment", name, value


def _of_one(record: TrialRecord) -> Iterator[tuple[str, str, Any]]:
    """Yield the conditions that each trial has for itself."""
    yield "data", "seed", record.spec["seed"]
    for name, value in record.task.get("signatures", {}).items():
        yield "data", f"signature of {name}", value
    for probe in record.probes:
        for name, value in (probe.get("conditions") or {}).items():
            if not isinstance(value, list | dict) and not name.endswith("_reason"):
                yield f"probe {probe['name']}", name, value


def _text(values: Sequence[Any]) -> str:
    """Return ``0.1 or 0.01``, ``0.13 to 0.98 (median 0.5)``, or for flags ``yes in 3 of 12``."""
    each = {repr(value): value for value in values}.values()  # 10,000 trials mostly have few
    if all(isinstance(value, bool) for value in each) and len(each) > 1:
        return f"yes in {sum(values)} of {len(values)}"
    distinct = dict.fromkeys(_one(value) for value in each)
    numbers = [v for v in each if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    if len(distinct) > _MOST_VALUES and len(numbers) == len(each):
        if all(isinstance(value, int) for value in each):
            return f"{min(values)} to {max(values)} ({len(distinct)} values)"
        return f"{min(values):.3g} to {max(values):.3g} (median {float(np.median(values)):.3g})"
    return " or ".join(sorted(distinct, key=natural))


def _one(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value == [] else _shown(value)


def different_values(mappings: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the different values of each key, in order of first appearance."""
    values: dict[str, list[Any]] = defaultdict(list)
    for name, value in (item for mapping in mappings for item in mapping.items()):
        if value not in values[name]:
            values[name].append(value)
    return values


def fields_text(values: Mapping[str, Sequence[Any]]) -> str:
    """Return ``epochs 8 · lr 0.1``; fields that are always off (null, false, 0 or empty) are left out."""
    shown = {name: each for name, each in values.items() if any(value or value == "" for value in each)}
    return " · ".join(f"{name} {' or '.join(map(_shown, each))}".strip() for name, each in shown.items())


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return show(value)
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, default=str)
