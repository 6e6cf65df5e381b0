"""The metrics in records: the outcome of each trial, and how values are printed."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from initbench.errors import InitbenchError
from initbench.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord

EARLY = "first_epoch_"
"""The prefix of metrics that are known after the first epoch."""
UNKNOWN = Metric("outcome", better="lower")
"""The metric if no record describes one, because all trials have failed."""
MEAN_TRAIN_LOSS = "mean_train_loss"


def outcome_names(records: Sequence[TrialRecord]) -> list[str | None]:
    """Return the name of each record's primary metric; None if it failed before its task was known, or did not train.

    It is the key in the record's metrics; if two tasks use this key with different meanings, the task's name is added.

    Raises:
        InitbenchError: records of one task disagree about which outcomes are better.
    """
    _check_directions(records)
    each = [record for record in _one_of_each_task(records) if has_outcome(record)]
    different = {(outcome_key(record), outcome_metric(record)) for record in each}
    meanings = Counter(key for key, _ in different)
    return [
        None if not has_outcome(record) else key if meanings[key] == 1 else f"{key} ({record.task['name']})"
        for record, key in ((record, outcome_key(record)) for record in records)
    ]


def outcome_metrics(records: Sequence[TrialRecord]) -> dict[str, Metric]:
    """Return the primary metrics by their `outcome_names`, without the chance level, which depends on the dataset."""
    last = {name: record for record, name in zip(records, outcome_names(records), strict=True) if name is not None}
    return {name: replace(outcome_metric(record), name=name) for name, record in last.items()}


def trial_metrics(trials: pd.DataFrame, records: Sequence[TrialRecord]) -> dict[str, Metric]:
    """Return the outcomes of the compared trials, by name, in the order of the names.

    Args:
        trials: as from `trials.comparable_trials`.
        records: of these trials, and perhaps others.
    """
    metrics = outcome_metrics(records)
    return {name: metrics[name] for name in sorted(set(trials["metric"].dropna()))}


def described_metrics(records: Sequence[TrialRecord]) -> dict[str, Metric]:
    """Return every metric that a record's task describes, by its key, without the chance level."""
    metrics: dict[str, Metric] = {}
    for record in _one_of_each_task(sorted(records, key=lambda record: record.id)):
        for key, data in record.task.get("metrics", {}).items():
            if key not in metrics:
                metrics[key] = _plain(Metric.from_json(data))
    return metrics


def metrics_by_task(records: Sequence[TrialRecord], key: str) -> dict[Metric, set[str]]:
    """Return each metric under a key with its tasks, because two tasks may have different ones."""
    tasks: dict[Metric, set[str]] = defaultdict(set)
    for record in _one_of_each_task(records):
        if key in record.task.get("metrics", {}):
            tasks[_plain(Metric.from_json(record.task["metrics"][key]))].add(record.task["name"])
    return dict(sorted(tasks.items(), key=lambda item: min(item[1])))


def _one_of_each_task(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the first of the records that share a task (`sharing.Shared`)."""
    first: dict[int, TrialRecord] = {}
    for record in records:
        first.setdefault(id(record.task), record)
    return list(first.values())


def _check_directions(records: Sequence[TrialRecord]) -> None:
    directions: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for record in _one_of_each_task(records):
        if has_outcome(record):
            suites = directions[record.task["name"], outcome_key(record)]
            suites.setdefault(outcome_metric(record).better, record.spec["suite"])
    for (task, key), suites in directions.items():
        if len(suites) > 1:
            said = "; ".join(f"{better} in {suite}" for better, suite in sorted(suites.items()))
            raise InitbenchError(f"the ledgers do not agree which {key} of {task} is better: {said}")


def outcome_key(record: TrialRecord) -> str:
    """Return the key of the primary metric in a record's metrics and history; empty if there is no task."""
    return str(record.task.get("primary", ""))


def training_key(record: TrialRecord) -> str:
    """Return the history key of the outcome's quantity on the training split, ``train_error``.

    Empty if the task does not describe it, or describes it in another unit.
    """
    key, described = outcome_key(record), record.task.get("metrics", {})
    split = described.get(key, {}).get("split")
    training = f"train_{key.removeprefix(f'{split}_')}"
    if not split or training not in described:
        return ""
    alike = all(described[training].get(name) == described[key].get(name) for name in ("better", "unit", "scale"))
    return training if alike and training != key else ""


def has_outcome(record: TrialRecord) -> bool:
    return outcome_key(record) in record.task.get("metrics", {})


def outcome_sign(record: TrialRecord) -> float:
    """Return the factor, 1 or -1, that orients the outcome of a record with one (`has_outcome`)."""
    return 1.0 if record.task["metrics"][outcome_key(record)]["better"] == "lower" else -1.0


def outcome_metric(record: TrialRecord) -> Metric:
    """Return the primary metric of a record with an outcome (`has_outcome`), without its chance level."""
    return _plain(Metric.from_json(record.task["metrics"][outcome_key(record)]))


def _plain(metric: Metric) -> Metric:
    return replace(metric, chance=None, chance_standard_error=None)


def mean_train_loss(record: TrialRecord) -> dict[str, float]:
    """Return the mean training loss over the epochs, as the metric ``mean_train_loss``: lower if the fit is faster.

    Empty if the trial did not reach its end, so that its epochs are incomplete, if `records.slim` has processed the
    record, and if the sum overflows.

    Args:
        record: with its complete history.
    """
    entries = [entry for entry in record.history if float(entry.get("epoch", 0.5)).is_integer()]
    losses = [entry["train_loss"] for entry in entries if entry.get("train_loss") is not None]
    if MEAN_TRAIN_LOSS in record.metrics or record.status != "finished" or not losses or len(losses) < len(entries):
        return {}
    try:
        return {MEAN_TRAIN_LOSS: math.fsum(losses) / len(losses)}
    except OverflowError:
        return {}
