"""The trials that a criterion speaks of: their values, by group and seed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initbench.claims.choice import by_seed
from initbench.claims.groups import Group, at_all_seeds
from initbench.claims.trials import Found, found_of
from initbench.comparing.chance import STANDARD_ERRORS
from initbench.comparing.conditions import Matcher
from initbench.comparing.metrics import MEAN_TRAIN_LOSS
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from initbench.claims.criteria import Correlation
    from initbench.metric import Metric
    from initbench.reporting.results import Results

OUTCOME = "outcome"


@dataclass(frozen=True)
class Chosen:
    """The trials that count, of one value of what a criterion says ``each`` of.

    Attributes:
        label: the values of those properties; empty where the criterion has none.
        sides: the trial of each seed, for each side.
    """

    label: str
    sides: tuple[Mapping[int, Found], ...]


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
            return self._found(results.trials)
        return self._found(results.trials_under.get(protocol, results.trials.iloc[:0]))

    def tries(self, over: str, protocol: str | None) -> list[Found]:
        """Return the trials that differ in a property: those of the searches if it is tuned, else the final ones."""
        tune = self.results.tune
        if tune is not None and over in tune.keys:
            return self._found(self.results.searched)
        return self.trials(protocol)

    def metric(self, measure: str) -> Metric | None:
        """Return the metric that a measure is, None for one that is none, such as a probe's."""
        if measure == OUTCOME:
            metrics = self.results.metrics
            return next(iter(metrics.values())) if len(metrics) == 1 else None
        return self.results.described.get(measure)

    def chosen(
        self,
        sides: Sequence[Mapping[str, Any]],
        *,
        each: Sequence[str],
        protocol: str | None,
        best_over: str | None = None,
    ) -> list[Chosen]:
        """Return the trials of several sides, for every combination of the values of ``each``.

        Args:
            sides: a condition for each.
            each: properties of trials.
            protocol: as for `trials`.
            best_over: a property in which the trials of a seed differ; see `choice.by_seed`.

        Raises:
            InitbenchError: a side has several trials at one seed of one group; or none has a validation value.
        """
        trials = self.trials(protocol)
        selected = [matching(trials, side) for side in sides]
        labels = dict.fromkeys(label_of(trial, each) for side in selected for trial in side)
        return [
            Chosen(
                label, tuple(by_seed([t for t in side if label_of(t, each) == label], best_over) for side in selected)
            )
            for label in labels
        ]

    def groups(
        self,
        sides: Sequence[Mapping[str, Any]],
        *,
        each: Sequence[str],
        measure: str,
        protocol: str | None,
        best_over: str | None = None,
    ) -> list[Group]:
        """Return the values of several sides, one group for every combination of the values of ``each``.

        Args:
            sides: as for `chosen`.
            each: likewise.
            measure: what is judged.
            protocol: as for `trials`.
            best_over: as for `chosen`.

        Raises:
            InitbenchError: no trial has the measure, or it is no number; or as for `chosen`.
        """
        self._check(measure, protocol)
        chosen = self.chosen(sides, each=each, protocol=protocol, best_over=best_over)
        return [self._group(one, measure) for one in chosen]

    def medians(self, criterion: Correlation) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the measure and the outcome of every treatment, medians over seeds, for every group.

        Outcomes are turned so that lower is better. Treatments that lack one of the two are left out, and, if the
        criterion says so, those whose median outcome is at chance.

        Raises:
            InitbenchError: no trial has the measure; or as for `chosen`, where it has a ``best_over``.
        """
        self._check(criterion.measure, criterion.protocol)
        cells: dict[str, dict[str, list[Found]]] = {}
        for trial in matching(self.trials(criterion.protocol), criterion.of):
            of = cells.setdefault(label_of(trial, criterion.each), {})
            of.setdefault(str(trial.row["treatment"]), []).append(trial)
        tables = []
        for treatments in cells.values():
            medians = []
            for cell in treatments.values():
                trials = cell if criterion.best_over is None else list(by_seed(cell, criterion.best_over).values())
                pairs = [(self.value(trial, criterion.measure), float(trial.row["oriented"])) for trial in trials]
                measured, outcome = np.median(np.array(pairs), axis=0) if pairs else (math.nan, math.nan)
                if not criterion.trained_only or _is_better(outcome, trials[0].row):
                    medians.append((measured, outcome))
            table = np.array(medians, dtype=float).reshape(-1, 2)
            known = table[~np.isnan(table).any(axis=1)]
            if len(known) > 1:
                tables.append((known[:, 0], known[:, 1]))
        return tables

    def value(self, trial: Found, measure: str) -> float:
        """Return a trial's value; that of a metric at which it diverged is the worst, ±∞."""
        value = trial.row[measure]
        if isinstance(value, str):
            raise InitbenchError(f"{measure} is no number")
        value = math.nan if value is None else float(value)
        if not math.isnan(value) or not trial.is_diverged:
            return value
        if measure == MEAN_TRAIN_LOSS:
            return math.inf
        metric = self.results.metrics.get(trial.row["metric"]) if measure == OUTCOME else self.metric(measure)
        return math.nan if metric is None else metric.oriented(math.inf)

    def _check(self, measure: str, protocol: str | None) -> None:
        trials = self.trials(protocol)
        if trials and measure not in trials[0].row:
            raise InitbenchError(f"no trial has {measure}")

    def _found(self, frame: pd.DataFrame) -> list[Found]:
        rows = frame.drop_duplicates("trial_id").to_dict("records")
        return [found_of({str(k): v for k, v in row.items()}, self.results.by_id[row["trial_id"]]) for row in rows]

    def _group(self, chosen: Chosen, measure: str) -> Group:
        values = [{seed: self.value(trial, measure) for seed, trial in side.items()} for side in chosen.sides]
        known = [{seed for seed, value in side.items() if not math.isnan(value)} for side in values]
        seeds, lacking = at_all_seeds(chosen.sides, known)
        return Group(
            label=chosen.label,
            seeds=seeds,
            lacking=lacking,
            sides=tuple(np.array([side[seed] for seed in seeds], dtype=float) for side in values),
            at_chance=tuple(
                np.array([_at_chance(side[seed], self.results) for seed in seeds], dtype=float) for side in chosen.sides
            ),
            diverged=tuple(
                tuple(_step(side[seed]) for seed in seeds if math.isinf(own[seed]) and side[seed].is_diverged)
                for side, own in zip(chosen.sides, values, strict=True)
            ),
        )


def matching(trials: Sequence[Found], side: Mapping[str, Any]) -> list[Found]:
    """Return the trials that meet a condition."""
    matcher = Matcher(dict(side))
    return [trial for trial in trials if matcher(trial.properties)]


def label_of(trial: Found, each: Sequence[str]) -> str:
    """Return the values of properties as one text; what a trial does not have is left out."""
    known = ((key, trial.properties[key]) for key in each if key in trial.properties)
    return ", ".join(_text(key, value) for key, value in known)


def _text(key: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{key.rpartition('.')[2]} {json.dumps(value)}"


def _step(trial: Found) -> int | None:
    step: int | None = trial.record.metrics.get("diverged_at_step")
    return step


def _at_chance(trial: Found, results: Results) -> float:
    """Return whether the outcome is no more than 2.576 standard errors of the chance level better than that level."""
    if trial.is_diverged:
        return 1.0
    metric = results.metrics.get(trial.row["metric"])
    chance, error = trial.row["chance"], trial.row["chance_standard_error"]
    if metric is None or math.isnan(chance) or math.isnan(error):
        return math.nan
    gain = metric.oriented(chance) - metric.oriented(trial.row[OUTCOME])
    return float(gain <= STANDARD_ERRORS * error)


def _is_better(outcome: float, row: Mapping[str, Any]) -> bool:
    """Return whether an oriented outcome is better than chance; where chance is unknown, whether it is finite."""
    chance, error = row["oriented_chance"], row["chance_standard_error"]
    if math.isnan(chance) or math.isnan(error):
        return math.isfinite(outcome)
    return bool(chance - outcome > STANDARD_ERRORS * error)
