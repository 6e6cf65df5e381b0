"""What tests of the report share: trials and their terms from records, as the report has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from initbench.reporting.comparison import comparable_trials, compare, workload_metrics
from initbench.reporting.contents import terms_of
from initbench.reporting.statistics.wording import Terms
from ledgers import ERROR

from initbench.reporting.frame import results_frame
from initbench.reporting.metrics import outcome_metrics, trial_metrics
from initbench.suite.treatments import DEFAULT_COMPARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric

TERMS = Terms(ERROR)
"""Of a comparison of initializers by their test error."""


class Compared(NamedTuple):
    """What a report compares: its trials, the outcomes by name and by workload, and the words."""

    trials: pd.DataFrame
    metrics: dict[str, Metric]
    by_workload: dict[str, Metric]
    terms: Terms


def compared(records: Sequence[TrialRecord], factors: Sequence[str] = DEFAULT_COMPARE) -> Compared:
    """Return what a report of these records compares."""
    trials = comparable_trials(results_frame(records, factors, every_standing=True), outcome_metrics(records))
    metrics = trial_metrics(trials, records)
    return Compared(trials, metrics, workload_metrics(trials, metrics), terms_of(factors, metrics))


def comparison(records: Sequence[TrialRecord], factors: Sequence[str] = DEFAULT_COMPARE) -> pd.DataFrame:
    """Return the table of the treatments on each workload."""
    found = compared(records, factors)
    return compare(found.trials, found.metrics)
