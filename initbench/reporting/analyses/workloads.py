"""What happened on each workload: its treatments from best to worst, with all their numbers."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, natural
from initbench.comparing.metrics import described_metrics
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.columns import Column
from initbench.reporting.conditions import effective, fields_text
from initbench.reporting.frame import GQ
from initbench.reporting.results import as_results
from initbench.reporting.sharing import distinct
from initbench.reporting.tables import Table
from initbench.reporting.trials import early_columns
from initbench.reporting.words.workload import workload_words
from initbench.statistics.cost import on_one_device
from initbench.statistics.intervals import mean_estimate
from initbench.statistics.verdicts import WorkloadOrder, workload_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_SECONDS = "initialization_seconds"
_COLUMNS = [
    *("workload", "treatment", "rank", "seeds", "diverged", "failed", "outcome_median", "outcome_mean"),
    *("outcome_interval", "gradient_quotient_median", "gradient_quotient_saturated", "initialization_seconds_mean"),
    *("parameters", "metric", "state", "trained", "chance"),
]


@dataclass(frozen=True)
class Workloads(Analysis):
    """Every treatment on every workload.

    Attributes:
        results: that it is of.
        comparison: as from `comparison_frame`.
    """

    results: Results
    comparison: pd.DataFrame
    name: ClassVar[str] = "workloads"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"What happened on each {self.results.names.noun}?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Of each workload who is best, who did not train and who diverged."""
        return [sentence for workload in self.results.metric_of for sentence in self.of(workload)]

    @cached_property
    def orders(self) -> dict[str, WorkloadOrder]:
        """Who is where, on each workload."""
        cells = self.results.cells
        saturated = self.comparison[self.comparison["gradient_quotient_saturated"] > 0]
        return {
            workload: workload_order(
                cells[cells["workload"] == workload],
                self.results.trials_on[workload],
                set(saturated[saturated["workload"] == workload]["treatment"]),
            )
            for workload in self.results.metric_of
        }

    def of(self, workload: str) -> list[Sentence]:
        """Return the sentences on one workload.

        Args:
            workload: its label.
        """
        names, terms, metric = self.results.names, self.results.terms, self.results.metric_of[workload]
        subject = names.workload(workload)
        return workload_words(self.orders[workload], metric, terms, names.treatment, subject=subject)

    @cached_property
    def remarks(self) -> list[str]:
        """Workloads on which the comparison is not fully paired."""
        trials = self.results.trials[self.results.trials["status"] != "failed"]
        unpaired = [
            self.results.names.workload(str(workload))
            for workload, own in trials.groupby("workload", sort=False)
            if len({tuple(sorted(seeds)) for _, seeds in own.groupby("treatment")["seed"]}) > 1
        ]
        if not unpaired:
            return []
        treatment = self.results.terms.treatment
        return [
            f"Not every {treatment} has results for the same seeds on {', '.join(unpaired)}: pairs are fewer there."
        ]

    @cached_property
    def tables(self) -> list[Table]:
        """The whole table, which is written beside the page, and one for each workload, which the page shows."""
        whole = Table("comparison", "Every cell", self.comparison, is_shown=False)
        return [whole, *(self._table(workload) for workload in self.results.metric_of)]

    @property
    def main_tables(self) -> list[Table]:
        """Those of all workloads: they are what one looks up."""
        return [table for table in self.tables if table.is_shown]

    def _table(self, workload: str) -> Table:
        results, metric = self.results, self.results.metric_of[workload]
        frame = self.comparison[self.comparison["workload"] == workload]
        members = [results.by_id[i] for i in results.trials_on[workload]["trial_id"]]
        described = described_metrics(members)  # another task may have another metric of one name
        early = [name for name in early_columns(results.trials) if any(name in record.metrics for record in members)]
        sizes = set(frame["parameters"].dropna())
        title = capitalized(metric.title)
        columns = [
            Column(capitalized(results.terms.treatment), "treatment", "treatment"),
            *([Column("Parameters", "count", "parameters")] if len(sizes) > 1 else []),
            Column("Seeds", "count", "seeds"),
            Column(f"{title},\nmedian", "outcome", "outcome_median"),
            Column("mean ± 95 %\ninterval", "mean", "outcome_mean", "outcome_interval"),
            Column("", "text", "state_words"),
            *(
                Column(capitalized(described[name].title), "outcome", f"{name}_mean", metric=described[name])
                for name in early
                if name in described
            ),
            Column("Diverged", "count", "diverged"),
            *([Column("Failed", "count", "failed")] if frame["failed"].any() else []),
            Column("GQ,\nmedian", "quotient", "gradient_quotient_median"),
            Column("GQ\nsaturated", "count", "gradient_quotient_saturated"),
            Column("Initialization\ntime", "duration", "initialization_seconds_mean"),
        ]
        words = {"untrained": "did not train", "diverged": "diverged", "failed": "failed", "measured": "not trained"}
        shown = frame.assign(state_words=frame["state"].map(words).fillna(""))
        parameters = f"{max(sizes):,.0f} parameters" if sizes else ""
        note = " · ".join(part for part in (parameters, _recipe(members)) if part)
        name = results.names.workloads[workload].text
        metrics = {metric.name: metric}
        return Table("comparison", name, shown, columns, note, metrics, results.names, is_written=False)


def workloads(results: Results | str | Path) -> Workloads:
    """Return what happened on each workload.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    return as_results(results).once(_workloads)


def _workloads(results: Results) -> Workloads:
    return Workloads(results, comparison_frame(results))


def comparison_frame(results: Results) -> pd.DataFrame:
    """Return one row per workload and treatment, the workload's treatments from best to worst.

    With the outcomes e₁ … eₙ of the n trials that finished or diverged (failed ones are counted apart):

    - ``rank`` is by `cells.ranked`, equal ones share the least: those that did not train are equal, and a diverged one
      is the worst;
    - ``outcome_median``: the median, a diverged trial counting as the worst; a diverged median is +∞, and -∞ where
      higher is better; ``state``: as in `cells.cells`;
    - ``outcome_mean``: ē = Σ eᵢ / n, missing where a trial has diverged;
    - ``outcome_interval``: the half-width t₀.₉₇₅,ₙ₋₁ · s / √n of Student's 95 % interval around ē, with
      s² = Σ (eᵢ - ē)² / (n - 1); missing below 3 seeds, where all are equal, and where a trial has diverged;
    - ``first_epoch_<metric>_mean`` where there is such a metric: the mean over the n trials, missing where one
      has none;
    - ``gradient_quotient_median``: over the n trials; ``gradient_quotient_saturated``: in how many of them it is;
    - ``initialization_seconds_mean``: the mean over the n trials; missing where the workload ran on several devices;
    - ``seeds`` (n), ``trained``, ``diverged``, ``failed``: counts; ``chance``: the outcome's level; ``parameters``: of
      the model; ``metric``: the outcome's name.
    """
    needed = [column for column in (GQ, f"{GQ}.saturated", _SECONDS) if column not in results.trials]
    trials = results.trials.assign(**dict.fromkeys(needed, np.nan))
    for name, own in trials.groupby("workload"):
        if not on_one_device(results.by_id[i] for i in own["trial_id"]):
            trials.loc[trials["workload"] == name, _SECONDS] = np.nan
    cells = ({str(key): value for key, value in row.items()} for row in results.cells.to_dict("records"))
    known = {(row["workload"], row["treatment"]): row for row in cells}
    rows = []
    for (workload, treatment), trials_of_cell in trials.groupby(["workload", "treatment"]):
        cell, metric = known[str(workload), str(treatment)], results.metric_of[str(workload)]
        rows.append({"workload": workload, "treatment": treatment} | _summary(trials_of_cell, cell, metric))
    columns = [*_COLUMNS[:9], *(f"{name}_mean" for name in early_columns(trials)), *_COLUMNS[9:]]
    table = pd.DataFrame(rows, columns=[*columns, "ranked", "outcome"])
    table["rank"] = table.groupby("workload")["ranked"].rank(method="min")
    order = sorted(
        range(len(table)),
        key=lambda i: (
            natural(table["workload"][i]),
            *((True, 0.0) if math.isnan(table["outcome"][i]) else (False, table["outcome"][i])),
            natural(table["treatment"][i]),
        ),
    )
    return table.iloc[order].reset_index(drop=True)[columns]


def _summary(trials: pd.DataFrame, cell: Mapping[str, Any], metric: Metric) -> dict[str, Any]:
    ran = trials[trials["status"] != "failed"]
    values = ran["outcome"].dropna().to_numpy(dtype=float)
    complete = len(values) > 0 and cell["diverged"] == 0
    parameters = ran["parameters"].dropna()
    return {
        **{name: cell[name] for name in ("seeds", "diverged", "failed", "trained", "state", "ranked", "outcome")},
        "chance": metric.oriented(cell["chance"]),
        "outcome_median": metric.oriented(cell["outcome"]),
        "outcome_mean": float(values.mean()) if complete else np.nan,
        "outcome_interval": mean_estimate(values).half_width if complete else np.nan,
        **{f"{column}_mean": ran[column].mean(skipna=False) for column in early_columns(trials)},
        "gradient_quotient_median": _median_quotient(ran),
        "gradient_quotient_saturated": int(ran[f"{GQ}.saturated"].astype("boolean").sum()),
        "initialization_seconds_mean": ran[_SECONDS].mean(skipna=False),
        "parameters": parameters.iloc[0] if len(parameters) else np.nan,
        "metric": metric.name,
    }


def _median_quotient(results: pd.DataFrame) -> float:
    """Return the median GQ: a value that was not finite (its entry says why) reads as +∞, NaN where none was taken."""
    if GQ not in results or results[f"{GQ}.saturated"].isna().any() or not len(results):
        return float("nan")
    return float(np.median(results[GQ].astype(float).fillna(np.inf)))


def _recipe(members: Sequence[TrialRecord]) -> str:
    """Return the fields of the recipe that are set on this workload."""
    values: dict[str, list[Any]] = defaultdict(list)
    for recipe in distinct(record.spec["recipe"] for record in members):
        for key, value in effective(recipe).items():
            if value not in values[key]:
                values[key].append(value)
    return fields_text({key: sorted(found, key=json.dumps) for key, found in values.items()})
