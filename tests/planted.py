"""Ledgers whose truth is planted: outcomes by workload, treatment and seed, with the chance level that records have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ledgers import BITS, ERROR, R_SQUARED, make_measured, make_record, make_scored, make_spec, task_of

from initbench.reporting.results import Results
from initbench.reporting.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric

CHANCE, CHANCE_ERROR = 0.9, 0.016
"""Of ten classes guessed on 360 samples."""
FAILED, MEASURED = "failed", "measured"
"""In place of an outcome."""


def task_with_chance(
    metric: Metric, chance: float | None, standard_error: float | None, name: str = "classification"
) -> dict[str, Any]:
    """Return a task's entry whose outcome has a chance level."""
    return task_of(replace(metric, chance=chance, chance_standard_error=standard_error), name=name)


TEN_CLASSES = task_with_chance(ERROR, CHANCE, CHANCE_ERROR)
REGRESSION = task_with_chance(R_SQUARED, 0.0, 0.01, "regression")
LANGUAGE = task_with_chance(BITS, 4.0, 0.01, "language_modelling")
NO_CHANCE = task_of(ERROR)


def planted(
    outcomes: Mapping[str, Mapping[str, Sequence[float | str | None]]],
    task: Mapping[str, Any] | Mapping[str, Mapping[str, Any]] = TEN_CLASSES,
    *,
    quotients: Mapping[tuple[str, str], float] | None = None,
    **options: Any,
) -> list[TrialRecord]:
    """Return one record for each outcome, through the real specs.

    Args:
        outcomes: workload → treatment → an outcome per seed: None diverged, `FAILED`, `MEASURED` for no training.
        task: as from `task_of`, or one by workload; each task has a dataset of its own.
        quotients: (workload, treatment) → the gradient quotient; 0.5 by default.
        options: of `make_spec`.
    """
    records = []
    for workload, treatments in outcomes.items():
        own = task if "primary" in task else task[workload]
        for treatment, values in treatments.items():
            quotient = (quotients or {}).get((workload, treatment), 0.5)
            for seed, value in enumerate(values):
                dataset = {"name": f"{own['name']}_data"}
                spec = make_spec(
                    {"name": treatment}, {"name": workload}, seed, dataset=dataset, task=own["name"], **options
                )
                records.append(_record(spec, own, value, quotient))
    return records


def _record(spec: Any, task: dict[str, Any], value: float | str | None, quotient: float) -> TrialRecord:
    if value == FAILED:
        return make_record(spec, status="failed")
    if value == MEASURED:
        return make_measured(spec)
    return make_scored(spec, task, value, quotient=quotient)


def results_of(records: Sequence[TrialRecord], **options: Any) -> Results:
    """Return what analyses take; options are of `Source`."""
    return Results(Source(list(records), **options))


def around(value: float, spread: float = 0.002, seeds: int = 3) -> list[float]:
    """Return a value for each seed, around one by turns: no two treatments' differences between seeds are all alike."""
    steps = [0.0, 1.0, -1.0, 0.6, -0.6]
    return [value + spread * steps[(seed + round(1000 * value)) % 5] for seed in range(seeds)]
