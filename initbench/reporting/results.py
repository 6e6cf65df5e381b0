"""The results of one or several suites: the input of every analysis in a report, each part computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from initbench.comparing.labels import Labels
from initbench.comparing.metrics import described_metrics, outcome_metrics, trial_metrics
from initbench.comparing.names import Names, short_names
from initbench.errors import InitbenchError
from initbench.ledger import TrialRecord
from initbench.metric import Metric
from initbench.reporting.charts.style import colours
from initbench.reporting.frame import Frames, results_frames
from initbench.reporting.measurements import profiles
from initbench.reporting.refused import refused_cells
from initbench.reporting.source import Source, read_source
from initbench.reporting.terms import Terms, terms_of
from initbench.reporting.trials import (
    comparable_trials,
    main_protocol,
    protocols_of,
    searched_trials,
    workload_metrics,
)
from initbench.reporting.tune import Tune, tune_of, tuned_of
from initbench.statistics.cells import cells
from initbench.statistics.seed_variance import SuiteVariances, suite_variances
from initbench.statistics.verdicts import Verdict, workload_verdicts

Made = TypeVar("Made")
CLAIMS = 2
"""The first screen makes two kinds of claims, over workloads and on one of them; each has half of the 5 %."""


@dataclass(frozen=True)
class Results:
    """Trial records, and what analyses derive from them.

    Attributes:
        source: the records and their origin.
    """

    source: Source

    @property
    def records(self) -> list[TrialRecord]:
        """The trials' records, reduced to what a report needs."""
        return self.source.records

    @cached_property
    def by_id(self) -> dict[str, TrialRecord]:
        """The records by trial id."""
        return {record.id: record for record in self.records}

    @cached_property
    def _frames(self) -> Frames:
        return results_frames(self.records, self.source.compare)

    @property
    def labels(self) -> Labels:
        """The labels of treatments and workloads, with their keys."""
        return self._frames.labels

    @property
    def frame(self) -> pd.DataFrame:
        """One row per trial, as from `load_results`."""
        return self._frames.trials

    @cached_property
    def trials(self) -> pd.DataFrame:
        """The trials that are compared, one row per trial and workload (`trials.comparable_trials`)."""
        return comparable_trials(self._frames, outcome_metrics(self.records))

    @cached_property
    def searched(self) -> pd.DataFrame:
        """The search trials of the treatments and workloads that are compared (`trials.searched_trials`)."""
        return self._compared(self.searches)

    @cached_property
    def searches(self) -> pd.DataFrame:
        """All search trials, including those of unfinished searches."""
        return searched_trials(self._frames, outcome_metrics(self.records), tuned_of(self.records))

    @cached_property
    def tune(self) -> Tune | None:
        """What is tuned; None if nothing is."""
        if not tuned_of(self.records):
            return None
        frame = self._frames.standings
        return tune_of(self.records, self.searches, protocols_of(frame), main_protocol(frame), self.source.tunes)

    @cached_property
    def trials_under(self) -> dict[str, pd.DataFrame]:
        """The compared trials of each protocol, if suites tune (`trials.comparable_trials`)."""
        frame, metrics = self._frames.standings, outcome_metrics(self.records)
        return {name: self._compared(comparable_trials(self._frames, metrics, name)) for name in protocols_of(frame)}

    def _compared(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Leave out treatments and workloads without a finished search."""
        kept = trials["treatment"].isin(self.trials["treatment"]) & trials["workload"].isin(self.trials["workload"])
        return trials[kept]

    @cached_property
    def trials_on(self) -> dict[str, pd.DataFrame]:
        """The compared trials of each workload."""
        return {str(workload): rows for workload, rows in self.trials.groupby("workload", sort=False)}

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per treatment and workload (`statistics.cells.cells`)."""
        return cells(self.trials)

    @cached_property
    def variances(self) -> SuiteVariances:
        """The variances over seeds on each workload."""
        return suite_variances(self.trials, self.cells)

    @cached_property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """The verdict on each pair of treatments of a workload; at most 5 % false ones on each workload."""
        return self._verdicts(workload_verdicts(self.cells, self.trials, self.variances))

    @cached_property
    def suite_verdicts(self) -> dict[str, list[Verdict]]:
        """The same verdicts for the first screen: at most 5 % false ones, with the order over workloads, on all."""
        is_ordered = len(self.metric_of) > 1
        return self._verdicts(
            workload_verdicts(self.cells, self.trials, self.variances, "suite", CLAIMS if is_ordered else 1)
        )

    def _verdicts(self, verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
        on: dict[str, list[Verdict]] = {workload: [] for workload in self.metric_of}
        for verdict in verdicts:
            on[verdict.workload].append(verdict)
        return on

    @cached_property
    def profiles(self) -> pd.DataFrame:
        """Measurements at initialization, by layer (`measurements.profiles`)."""
        return profiles(self.by_id, self.trials)

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The cells that have an outcome."""
        return self.cells[self.cells["outcome"].notna()]

    @cached_property
    def refused(self) -> pd.DataFrame:
        """The pairs of treatment and workload that cannot run, with reasons (`refused.refused_cells`)."""
        return refused_cells(self.records, self.source.incompatible, self.source.compare)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The outcomes by name."""
        return trial_metrics(self.trials, self.records)

    @cached_property
    def metric_of(self) -> dict[str, Metric]:
        """The outcome of each workload."""
        return workload_metrics(self.trials, self.metrics)

    @cached_property
    def described(self) -> dict[str, Metric]:
        """All metrics that the records describe, by key."""
        return described_metrics(self.records)

    @cached_property
    def terms(self) -> Terms:
        """The words for the outcome and for a treatment."""
        return terms_of(self.source.compare, self.metrics)

    @cached_property
    def words(self) -> dict[str, str]:
        """The words of headings for a treatment, a workload, the outcome, and the tuned setting."""
        tuned = {} if self.tune is None else {"setting": self.tune.noun}
        return {"treatment": self.terms.treatment, "workload": self.names.noun, "outcome": self.terms.outcome} | tuned

    @cached_property
    def names(self) -> Names:
        """Short names of treatments and workloads."""
        return short_names(self.labels, self.trials["treatment"], self.trials["workload"])

    @cached_property
    def colours(self) -> dict[str, str]:
        """A colour for each treatment."""
        return colours(list(self.trials["treatment"]))

    @cached_property
    def palette(self) -> dict[str, str]:
        """The same colours by the treatments' short names, as in charts."""
        return {self.names.treatment_in_figure(label): colour for label, colour in self.colours.items()}


def once(make: Callable[[Results], Made]) -> Callable[[Results], Made]:
    """Let a module's function of `Results` compute its value at the first call with each of them.

    Args:
        make: the function; nobody may change what it returns.
    """

    @wraps(make)
    def made(results: Results) -> Made:
        known: dict[Callable[[Results], Any], Any] = results.__dict__.setdefault("_made", {})
        if make not in known:
            known[make] = make(results)
        value: Made = known[make]
        return value

    return made


def read_results(
    folders: str | Path | Source | Sequence[str | Path | Source], compare: Sequence[str] | None = None
) -> Results:
    """Return the results of one or several suites' folders.

    Args:
        folders: ``runs/<suite name>``, or several; or sources that were read before.
        compare: the factors that make the treatment; by default those that the suites name.

    Raises:
        InitbenchError: a folder has no readable trial records; the suites compare different factors; or a compared
            factor is tuned.
    """
    source = read_source(folders, compare)
    if factor := next((name for name in source.compare if name in tuned_of(source.records)), None):
        raise InitbenchError(f"{factor} is tuned: every treatment chooses its own value, so it cannot distinguish them")
    return Results(source)


def as_results(results: Results | str | Path) -> Results:
    """Return results unchanged, or read those of a suite's folder."""
    return results if isinstance(results, Results) else read_results(results)
