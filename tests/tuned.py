"""Ledgers of tuned suites made up for tests: searches on the validation split, and final trials at what they chose.

The choice is written out here once more, beside that of the suite, so that a report is tested without it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from ledgers import ERROR, Metric, make_scored, make_spec, task_of
from planted import CHANCE, CHANCE_ERROR
from reports import table_of
from scipy import stats

from initbench.comparing.chance import is_trained
from initbench.reporting.results import Results
from initbench.reporting.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from initbench.ledger import TrialRecord

RATES = (0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0)
KEY = "recipe.lr"
SPREAD = (0.0, 0.004, -0.003, 0.002)


class At(NamedTuple):
    """A trial, by what its outcome depends on."""

    workload: str
    treatment: str
    rate: float
    seed: int
    split: str


def tasks(metric: Metric, chance: float | None, error: float | None) -> dict[str, dict[str, Any]]:
    """Return the task's entry of records on the validation and on the test split."""
    plain = replace(metric, chance=chance, chance_standard_error=error)
    return {split: task_of(plain.on(split)) for split in ("validation", "test")}


ERRORS = tasks(replace(ERROR, name="error", label="", split=""), CHANCE, CHANCE_ERROR)


def own_choice(outcomes: Sequence[float]) -> int:
    """Return the place of the best outcome, of equals the first: of ascending rates the smallest."""
    return int(np.argmin(outcomes))


def shared_choice(outcomes: Sequence[Sequence[float]], trained: Sequence[Sequence[bool]]) -> int:
    """Return the place of the rate with the least mean rank over treatments, untrained tied worst, diverged below.

    Args:
        outcomes: (treatments, rates), lower is better, +∞ diverged.
        trained: likewise.
    """
    e, ok = np.asarray(outcomes, dtype=float), np.asarray(trained, dtype=bool)
    ranked = np.where(np.isinf(e), np.inf, np.where(ok, e, np.finfo(float).max))
    return int(np.argmin(stats.rankdata(ranked, axis=1).mean(axis=0).round(9)))


def tuned_records(
    outcome: Callable[[At], float | None],
    workloads: Sequence[str],
    treatments: Sequence[str],
    *,
    seeds: int = 3,
    rates: Sequence[float] = RATES,
    written: float = 0.1,
    once: bool = False,
    entries: Mapping[str, dict[str, Any]] = ERRORS,
    points: Callable[[int], Sequence[float]] | None = None,
    sizes: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[TrialRecord]:
    """Return the records of a tuned suite, through the real specs.

    Args:
        outcome: of a trial on a split, ``validation`` or ``test``; None diverged.
        workloads: names of architectures.
        treatments: names of initializers.
        seeds: how many.
        rates: that every cell tries, ascending.
        written: the recipe's rate.
        once: whether one search, at the first seed, serves all.
        entries: the tasks of both splits, as from `tasks`.
        points: the rates of each seed where these differ; then there is no shared one.
        sizes: arguments of the architectures.
        options: of `make_spec`.
    """
    found = []
    options |= {"sizes": sizes or {}}
    for workload in workloads:
        for seed in range(seeds):
            tried = rates if points is None else points(seed)
            searched = 0 if once else seed
            values = {
                name: [outcome(At(workload, name, rate, searched, "validation")) for rate in tried]
                for name in treatments
            }
            oriented = {name: [_oriented(value, entries) for value in own] for name, own in values.items()}
            if not once or seed == 0:
                found += [
                    _record(workload, name, rate, seed, value, entries["validation"], phase="search", **options)
                    for name, own in values.items()
                    for rate, value in zip(tried, own, strict=True)
                ]
            trains = [[_trains(value, entries) for value in own] for own in oriented.values()]
            shared = tried[shared_choice(list(oriented.values()), trains)] if points is None else None
            for name in treatments:
                under: dict[float, list[str]] = {}
                own = tried[own_choice(oriented[name])]
                for protocol, rate in (("recipe", written), ("shared", shared), ("own", own)):
                    if rate is not None:
                        under.setdefault(rate, []).append(protocol)
                found += [
                    _record(
                        workload,
                        name,
                        rate,
                        seed,
                        outcome(At(workload, name, rate, seed, "test")),
                        entries["test"],
                        protocols=tuple(protocols),
                        **options,
                    )
                    for rate, protocols in under.items()
                ]
    return found


def tuned_results(records: Sequence[TrialRecord], *, once: bool = False, tries: int = 7) -> Results:
    """Return what analyses take of such records."""
    said = {"keys": {KEY: list(RATES)}, "tries": tries, "points": "grid", "search": "once" if once else "each"}
    return Results(Source(list(records), tunes=(said,)))


def curved(optimum: float, floor: float = 0.1, curvature: float = 0.05, limit: float = math.inf) -> Any:
    """Return an outcome by rate: a parabola in decades around the optimum, diverging above a limit."""

    def of(rate: float, noise: float = 0.0) -> float | None:
        return None if rate > limit else floor + curvature * math.log10(rate / optimum) ** 2 + noise

    return of


def _oriented(value: float | None, entries: Mapping[str, dict[str, Any]]) -> float:
    metric = Metric.from_json(entries["validation"]["metrics"][entries["validation"]["primary"]])
    return math.inf if value is None else metric.oriented(value)


def _trains(value: float, entries: Mapping[str, dict[str, Any]]) -> bool:
    metric = Metric.from_json(entries["validation"]["metrics"][entries["validation"]["primary"]])
    if metric.chance is None:
        return math.isfinite(value)
    best = math.nan if metric.best is None else metric.oriented(metric.best)
    return bool(is_trained(value, metric.oriented(metric.chance), metric.chance_standard_error or math.nan, best))


def _record(
    workload: str,
    treatment: str,
    rate: float,
    seed: int,
    value: float | None,
    entry: dict[str, Any],
    **options: Any,
) -> TrialRecord:
    recipe = {"lr": rate, **options.pop("recipe", {})}
    architecture = {"name": workload, **options.pop("sizes")}
    spec = make_spec({"name": treatment}, architecture, seed, recipe=recipe, tuned=(KEY,), **options)
    record = make_scored(spec, entry, value)
    cost = {"forward": 0, "backward": 0} if treatment != "tuner" else {"forward": 100, "backward": 100}
    return replace(record, initialization=record.initialization | {"cost": cost})


def noise(at):
    """Return a small number that is another for each trial, the same in every run; what seeds share is in it."""
    number = sum((i + 1) * 97.3 * (sum(map(ord, str(own))) % 89) for i, own in enumerate(at))
    return SPREAD[at.seed] + 0.002 * math.sin(number)


def flat(at):
    """Every rate and every treatment is as good as any other."""
    return 0.2 + 0.01 * at.seed


def cells_of(analysis, name):
    """Return the rows of a table by workload and treatment."""
    return {(row["workload"], row["treatment"]): row for row in table_of(analysis, name).frame.to_dict("records")}
