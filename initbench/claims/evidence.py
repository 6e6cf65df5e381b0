"""The trials for a criterion, and their values by group and seed."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initbench.arguments import show
from initbench.claims.check import difference
from initbench.claims.criteria import SCALE
from initbench.comparing.chance import STANDARD_ERRORS
from initbench.comparing.conditions import Matcher, properties_of_spec
from initbench.comparing.formatting import counted, listed, natural
from initbench.comparing.metrics import MEAN_TRAIN_LOSS, outcome_key, outcome_sign
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from initbench.claims.criteria import Correlation, LayerCriterion, RateRatio
    from initbench.metric import Metric

_OUTCOME, _PROBE, _PER_LAYER = "outcome", "probe.", "per_layer"
LEAST_RANKED = 3
"""A rank correlation needs so many values: two are always perfectly correlated."""


@dataclass(frozen=True)
class Trial:
    """A trial for judging claims.

    Attributes:
        row: of the results frame.
        record: of its ledger.
        properties: for conditions.
    """

    row: Mapping[str, Any]
    record: Any
    properties: Mapping[str, Any]

    @property
    def seed(self) -> int:
        return self.properties["seed"]

    @property
    def is_diverged(self) -> bool:
        return bool(self.record.status == "diverged")

    @property
    def validation(self) -> float:
        """The outcome on the validation split, oriented so that lower is better; +∞ if diverged, NaN if there is none.

        A search chooses by this value (`execution.searched`).
        """
        if self.is_diverged:
            return math.inf
        value = self.record.metrics.get(self._validation_key)
        return math.nan if value is None else outcome_sign(self.record) * float(value)

    @property
    def is_stable(self) -> bool:
        """Whether it neither diverged nor is at chance on the validation split; unknown chance counts as better."""
        if math.isinf(self.validation):
            return False
        described = self.record.task["metrics"].get(self._validation_key, {})
        chance, error = (described.get(key) for key in ("chance", "chance_standard_error"))
        if chance is None or error is None:
            return True
        return bool(outcome_sign(self.record) * chance - self.validation > STANDARD_ERRORS * error)

    @property
    def _validation_key(self) -> str:
        key = outcome_key(self.record)
        split = self.record.task.get("metrics", {}).get(key, {}).get("split", "")
        return f"validation_{key.removeprefix(f'{split}_')}"

    def at_chance(self, outcome: float) -> float:
        """Return 1 if an oriented outcome is at this trial's chance level or worse, 0 if better, NaN if unknown."""
        chance, error = self.row["oriented_chance"], self.row["chance_standard_error"]
        if math.isnan(chance) or math.isnan(error):
            return math.nan
        return float(chance - outcome <= STANDARD_ERRORS * error)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The data of a criterion in one group: a value for each of its sides at each seed that all of them have.

    Attributes:
        label: the values of the criterion's ``each`` properties; empty if it has none.
        seeds: at which every side has a value.
        sides: each side is an array of its values, shape (seeds,), with ±∞ if the outcome diverged or a measurement
            overflowed. A side of a criterion on layers is a list with the values of the layers at each seed. A ratio of
            rates has one array, shape (seeds, levels), or (seeds, 2) if the criterion has ``against``; NaN if no rate
            is stable.
        at_chance: for each side, shape (seeds,): 1 if the outcome is no better than chance, 0 if it is, NaN if unknown.
        diverged: for each side the steps at which its trials diverged, if a seed has no finite value for that reason;
            None for an unknown step.
        levels: the values of the ``rises_with`` property of a ratio of rates, ascending.
        problem: why nothing can be judged here; empty if it can.
        metric: what the values are of; None if that is not a metric, for example a probe.
    """

    label: str
    seeds: tuple[int, ...]
    sides: Sequence[Any]
    at_chance: Sequence[NDArray[np.float64]] = ()
    diverged: tuple[tuple[int | None, ...], ...] = ()
    levels: tuple[float, ...] = ()
    problem: str = ""
    metric: Metric | None = None

    @property
    def sign(self) -> float:
        """1 if lower values of the measure are better, -1 if higher ones are."""
        return 1.0 if self.metric is None else self.metric.oriented(1.0)


@dataclass(frozen=True)
class Evidence:
    """The trials for judging claims.

    Attributes:
        trials: the rows of the compared final trials.
        trials_under: the rows of each protocol of tuning: ``recipe``, ``shared``, ``own``.
        searched: the values of the search trials.
        tuned: the tuned properties; empty for a suite without tuning.
        metrics: the outcomes by name.
        described: every metric that records describe, by its key.
        records: the trials' records by id.
    """

    trials: pd.DataFrame
    trials_under: Mapping[str, pd.DataFrame]
    searched: pd.DataFrame
    tuned: Collection[str]
    metrics: Mapping[str, Metric]
    described: Mapping[str, Metric]
    records: Mapping[str, Any]

    def final(self, protocol: str | None) -> list[Trial]:
        """Return the final trials under a protocol of tuning, each once; None for the compared ones."""
        if protocol is None or not self.tuned:
            return self._once(self.trials)
        return self._once(self.trials_under.get(protocol, self.trials.iloc[:0]))

    def _once(self, frame: pd.DataFrame) -> list[Trial]:
        rows = frame.drop_duplicates("trial_id").to_dict("records")
        records = [self.records[row["trial_id"]] for row in rows]
        return [
            Trial({str(key): value for key, value in row.items()}, record, properties_of_spec(record.spec))
            for row, record in zip(rows, records, strict=True)
        ]

    def metric(self, measure: str) -> Metric | None:
        """Return the metric for a measure; None if it is not a metric, for example a probe, or trials have several."""
        if measure == _OUTCOME:
            return next(iter(self.metrics.values())) if len(self.metrics) == 1 else None
        return self.described.get(measure)

    def groups(
        self,
        sides: Sequence[Mapping[str, Any]],
        measure: str,
        each: Sequence[str] = (),
        protocol: str | None = None,
        best_over: str | None = None,
    ) -> list[Group]:
        """Return the values of several sides, one group for every combination of the values of ``each``.

        Raises:
            InitbenchError: no trial has the measure, or it is not a number; a side has several trials at one seed of
                one group; sides have different outcomes; or no trial has a validation value, which is needed to choose
                the best.
        """
        groups = []
        for label, chosen in _chosen(self._measured(measure, protocol), sides, each, best_over):
            known = [{seed for seed in side if not math.isnan(self._value(side[seed], measure))} for side in chosen]
            seeds = _in_all(known)
            trials = [[side[seed] for seed in seeds] for side in chosen]
            values = [np.array([self._value(trial, measure) for trial in side], dtype=float) for side in trials]
            diverged = [
                [trial for trial, value in zip(*side, strict=True) if trial.is_diverged and math.isinf(value)]
                for side in zip(trials, values, strict=True)
            ]
            if measure.startswith(_PROBE):  # it overflowed before the training did
                diverged = [[] for _ in diverged]
            group = Group(
                label=label,
                seeds=seeds,
                sides=values,
                at_chance=[np.array([_at_chance(trial) for trial in side], dtype=float) for side in trials],
                diverged=tuple(tuple(one.record.metrics.get("diverged_at_step") for one in side) for side in diverged),
                metric=self._metric_of([trial for side in trials for trial in side], measure),
            )
            groups.append(group)
        return groups

    def _metric_of(self, trials: Iterable[Trial], measure: str) -> Metric | None:
        """Return the metric of these trials: in a report of several ledgers others may have another outcome."""
        if measure != _OUTCOME:
            return self.metric(measure)
        names = sorted({trial.row["metric"] for trial in trials})
        if len(names) > 1:
            raise InitbenchError(f"compares different outcomes: {listed(names)}")
        return self.metrics.get(names[0]) if names else None

    def _value(self, trial: Trial, measure: str) -> float:
        """Return a trial's value: ±∞ if a probe overflowed, and for a metric, as the worst, if the trial diverged."""
        value = trial.row[measure]
        if isinstance(value, str):
            raise InitbenchError(f"{measure} is not a number")
        value = math.nan if value is None else float(value)
        if not math.isnan(value):
            return value
        if measure.startswith(_PROBE):
            return _lost(trial, measure.removeprefix(_PROBE))
        if not trial.is_diverged:
            return math.nan
        if measure == MEAN_TRAIN_LOSS:
            return math.inf
        metric = self._metric_of([trial], measure)
        return math.nan if metric is None else metric.oriented(math.inf)

    def _measured(self, measure: str, protocol: str | None) -> list[Trial]:
        trials = self.final(protocol)
        if trials and measure not in trials[0].row:
            raise InitbenchError(f"no trial has {measure}")
        return trials

    def medians(self, criterion: Correlation) -> tuple[list[NDArray[np.float64]], int]:
        """Return medians over seeds of the measure and the outcome, and the number of seeds that they are taken over.

        Outcomes are turned so that lower is better. A trial without both values, for example a failed one, is left out
        of the medians, and, if the criterion says so, a treatment whose median outcome is at chance.

        Returns:
            For every group in which a trial has both values the medians, shape (2, treatments); and the smallest number
            of seeds of all treatments and groups. A seed counts if all of its trials have both values.

        Raises:
            InitbenchError: as for `groups`.
        """
        tables, seeds = [], []
        selected = _matching(self._measured(criterion.measure, criterion.protocol), criterion.of)
        for (group,) in _labelled([selected], criterion.each).values():
            cells = defaultdict(list)
            for trial in group:
                cells[trial.row["treatment"]].append(trial)
            medians, trains = [], []
            for cell in cells.values():
                trials = cell if criterion.best_over is None else list(_by_seed(cell, criterion.best_over).values())
                pairs = [(self._value(trial, criterion.measure), float(trial.row["oriented"])) for trial in trials]
                table = np.array(pairs, dtype=float).reshape(-1, 2)
                known, seed = ~np.isnan(table).any(axis=1), np.array([trial.seed for trial in trials])
                seeds.append(len({*seed[known]} - {*seed[~known]}))
                if known.any():
                    medians.append(np.median(table[known], axis=0))
                    trains.append(_trains(medians[-1][1], trials[known.argmax()]))
            if medians:
                tables.append(np.array(medians)[np.array(trains) | (not criterion.trained_only)].T)
        return tables, min(seeds, default=0)

    def layers(self, criterion: LayerCriterion) -> list[Group]:
        """Return the values of layers, one group for every combination of the values of ``each``.

        Raises:
            InitbenchError: no trial has the measure for each layer, or no layer has a matching name; or as for
                `groups`.
        """
        sides = list(criterion.selectors.values())
        chosen = _chosen(self.final(criterion.protocol), sides, criterion.each, criterion.best_over)
        measured = [
            (label, [{seed: _layer_values(trial, criterion.measure) for seed, trial in side.items()} for side in sides])
            for label, sides in chosen
        ]
        names = {name for _, sides in measured for side in sides for values in side.values() for name in values}
        if chosen and not names:
            raise InitbenchError(f"no trial has {criterion.measure} for each layer")
        meant = {name for name in names if re.search(criterion.layers, name)}
        if chosen and not meant:
            raise InitbenchError(f"no layer name matches {show(criterion.layers)}")
        groups = []
        for label, values in measured:
            common = {seed: _common([side.get(seed, {}) for side in values], meant) for side in values for seed in side}
            seeds = _in_all([{seed for seed in side if common[seed]} for side in values])
            arrays = [
                [np.array([side[seed][name] for name in common[seed]], dtype=float) for seed in seeds]
                for side in values
            ]
            groups.append(Group(label=label, seeds=seeds, sides=arrays))
        return groups

    def ratios(self, criterion: RateRatio) -> list[Group]:
        """Return the best rate over the largest stable one, one group for every combination of values of ``each``.

        A group has the criterion's sides: `of`, and `against` if it is given.

        Raises:
            InitbenchError: a value is not a number; or as for `groups`.
        """
        is_tuned = criterion.rate in self.tuned
        trials = self._once(self.searched) if is_tuned else self.final(criterion.protocol)
        sides = [_matching(trials, side) for side in criterion.selectors.values()]
        return [_ratio_group(criterion, label, group) for label, group in _labelled(sides, criterion.each).items()]


def _matching(trials: Iterable[Trial], condition: Mapping[str, Any]) -> list[Trial]:
    matcher = Matcher(dict(condition))
    return [trial for trial in trials if matcher(trial.properties)]


def _chosen(
    trials: Sequence[Trial], sides: Iterable[Mapping[str, Any]], each: Sequence[str], best_over: str | None
) -> list[tuple[str, list[dict[int, Trial]]]]:
    """Return for every combination of the values of ``each`` its label, and the trial of each side at each seed."""
    groups = _labelled([_matching(trials, side) for side in sides], each)
    return [(label, [_by_seed(side, best_over) for side in group]) for label, group in groups.items()]


def _labelled(sides: Sequence[Sequence[Trial]], each: Sequence[str]) -> dict[str, list[list[Trial]]]:
    """Return the trials of the sides by group, in natural order of the labels.

    The label of a group has its values of the properties ``each``, without one that a trial lacks.
    """
    groups: dict[str, list[list[Trial]]] = {}
    for index, side in enumerate(sides):
        for trial in side:
            label = ", ".join(_text(key, trial.properties[key]) for key in each if key in trial.properties)
            groups.setdefault(label, [[] for _ in sides])[index].append(trial)
    return dict(sorted(groups.items(), key=lambda item: natural(item[0])))


def _text(key: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{key.rpartition('.')[2]} {json.dumps(value)}"


def _by_seed(trials: Iterable[Trial], best_over: str | None) -> dict[int, Trial]:
    """Return the trial of one side and group that counts at each seed.

    With ``best_over``, of the trials that differ only in that property, the one with the best validation value counts.
    """
    if best_over is not None:
        return {seed: _best(tries) for seed, tries in _tries_by_seed(trials, best_over).items()}
    counting: dict[int, Trial] = {}
    for trial in trials:
        other = counting.setdefault(trial.seed, trial)
        if other is not trial:
            raise _several(other, trial)
    return counting


def _best(tries: Iterable[Trial]) -> Trial:
    """Return the trial with the best validation value; of equals, and if all diverged, the first."""
    return min(tries, key=lambda trial: trial.validation)


def _tries_by_seed(trials: Iterable[Trial], over: str) -> dict[int, list[Trial]]:
    """Return the trials of each seed in ascending order of a property; only seeds with the most trials are included.

    A seed with a missing or failed try is left out, because its best would be the best of fewer.
    """
    trials = list(trials)
    known = [trial for trial in trials if not math.isnan(trial.validation)]
    if not known and any(trial.record.status == "finished" for trial in trials):
        raise InitbenchError("no trial has a validation value")
    seeds: dict[int, list[Trial]] = defaultdict(list)
    for trial in known:
        for other in seeds[trial.seed]:
            keys = other.properties.keys() | trial.properties.keys()
            if {key for key in keys if other.properties.get(key) != trial.properties.get(key)} != {over}:
                raise _several(other, trial, over)
        seeds[trial.seed].append(trial)
    most = max(Counter(trial.seed for trial in trials).values(), default=0)
    return {
        seed: sorted(tries, key=lambda trial: _order(trial.properties.get(over)))
        for seed, tries in seeds.items()
        if len(tries) == most
    }


def _several(one: Trial, other: Trial, over: str = "") -> InitbenchError:
    each = ({key: value for key, value in trial.properties.items() if key != over} for trial in (one, other))
    return InitbenchError(f"selects several trials at seed {one.seed}, which differ in {difference(*each)}")


def _order(value: Any) -> tuple[int, Any]:
    """Return a sort key: missing values first, then numbers by size, then others by name."""
    if isinstance(value, int | float):
        return 0, value
    return (-1, 0) if value is None else (1, natural(str(value)))


def _in_all(seeds: Sequence[Iterable[int]]) -> tuple[int, ...]:
    """Return the seeds that every side has, ascending."""
    return tuple(sorted(set.intersection(*map(set, seeds))))


def _at_chance(trial: Trial) -> float:
    return 1.0 if trial.is_diverged else trial.at_chance(float(trial.row["oriented"]))


def _trains(outcome: float, trial: Trial) -> bool:
    at_chance = trial.at_chance(outcome)
    return math.isfinite(outcome) if math.isnan(at_chance) else at_chance == 0


def _lost(trial: Trial, probe: str) -> float:
    """Return ±∞ for a scalar that overflowed, which a record has as null with the reason; NaN if it is unknown."""
    reasons = (entry.get("value_reason") for entry in trial.record.probes if entry["name"] == probe)
    return _infinite(next(filter(None, reasons), ""))


def _infinite(reason: str) -> float:
    """Return ±∞ if that is why a value is missing; NaN for any other reason.

    Several reasons, of a measurement of each layer, cannot be assigned to layers.
    """
    return float(reason) if reason in {"inf", "-inf"} else math.nan


def _layer_values(trial: Trial, measure: str) -> dict[str, float]:
    """Return by layer a probe's measurements, or the factors by which tensors were scaled; empty if unknown."""
    if measure == SCALE:
        return trial.record.initialization.get("factors", {})
    name = measure.removeprefix(_PROBE)
    known = {entry["name"]: entry for entry in trial.record.probes if entry["kind"] == _PER_LAYER}
    entry = known.get(name, known.get(f"{name}.{_PER_LAYER}"))
    if entry is None:
        return {}
    lost = _infinite(entry.get("values_reason", ""))
    return {layer: lost if value is None else float(value) for layer, value in entry["values"].items()}


def _common(sides: Sequence[Mapping[str, float]], meant: Collection[str]) -> list[str]:
    first, *others = sides
    return [name for name in first if name in meant and all(name in other for other in others)]


def _ratio_group(criterion: RateRatio, label: str, sides: Sequence[Sequence[Trial]]) -> Group:
    rises_with = criterion.rises_with
    at: dict[float, list[Trial]] = {} if rises_with else {float(index): [] for index in range(len(sides))}
    for index, side in enumerate(sides):
        for trial in side:
            at.setdefault(_number(trial, rises_with) if rises_with else float(index), []).append(trial)
    levels = sorted(at)
    ratios = [
        {seed: _ratio(tries, criterion.rate) for seed, tries in _tries_by_seed(at[level], criterion.rate).items()}
        for level in levels
    ]
    seeds = _in_all(ratios)
    table = np.array([[ratio[seed] for ratio in ratios] for seed in seeds], dtype=float)
    table = table.reshape(len(seeds), len(levels))
    problem = ""
    if rises_with is not None:
        untrained = [level for level, column in zip(levels, table.T, strict=True) if np.isnan(column).all()]
        if len(levels) < LEAST_RANKED:
            problem = f"at least {counted(LEAST_RANKED, 'value')} of {rises_with} are needed"
        elif seeds and untrained:
            problem = f"no rate is stable with {rises_with} {untrained[0]:g}"
    return Group(label=label, seeds=seeds, sides=[table], levels=tuple(levels), problem=problem)


def _ratio(tries: Sequence[Trial], rate: str) -> float:
    """Return the best rate over the largest stable one, for tries in ascending order; NaN if none is stable."""
    stable = [trial for trial in tries if trial.is_stable]
    return _number(_best(tries), rate) / _number(stable[-1], rate) if stable else math.nan


def _number(trial: Trial, name: str) -> float:
    value: Any = trial.properties.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InitbenchError(f"{name} is not a number")
    return float(value)
