"""The line of facts of a report: how many trials, of what, on what data, by which recipe."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from initbench.comparing.formatting import counted
from initbench.comparing.labels import with_contents
from initbench.reporting.conditions import OPTIMIZERS, effective
from initbench.reporting.sharing import distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.reporting.results import Results
    from initbench.reporting.tune import Tune

_MOST_NAMED = 3


def facts_line(results: Results) -> str:
    """Return the facts in one line.

    ``24 trials: 4 initializers × 2 networks × 3 seeds · digits · 8 epochs of SGD, rate 0.1 · 6 minutes of computing``.
    """
    trials, names = results.trials, results.names
    each = trials.drop_duplicates("trial_id")
    statuses = Counter(each["status"])
    seeds = {len(set(cell)) for _, cell in trials.groupby(["workload", "treatment"])["seed"]}
    first = "no final trial yet"
    if seeds:
        size = [
            counted(trials["treatment"].nunique(), results.terms.treatment),
            names.workloads_of(len(results.metric_of)),
            counted(max(seeds), "seed") if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)} seeds",
        ]
        first = f"{counted(len(each), 'trial')}: {' × '.join(size)}"
    if len(results.refused):
        first += f"; {counted(len(results.refused), 'pair')} cannot run"
    if statuses["failed"]:
        first += f"; {statuses['failed']} failed"
    records = [results.by_id[i] for i in each["trial_id"]] or results.records
    tune = results.tune
    if tune is not None:
        first += f"; {counted(tune.searches, 'search trial')}"
    parts = [
        first,
        _datasets(records),
        _recipe([effective(recipe) for recipe in distinct(record.spec["recipe"] for record in records)], tune),
        _time(records if tune is None else results.records),
    ]
    return " · ".join(part for part in parts if part)


def _datasets(records: Sequence[TrialRecord]) -> str:
    texts: dict[str, None] = {}
    for dataset in with_contents(distinct(record.spec["dataset"] for record in records)):
        given = [f"{key.replace('_', ' ')} {value}" for key, value in dataset["arguments"].items() if value is not None]
        texts[dataset["name"] + (f" ({', '.join(given)})" if given else "")] = None
    return _either(list(texts), ", ")


def _recipe(recipes: Sequence[Mapping[str, Any]], tune: Tune | None = None) -> str:
    lengths = defaultdict[str, set[float]](set)
    for recipe in recipes:
        unit = "step" if recipe.get("steps") else "epoch"
        lengths[unit].add(recipe[f"{unit}s"])
    if lengths == {"epoch": {0}}:
        return "measured, not trained"
    length = [f"{_alternatives(numbers)} {unit}{'' if numbers == {1} else 's'}" for unit, numbers in lengths.items()]
    optimizers = dict.fromkeys(OPTIMIZERS.get(recipe["optimizer"], recipe["optimizer"]) for recipe in recipes)
    rate = f"rate {_alternatives(recipe['lr'] for recipe in recipes)}"
    if tune is not None and tune.has_rate:
        rate = f"tuned rate, {tune.tries} tries"
    return f"{_either(length)} of {_either(list(optimizers))}, {rate}"


def _alternatives(numbers: Iterable[float]) -> str:
    """Return ``5, 8 or 10``, or ``5 to 30`` if there are more."""
    texts = [f"{number:g}" for number in sorted(set(numbers))]
    if len(texts) > _MOST_NAMED:
        return f"{texts[0]} to {texts[-1]}"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _either(texts: Sequence[str], separator: str = " or ") -> str:
    return separator.join(texts) if len(texts) <= _MOST_NAMED else f"{texts[0]} and {len(texts) - 1} others"


def _time(records: Sequence[TrialRecord]) -> str:
    """Return how long all trials took one after another, empty if unknown."""
    seconds = sum(record.timing.get("total_seconds", 0.0) for record in records)
    if not 0 < seconds < math.inf:
        return ""
    if seconds < 60:
        return f"{counted(max(1, round(seconds)), 'second')} of computing"
    minutes = round(seconds / 60)
    return f"{counted(minutes, 'minute')} of computing" if minutes < 120 else f"{seconds / 3600:.1f} hours of computing"
