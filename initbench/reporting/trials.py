"""The trials that are compared, each with its treatment and its workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from initbench.comparing.chance import JUDGED, is_trained
from initbench.comparing.labels import Labels
from initbench.comparing.metrics import EARLY, UNKNOWN
from initbench.metric import Metric
from initbench.reporting.frame import Frames

MAIN_FIRST = ("own", "shared", "recipe")
"""The protocols of tuned trials; a report compares under the first one that it has."""


def main_protocol(frame: pd.DataFrame) -> str:
    """Return the protocol of a report's comparison; empty if no suite tunes."""
    return next((name for name in MAIN_FIRST if name in protocols_of(frame)), "")


def protocols_of(frame: pd.DataFrame) -> list[str]:
    """Return the protocols of the final trials, in the order ``recipe``, ``shared``, ``own``."""
    if "protocols" not in frame:
        return []
    texts = frame.loc[frame["phase"] == "final", "protocols"].dropna().unique()
    names = {name for text in texts for name in text.split()}
    return [name for name in reversed(MAIN_FIRST) if name in names]


def comparable_trials(frames: Frames, metrics: Mapping[str, Metric], protocol: str = "") -> pd.DataFrame:
    """Return the trials that are compared, one for each cell and seed.

    Search trials are left out. If a suite tunes, so are its final trials under other protocols, and those of runs
    before it tuned. If a trial was run twice with different probes, one of them is kept.

    If several cells of a workload have the same label, as when a rule was edited between two runs, their labels get
    the difference in braces, so that they are never pooled: ``kaiming {clip_norm=0.5}``. If the trials of a workload
    have several metrics (datasets of several tasks are compared), the metric becomes a part of the workload, so that
    values of different metrics are never ranked together.

    New columns: ``oriented`` is the outcome with lower values better (`Metric.oriented`), +∞ if the trial diverged and
    missing if it has no result; ``oriented_chance`` and ``oriented_best`` are the chance level and the best possible
    value; ``is_trained`` is 1 if the outcome is better than chance (`chance.is_trained`), 0 if not, missing if unknown.

    Args:
        frames: of all trials.
        metrics: as from `metrics.outcome_metrics`.
        protocol: of suites that tune; by default `main_protocol`.
    """
    frame = frames.standings
    trials = frame[frame["phase"] == "final"]
    if "protocols" in frame:
        chosen = protocol or main_protocol(frame)
        tuning = {*frame.loc[frame["protocols"].notna(), "suite"]}
        is_chosen = [
            chosen in text.split() if isinstance(text, str) else suite not in tuning
            for suite, text in zip(trials["suite"], trials["protocols"], strict=True)
        ]
        trials = trials[np.array(is_chosen, dtype=bool)]
    return _judged(_replicates(trials, ["cell", "seed", "workload"]), metrics, frames.labels)


def searched_trials(frames: Frames, metrics: Mapping[str, Metric], tuned: Sequence[str]) -> pd.DataFrame:
    """Return the search trials of suites that tune certain factors, with the columns of `comparable_trials`."""
    frame = frames.standings
    same = ["cell", "seed", "workload", *(factor for factor in tuned if factor in frame)]
    # Trials of an earlier search, over another range, have no protocols, not even empty ones.
    is_made = frame["protocols"].notna() if "protocols" in frame else False
    return _judged(_replicates(frame[(frame["phase"] == "search") & is_made], same), metrics, frames.labels)


def _replicates(trials: pd.DataFrame, same: list[str]) -> pd.DataFrame:
    """Of trials that are equal in some columns, keep the one with the fewest missing values."""
    if trials.duplicated(same).any():
        known = trials.notna().sum(axis="columns").sort_values(kind="stable").index
        trials = trials.loc[known].drop_duplicates(same, keep="last").sort_index()
    return trials.copy()


def _judged(trials: pd.DataFrame, metrics: Mapping[str, Metric], labels: Labels) -> pd.DataFrame:
    """Add the columns of `comparable_trials`, and make labels unique to their cells."""
    trials["workload"] = _by_metric(trials, metrics, labels)
    cell = ["workload", "treatment"]
    of_several_cells = trials.groupby(cell, sort=False)["cell"].transform("nunique") > 1
    for (_, treatment), same in trials[of_several_cells].groupby(cell, sort=False):
        keys = [labels.treatments[str(treatment)] | factors for factors in _differences(same)]
        trials.loc[same.index, "treatment"] = [labels.treatment(key) for key in keys]
        trials.loc[same.index, "part"] = [labels.part(key)[0] for key in keys]
    signs = trials["metric"].map({name: metric.oriented(1.0) for name, metric in metrics.items()}).astype(float)
    bests = {name: metric.oriented(metric.best) for name, metric in metrics.items() if metric.best is not None}
    trials["oriented"] = (signs * trials["outcome"]).where(trials["status"] != "diverged", np.inf)
    trials["oriented_chance"] = signs * trials["chance"]
    trials["oriented_best"] = trials["metric"].map(bests).astype(float)
    return trials.assign(is_trained=is_trained(*(trials[column] for column in JUDGED)))


def _by_metric(trials: pd.DataFrame, metrics: Mapping[str, Metric], labels: Labels) -> list[str]:
    """Return each trial's workload; if it has several metrics, with the metric's title (name, if titles are equal)."""
    several = trials.groupby("workload")["metric"].transform("nunique") > 1
    # A failed trial has no metric; it gets that of its treatment's other trials.
    names = trials["metric"].fillna(trials.groupby(["workload", "treatment"])["metric"].transform("first"))
    shared = Counter(metric.title for metric in metrics.values())
    words = {name: metric.title if shared[metric.title] == 1 else name for name, metric in metrics.items()}
    return [
        labels.workload(labels.workloads[workload] | {"metric": words[metric]}) if is_one_of_several else workload
        for workload, metric, is_one_of_several in zip(trials["workload"], names, several & names.notna(), strict=True)
    ]


def workload_metrics(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metric of each workload; if all its trials failed, that of the others if they have only one."""
    names = trials["metric"].dropna()
    other = metrics[names.iloc[0]] if len(set(names)) == 1 else UNKNOWN
    known = trials.loc[names.index].drop_duplicates("workload").set_index("workload")["metric"]
    return {name: metrics[known[name]] if name in known else other for name in trials["workload"].unique()}


def early_columns(trials: pd.DataFrame) -> list[str]:
    """Return the names of the columns with metrics after the first epoch."""
    return [column for column in trials.columns if column.startswith(EARLY)]


def _differences(trials: pd.DataFrame) -> list[dict[str, str]]:
    """Return for each trial the arguments that differ between cells, and the cell's hash if they are not enough."""
    names = [c for c in trials.columns if c.startswith(("architecture.", "initializer.", "recipe."))]
    varied = [c for c in names if len(set(trials[c].astype(str))) > 1]
    texts = [tuple(values) for values in trials[varied].astype(str).to_numpy().tolist()]
    factors = [{f"cell.{name}": value for name, value in zip(varied, values, strict=True)} for values in texts]
    # Another version of a component is another cell with equal arguments.
    if len(set(zip(texts, trials["cell"], strict=True))) > len(set(texts)):
        return [arguments | {"cell": cell[:6]} for arguments, cell in zip(factors, trials["cell"], strict=True)]
    return factors
