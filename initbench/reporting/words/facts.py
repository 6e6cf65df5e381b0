"""What a report stands on, in words: one line of facts, and what a reader is warned of."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from initbench.comparing.formatting import counted, listed
from initbench.comparing.labels import same_names, with_contents
from initbench.reporting.conditions import effective
from initbench.reporting.sharing import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.reporting.results import Results
    from initbench.reporting.tune import Tune

_OPTIMIZERS = {"sgd": "SGD", "signsgd": "signSGD", "adam": "Adam", "adamw": "AdamW"}
_MOST_NAMED = 3
_MOST_LISTED = 20


def facts_line(results: Results) -> str:
    """Return the facts in one line: how many trials, of what, on what data, by which recipe, and how long they took.

    ``24 trials: 4 initializers × 2 networks × 3 seeds · digits · 8 epochs of SGD, rate 0.1 · 6 minutes of computing``.
    """
    trials, names = results.trials, results.names
    each = trials.drop_duplicates("trial_id")
    statuses = Counter(each["status"])
    seeds = {len(set(own)) for _, own in trials.groupby(["workload", "treatment"])["seed"]}
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


def notices(results: Results) -> list[str]:
    """Return what a reader is warned of, one sentence or more each."""
    texts = []
    if _is_smoke(results.records):
        texts.append("A smoke run: a few trials of two steps each on random data. Its results mean nothing.")
    skipped = results.source.skipped
    if skipped:
        are = "record could not be read and is" if len(skipped) == 1 else "records could not be read and are"
        named = "; ".join(skipped[:20]) + (f"; and {len(skipped) - 20} more" if len(skipped) > 20 else "")
        texts.append(f"{len(skipped)} {are} missing below: {named}")
    for name, contents in same_names(distinct(record.spec["dataset"] for record in results.records)).items():
        texts.append(
            f"{len(contents)} datasets have the name {name} and other content ({listed(sorted(contents.values()))}): "
            "they are different datasets, and their trials are kept apart."
        )
    return [*texts, *_awaited(results), *results.source.notes]


def _awaited(results: Results) -> list[str]:
    """Return who stands nowhere below, for its searches have no choice yet."""
    places = ["workload", "treatment"]
    compared = set(results.trials[places].itertuples(index=False, name=None))
    searched = results.searches[places].drop_duplicates().itertuples(index=False, name=None)
    missing = sorted({f"{own[1]} on {own[0]}" for own in searched if own not in compared})
    if not missing or not compared:
        return []
    named = "; ".join(missing[:_MOST_LISTED])
    if len(missing) > _MOST_LISTED:
        named += f"; and {len(missing) - _MOST_LISTED} more"
    stand = "it stands" if len(missing) == 1 else "they stand"
    return [f"Searches of which a trial is missing or failed have no choice yet, so {stand} nowhere below: {named}."]


def _datasets(records: Sequence[TrialRecord]) -> str:
    found: dict[str, None] = {}
    for dataset in with_contents(distinct(record.spec["dataset"] for record in records)):
        given = [f"{key.replace('_', ' ')} {value}" for key, value in dataset["arguments"].items() if value is not None]
        found[dataset["name"] + (f" ({', '.join(given)})" if given else "")] = None
    return _either(list(found), ", ")


def _recipe(recipes: Sequence[Mapping[str, Any]], tune: Tune | None = None) -> str:
    lengths = dict.fromkeys(
        counted(recipe["steps"], "step") if recipe.get("steps") else _epochs(recipe) for recipe in recipes
    )
    if not any(recipe.get("steps") or recipe.get("epochs") for recipe in recipes):
        return "measured, not trained"
    optimizers = dict.fromkeys(_OPTIMIZERS.get(recipe["optimizer"], recipe["optimizer"]) for recipe in recipes)
    rates = dict.fromkeys(f"{recipe['lr']:g}" for recipe in recipes)
    rate = f"tuned rate, {tune.tries} tries" if tune is not None and tune.has_rate else f"rate {_either(list(rates))}"
    return f"{_either(list(lengths))} of {_either(list(optimizers))}, {rate}"


def _epochs(recipe: Mapping[str, Any]) -> str:
    return counted(recipe["epochs"], "epoch")


def _either(texts: Sequence[str], separator: str = " or ") -> str:
    return separator.join(texts) if len(texts) <= _MOST_NAMED else f"{texts[0]} and {len(texts) - 1} others"


def _time(records: Sequence[TrialRecord]) -> str:
    """Return how long all trials took one after another, where the records say it."""
    seconds = sum(record.timing.get("total_seconds", 0.0) for record in records)
    if not 0 < seconds < math.inf:
        return ""
    if seconds < 60:
        return f"{counted(max(1, round(seconds)), 'second')} of computing"
    minutes = round(seconds / 60)
    return f"{counted(minutes, 'minute')} of computing" if minutes < 120 else f"{seconds / 3600:.1f} hours of computing"


def _is_smoke(records: Sequence[TrialRecord]) -> bool:
    """Return whether there are records of a smoke run."""
    named = [record.spec for record in records if record.spec["suite"].endswith("-smoke")]
    if not named:
        return False
    # It loads the registry, which reports can do without.
    from initbench.suite.smoke import is_smoke

    return any(map(is_smoke, named))
