"""The results of a ledger's search trials, for the plan."""

import math
from collections.abc import Iterable

from initbench.comparing.chance import is_trained
from initbench.ledger import TrialRecord
from initbench.metric import Metric
from initbench.suite.tuning import Searched


def searched(records: Iterable[TrialRecord]) -> dict[str, Searched]:
    """Return the result of each search trial by its id; failed ones are tried again."""
    return {r.id: _searched(r) for r in records if r.spec["phase"] == "search" and r.status != "failed"}


def _searched(record: TrialRecord) -> Searched:
    """Return the primary metric on the validation split, turned so that lower is better."""
    primary = record.task["primary"]
    value = record.metrics.get(primary)
    if record.status == "diverged" or value is None:
        return Searched(math.inf, is_trained=False)
    metric = Metric.from_json(record.task["metrics"][primary])
    levels = (metric.chance, metric.chance_standard_error, metric.best)
    chance, error, best = (math.nan if level is None else level for level in levels)
    outcome = metric.oriented(value)
    trained = is_trained(outcome, metric.oriented(chance), error, metric.oriented(best))
    return Searched(outcome, is_trained=bool(trained != 0))
