"""What a report says, as plain data: every page, HTML or Markdown, is this and a template."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.reporting.charts import colours, panels
from initbench.reporting.frame import GQ
from initbench.reporting.verdicts import verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord

_MAXIMUM_TRACEBACKS = 50
# A field of the recipe that has an effect only at some values of another.
_ONLY_WITH = {
    "betas": ("optimizer", ("adam",)),
    "momentum": ("optimizer", ("sgd", "signsgd")),
    "nesterov": ("optimizer", ("sgd",)),
    "milestones": ("schedule", ("step",)),
    "step_factor": ("schedule", ("step",)),
}


def contents(
    records: Sequence[TrialRecord], trials: pd.DataFrame, comparison: pd.DataFrame, correlation: pd.DataFrame
) -> dict[str, Any]:
    """Return what a report says.

    Args:
        records: as from `frame.read_records`.
        trials: as from `comparison.comparable_trials`.
        comparison: as from `comparison.compare`.
        correlation: as from `correlation.correlate`.

    Returns:
        ``groups`` (one per comparison: ``name``, ``rows``, ``verdicts``, ``chart`` as SVG text, ...), ``colours`` of
        the initializers, ``statuses`` (counts), ``facts`` that hold for all, ``quotients`` (how each GQ was measured)
        and ``failures``.
    """
    by_id = {record.id: record for record in records}
    shared = {field for field, values in _recipe_values(records).items() if len(values) == 1}
    charts = panels(trials)
    groups = []
    for group, table in comparison.groupby("group", sort=False):
        own_trials = trials[trials["group"] == group]
        members = [by_id[i] for i in own_trials["trial_id"]]
        own = {field: values for field, values in _recipe_values(members).items() if field not in shared}
        groups.append(
            {
                "name": group,
                "rows": table.to_dict("records"),
                "verdicts": verdicts(table),
                "recipe": _fields(own),
                "parameters": table["parameters"].max(),
                "failed": int(table["failed"].sum()),
                "unpaired": _unpaired(own_trials),
                "undrawn": _undrawn(own_trials),
                "chart": charts.get(str(group)),
                "correlation": correlation[correlation["group"] == group].to_dict("records")[0],
            }
        )
    failed = trials[trials["status"] == "failed"].to_dict("records")
    return {
        "groups": groups,
        "colours": colours(list(trials["initializer"])),
        "statuses": {status: int((trials["status"] == status).sum()) for status in ("finished", "diverged", "failed")},
        "facts": _facts(records, shared),
        "quotients": _quotient_conditions(records),
        "failures": [trial | {"error": by_id[trial["trial_id"]].error or {}} for trial in failed[:_MAXIMUM_TRACEBACKS]],
        "failures_left": len(failed[_MAXIMUM_TRACEBACKS:]),
    }


def _facts(records: Sequence[TrialRecord], shared: set[str]) -> dict[str, str]:
    """Return what holds for the whole report, by name, ready to print."""
    recipe = {field: values for field, values in _recipe_values(records).items() if field in shared}
    datasets = [
        _fields({"": [r.spec["dataset"]["name"]]} | {k: [v] for k, v in r.spec["dataset"]["arguments"].items()})
        for r in records
    ]
    environment: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        for key, value in record.environment.items():
            for name, item in value.items() if isinstance(value, dict) else [(key, value)]:
                if item not in environment[name]:
                    environment[name].append(item)
    return {
        "Seeds": ", ".join(map(str, sorted({record.spec["seed"] for record in records}))),
        "Dataset": "; ".join(sorted(set(datasets))),
        "Recipe": _fields(recipe),
        "Environment": _fields(dict(sorted(environment.items()))),
    }


def _recipe_values(records: Iterable[TrialRecord]) -> dict[str, list[Any]]:
    """Return for each field of the recipe the values that have an effect in some trial."""
    values: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        recipe = record.spec["recipe"]
        for field, value in recipe.items():
            switch, needed = _ONLY_WITH.get(field, (field, (value,)))
            if recipe[switch] in needed and value not in values[field]:
                values[field].append(value)
    return {field: sorted(found, key=json.dumps) for field, found in values.items() if found}


def _fields(values: Mapping[str, Sequence[Any]]) -> str:
    """Return ``epochs 8 · lr 0.1``; what is off (null, false, 0 or empty) is left out unless it is off in part."""
    shown = {name: found for name, found in values.items() if any(value or value == "" for value in found)}
    return " · ".join(f"{name} {' or '.join(map(_text, found))}".strip() for name, found in shown.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, default=str)


def _unpaired(trials: pd.DataFrame) -> bool:
    results = trials[trials["status"] != "failed"]
    return len({tuple(sorted(seeds)) for _, seeds in results.groupby("initializer")["seed"]}) > 1


def _undrawn(trials: pd.DataFrame) -> int:
    """Return how many trials have a result but no place on the chart's logarithmic axis."""
    results = trials[trials["status"] != "failed"]
    return int((~(results[GQ] > 0)).sum()) if GQ in results else len(results)


def _quotient_conditions(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return under what conditions each form of the gradient quotient was measured."""
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for probe in record.probes:
            if probe["name"].startswith("gradient_quotient"):
                for key in ("eps", "batch_size", "batches", "data", "mode"):
                    value = probe.get("conditions", {}).get(key, "not recorded")
                    if value not in found[probe["name"]][key]:
                        found[probe["name"]][key].append(value)
    words = {"eps": "ε", "batch_size": "batch size"}
    return {
        name: _fields({words.get(key, key): sorted(values, key=str) for key, values in conditions.items()})
        for name, conditions in sorted(found.items())
    }
