"""What tests of the report share: results from records, as the report has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ledgers import ERROR

from initbench.comparing.keys import Key
from initbench.comparing.labels import Labels
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.reporting.frame import Frames
from initbench.reporting.questions.workloads import comparison_frame
from initbench.reporting.results import Results
from initbench.reporting.source import Source
from initbench.reporting.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric
    from initbench.reporting.answer import Answer
    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.tables import Table

TERMS = Terms(ERROR)
"""Of a comparison of initializers by their test error."""


class Compared(NamedTuple):
    """What a report compares: its trials, the outcomes by name and by workload, and the words."""

    trials: pd.DataFrame
    metrics: dict[str, Metric]
    by_workload: dict[str, Metric]
    terms: Terms


def results_of(records: Sequence[TrialRecord], compare: Sequence[str] = DEFAULT_COMPARE) -> Results:
    """Return the results of these records, which every analysis takes."""
    return Results(Source(list(records), compare=tuple(compare)))


def knowing_chance(
    records: Sequence[TrialRecord], chance: float = 0.9, standard_error: float = 0.005
) -> list[TrialRecord]:
    """Return the records with the chance level of their outcomes."""
    known = {"chance": chance, "chance_standard_error": standard_error}
    found = []
    for record in records:
        key, metrics = record.task["primary"], record.task["metrics"]
        task = record.task | {"metrics": metrics | {key: metrics[key] | known}}
        found.append(replace(record, task=task))
    return found


def results_from(trials: pd.DataFrame) -> Results:
    """Return results of trials that have no records, such as those of simulated worlds (`worlds.frame`)."""
    results, labels = Results(Source([])), Labels()
    results.__dict__["trials"] = trials  # where the cached property keeps them
    results.__dict__["_frames"] = Frames(trials, trials, labels)
    labels.treatments.update({label: Key({"initializer": label}) for label in trials["treatment"]})
    labels.workloads.update({label: Key({"architecture": label}) for label in trials["workload"]})
    return results


def compared(records: Sequence[TrialRecord], factors: Sequence[str] = DEFAULT_COMPARE) -> Compared:
    """Return what a report of these records compares."""
    found = results_of(records, factors)
    return Compared(found.trials, found.metrics, found.metric_of, found.terms)


def comparison(records: Sequence[TrialRecord], factors: Sequence[str] = DEFAULT_COMPARE) -> pd.DataFrame:
    """Return the table of the treatments on each workload."""
    return comparison_frame(results_of(records, factors))


def sentences_of(analysis: Answer, subject: str | None = None) -> list[str]:
    """Return the sentences of an analysis as texts, those with one subject where it is given."""
    return [str(own) for own in analysis.sentences if subject in (None, own.subject)]


def table_of(analysis: Answer, name: str) -> Table:
    """Return the one table of an analysis that has this name."""
    [found] = [table for table in analysis.tables if table.name == name]
    return found


def figure_of(analysis: Answer, name: str) -> Figure:
    """Return the one figure of an analysis that has this name."""
    [found] = [figure for figure in analysis.figures if figure.name == name]
    return found
