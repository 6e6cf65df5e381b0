"""The trials that a criterion speaks of: their values, by group and seed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initbench.errors import InitbenchError
from initbench.reporting.metrics import MEAN_TRAIN_LOSS
from initbench.reporting.trained import STANDARD_ERRORS
from initbench.suite.claim_check import difference
from initbench.suite.match import Matcher, properties_of_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from initbench.metric import Metric
    from initbench.reporting.results import Results

OUTCOME = "outcome"


@dataclass(frozen=True)
class Found:
    """A trial, and what of it can be judged.

    Attributes:
        properties: what conditions on it can name (`suite.match`).
        row: of the results frame.
    """

    properties: Mapping[str, Any]
    row: Mapping[str, Any]

    @property
    def seed(self) -> int:
        """Of the trial."""
        seed: int = self.properties["seed"]
        return seed


@dataclass(frozen=True)
class Group:
    """The values of the sides of a criterion where what it says ``each`` of is the same, at the seeds that all have.

    Attributes:
        label: the values of those properties; empty where the criterion has none.
        seeds: at which every side has a value.
        sides: the values, one array for each side, shape (seeds,); ±∞ for the outcome of a diverged trial.
        at_chance: likewise, 1 where the outcome is no better than chance, 0 where it is, NaN where that is not known.
        lacking: whether a side has no value at a seed at which another one has one, or none at all.
    """

    label: str
    seeds: tuple[int, ...]
    sides: tuple[NDArray[np.float64], ...]
    at_chance: tuple[NDArray[np.float64], ...]
    lacking: bool


@dataclass(frozen=True)
class Evidence:
    """The trials of a report as claims are judged by them.

    Attributes:
        results: that they are of.
    """

    results: Results

    def trials(self, protocol: str | None) -> list[Found]:
        """Return the final trials under a protocol of tuning, each once.

        Args:
            protocol: ``recipe``, ``shared`` or ``own``; None for those that the report compares.
        """
        results = self.results
        if protocol is None or results.tune is None:
            frame = results.trials
        else:
            frame = results.trials_under.get(protocol, results.trials.iloc[:0])
        return [
            Found(properties_of_spec(results.by_id[row["trial_id"]].spec), row)
            for row in _rows(frame.drop_duplicates("trial_id"))
        ]

    def metric(self, measure: str) -> Metric | None:
        """Return the metric that a measure is, None for one that is none, such as a probe's."""
        if measure == OUTCOME:
            metrics = self.results.metrics
            return next(iter(metrics.values())) if len(metrics) == 1 else None
        return self.results.described.get(measure)

    def groups(
        self, sides: Sequence[Mapping[str, Any]], *, each: Sequence[str], measure: str, protocol: str | None
    ) -> list[Group]:
        """Return the values of several sides, one group for every combination of the values of ``each``.

        Args:
            sides: a condition for each.
            each: properties of trials.
            measure: what is judged.
            protocol: as for `trials`.

        Raises:
            InitbenchError: no trial has the measure; or a side has several trials at one seed of one group.
        """
        trials = self.trials(protocol)
        if trials and measure not in trials[0].row:
            raise InitbenchError(f"no trial has {measure}")
        chosen = [[trial for trial in trials if Matcher(dict(side))(trial.properties)] for side in sides]
        labels = dict.fromkeys(_group_of(trial, each) for side in chosen for trial in side)
        return [self._group(label, chosen, each, measure) for label in labels]

    def medians(
        self, side: Mapping[str, Any], each: Sequence[str], measure: str, protocol: str | None
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the measure and the outcome of every treatment, medians over seeds, for every group.

        Outcomes are turned so that lower is better. Treatments that lack one of the two are left out.

        Args:
            side: a condition.
            each: as for `groups`.
            measure: what is judged.
            protocol: as for `trials`.

        Raises:
            InitbenchError: no trial has the measure.
        """
        trials = [trial for trial in self.trials(protocol) if Matcher(dict(side))(trial.properties)]
        if trials and measure not in trials[0].row:
            raise InitbenchError(f"no trial has {measure}")
        pairs: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for trial in trials:
            of = pairs.setdefault(_group_of(trial, each), {}).setdefault(str(trial.row["treatment"]), [])
            of.append((self._value(trial, measure), float(trial.row["oriented"])))
        tables = []
        for treatments in pairs.values():
            medians = np.array([np.median(np.array(values), axis=0) for values in treatments.values()])
            known = medians[~np.isnan(medians).any(axis=1)]
            if len(known) > 1:
                tables.append((known[:, 0], known[:, 1]))
        return tables

    def _group(self, label: str, chosen: Iterable[Sequence[Found]], each: Sequence[str], measure: str) -> Group:
        sides = [_by_seed([trial for trial in side if _group_of(trial, each) == label]) for side in chosen]
        values = [{seed: self._value(trial, measure) for seed, trial in side.items()} for side in sides]
        known = [{seed for seed, value in side.items() if not math.isnan(value)} for side in values]
        seeds = tuple(sorted(set.intersection(*known)))
        return Group(
            label,
            seeds,
            tuple(np.array([side[seed] for seed in seeds], dtype=float) for side in values),
            tuple(np.array([_at_chance(side[seed], self.results) for seed in seeds], dtype=float) for side in sides),
            lacking=not seeds or any(set(side) != set(seeds) for side in sides),
        )

    def _value(self, trial: Found, measure: str) -> float:
        """Return a trial's value; that of a metric at which it diverged is the worst."""
        value = trial.row[measure]
        if isinstance(value, str):
            raise InitbenchError(f"{measure} is no number")
        value = math.nan if value is None else float(value)
        if not math.isnan(value) or trial.row["status"] != "diverged":
            return value
        if measure == MEAN_TRAIN_LOSS:
            return math.inf
        metric = self.results.metrics.get(trial.row["metric"]) if measure == OUTCOME else self.metric(measure)
        return math.nan if metric is None else metric.oriented(math.inf)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def _group_of(trial: Found, each: Sequence[str]) -> str:
    """Return the values of properties as one text; what a trial does not have is left out."""
    known = ((key, trial.properties[key]) for key in each if key in trial.properties)
    return ", ".join(_text(key, value) for key, value in known)


def _text(key: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{key.rpartition('.')[2]} {json.dumps(value)}"


def _by_seed(trials: Iterable[Found]) -> dict[int, Found]:
    """Return trials by their seed.

    Raises:
        InitbenchError: two have the same one.
    """
    found: dict[int, Found] = {}
    for trial in trials:
        other = found.setdefault(trial.seed, trial)
        if other is not trial:
            what = difference(other.properties, trial.properties)
            raise InitbenchError(f"selects several trials at seed {trial.seed}, which differ in {what}")
    return found


def _at_chance(trial: Found, results: Results) -> float:
    """Return whether the outcome is no more than 2.576 standard errors of the chance level better than that level."""
    if trial.row["status"] == "diverged":
        return 1.0
    metric = results.metrics.get(trial.row["metric"])
    chance, error = trial.row["chance"], trial.row["chance_standard_error"]
    if metric is None or math.isnan(chance) or math.isnan(error):
        return math.nan
    gain = metric.oriented(chance) - metric.oriented(trial.row[OUTCOME])
    return float(gain <= STANDARD_ERRORS * error)
