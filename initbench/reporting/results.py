"""The results of one suite or several: what every analysis of a report takes, each part of it computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from initbench.comparing.metrics import described_metrics, outcome_metrics, trial_metrics
from initbench.errors import InitbenchError
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pandas as pd

    from initbench.comparing.labels import Labels, Names
    from initbench.ledger import TrialRecord
    from initbench.metric import Metric


Made = TypeVar("Made")


@dataclass(frozen=True)
class Results:
    """Trial records, and what analyses make of them.

    Attributes:
        source: the records, and where they come from.
    """

    source: Source

    @property
    def records(self) -> list[TrialRecord]:
        """The trials' records, as `frame.slim` leaves them."""
        return self.source.records

    def once(self, make: Callable[[Results], Made]) -> Made:
        """Return what a function makes of these results, which it does when it is first asked for.

        Args:
            make: a function of a module; what it returns is never changed.
        """
        made: dict[Callable[[Results], Any], Any] = self.__dict__.setdefault("_made", {})
        if make not in made:
            made[make] = make(self)
        found: Made = made[make]
        return found

    @cached_property
    def by_id(self) -> dict[str, TrialRecord]:
        """The records by trial id."""
        return {record.id: record for record in self.records}

    @cached_property
    def _frames(self) -> Frames:
        return results_frames(self.records, self.source.compare)

    @property
    def labels(self) -> Labels:
        """The labels of treatments and workloads, with the key of each."""
        return self._frames.labels

    @property
    def frame(self) -> pd.DataFrame:
        """One row per trial: what `load_results` returns."""
        return self._frames.trials

    @cached_property
    def trials(self) -> pd.DataFrame:
        """The trials that are compared, in each workload in which they stand (`trials.comparable_trials`)."""
        return comparable_trials(self._frames, outcome_metrics(self.records))

    @cached_property
    def searched(self) -> pd.DataFrame:
        """The search trials of suites that tune, in each workload in which they stand (`trials.searched_trials`)."""
        return self._compared(self.searches)

    @cached_property
    def searches(self) -> pd.DataFrame:
        """All search trials, those of which nothing is compared yet too."""
        return searched_trials(self._frames, outcome_metrics(self.records), tuned_of(self.records))

    @cached_property
    def tune(self) -> Tune | None:
        """What is tuned, None where nothing is."""
        if not tuned_of(self.records):
            return None
        frame = self._frames.standings
        return tune_of(self.records, self.searches, protocols_of(frame), main_protocol(frame), self.source.tunes)

    @cached_property
    def trials_under(self) -> dict[str, pd.DataFrame]:
        """The trials of each protocol that a report of tuned suites has (`trials.comparable_trials`)."""
        frame, metrics = self._frames.standings, outcome_metrics(self.records)
        return {name: self._compared(comparable_trials(self._frames, metrics, name)) for name in protocols_of(frame)}

    def _compared(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Leave out treatments and workloads of which no search is done, so that they stand nowhere on the page."""
        kept = trials["treatment"].isin(self.trials["treatment"]) & trials["workload"].isin(self.trials["workload"])
        return trials[kept]

    @cached_property
    def trials_on(self) -> dict[str, pd.DataFrame]:
        """The trials that are compared on each workload."""
        return {str(workload): own for workload, own in self.trials.groupby("workload", sort=False)}

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per treatment and workload (`cells.cells`)."""
        return cells(self.trials)

    @cached_property
    def profiles(self) -> pd.DataFrame:
        """What the networks looked like at initialization, by layer (`measurements.profiles`)."""
        return profiles(self.records, self.trials)

    @cached_property
    def judged(self) -> pd.DataFrame:
        """The cells that have an outcome."""
        return self.cells[self.cells["outcome"].notna()]

    @cached_property
    def refused(self) -> pd.DataFrame:
        """The pairs of treatment and workload that cannot run, with the reason (`refused.refused_cells`)."""
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
        """Every metric that the records describe, by its key."""
        return described_metrics(self.records)

    @cached_property
    def terms(self) -> Terms:
        """What the report is about, in words."""
        return terms_of(self.source.compare, self.metrics)

    @cached_property
    def words(self) -> dict[str, str]:
        """What headings call a treatment, a workload, the outcome, and what is tuned."""
        tuned = {} if self.tune is None else {"setting": self.tune.noun}
        return {"treatment": self.terms.treatment, "workload": self.names.noun, "outcome": self.terms.outcome} | tuned

    @cached_property
    def names(self) -> Names:
        """Short names of treatments and workloads."""
        return self.labels.names(self.trials["treatment"], self.trials["workload"])

    @cached_property
    def colours(self) -> dict[str, str]:
        """A colour for each treatment."""
        return colours(list(self.trials["treatment"]))

    @cached_property
    def palette(self) -> dict[str, str]:
        """The same colours by the treatments' short names, as charts have them."""
        return {self.names.treatment(label): colour for label, colour in self.colours.items()}


def read_results(
    folders: str | Path | Source | Sequence[str | Path | Source], compare: Sequence[str] | None = None
) -> Results:
    """Return the results of one or several suites' folders.

    Args:
        folders: ``runs/<suite name>``, or several; or sources that were read before.
        compare: the factors that make the treatment; by default those of the suites.

    Raises:
        InitbenchError: a folder has no trial records that can be read; the suites do not compare the same; or what
            they compare is tuned.
    """
    source = read_source(folders, compare)
    if factor := next((own for own in source.compare if own in tuned_of(source.records)), None):
        raise InitbenchError(f"{factor} is tuned: each treatment chooses its own, so it tells none apart")
    return Results(source)


def as_results(results: Results | str | Path) -> Results:
    """Return results as they are, those of a suite's folder where a path is given.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    return results if isinstance(results, Results) else read_results(results)
