"""The trials that are compared: each under the label of its treatment, within its workload."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from initbench.comparing.chance import JUDGED, is_trained
from initbench.comparing.metrics import EARLY, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from initbench.comparing.labels import Labels
    from initbench.metric import Metric
    from initbench.reporting.frame import Frames

MAIN_FIRST = ("own", "shared", "recipe")
"""The protocols of tuned trials: of those that a report has, the first is that of its comparison."""


def main_protocol(frame: pd.DataFrame) -> str:
    """Return the protocol under which the trials of a report are compared; empty where no suite tunes anything.

    Args:
        frame: as for `comparable_trials`.
    """
    return next((name for name in MAIN_FIRST if name in protocols_of(frame)), "")


def protocols_of(frame: pd.DataFrame) -> list[str]:
    """Return the protocols under which final trials stand: ``recipe``, ``shared``, ``own``, those that there are."""
    if "protocols" not in frame:
        return []
    own = frame.loc[frame["phase"] == "final", "protocols"].dropna()
    found = {name for text in own.unique() for name in text.split()}
    return [name for name in reversed(MAIN_FIRST) if name in found]


def comparable_trials(frames: Frames, metrics: Mapping[str, Metric], protocol: str = "") -> pd.DataFrame:
    """Return the trials that are compared, each under a treatment's label that names one cell of its workload.

    Search trials are left out, and of a suite that tunes so are final trials at the values of other protocols, and of
    none, as of a run before it tuned: there is one for each cell and seed. A trial that was run twice with other probes
    has the same outcome and is counted once.
    Where several cells of a workload have the same label (a rule was edited between two runs), what tells them apart is
    added in braces, so that trials that are no replicates are never pooled: ``kaiming {clip_norm=0.5}``.

    Where the trials of a workload have several metrics (datasets of several tasks are compared), the metric is a part
    of the workload: values of one are never ranked among those of another.

    Columns are added. ``oriented``, which the statistics take, is the outcome as `Metric.oriented` turns it, so that
    lower is better; +∞ for a diverged trial, and missing for one without a result; ``oriented_chance``
    and ``oriented_best`` are the chance level and the best value that there can be, likewise. ``is_trained`` says
    whether the outcome is better than chance (`trained.is_trained`): 1, 0, or missing where that is not known.

    Args:
        frames: as from `frame.results_frames`.
        metrics: as from `metrics.outcome_metrics`.
        protocol: of the final trials of suites that tune; by default `main_protocol`.
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
    """Return the search trials of suites that tune, with the columns that `comparable_trials` adds.

    Args:
        frames: as for `comparable_trials`.
        metrics: likewise.
        tuned: the factors that are tuned; columns of the frame, but for those that no initializer in it has.
    """
    frame = frames.standings
    same = ["cell", "seed", "workload", *(factor for factor in tuned if factor in frame)]
    # A search that the suite makes no more, over another range, has no protocols, not even empty ones.
    is_made = frame["protocols"].notna() if "protocols" in frame else False
    return _judged(_replicates(frame[(frame["phase"] == "search") & is_made], same), metrics, frames.labels)


def _replicates(trials: pd.DataFrame, same: list[str]) -> pd.DataFrame:
    """Return one of the trials that are equal in some columns, that of which most is known."""
    if trials.duplicated(same).any():
        known = trials.notna().sum(axis="columns").sort_values(kind="stable").index
        trials = trials.loc[known].drop_duplicates(same, keep="last").sort_index()
    return trials.copy()


def _judged(trials: pd.DataFrame, metrics: Mapping[str, Metric], labels: Labels) -> pd.DataFrame:
    """Return trials with the columns that `comparable_trials` adds, their labels made to tell their cells apart."""
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
    """Return each trial's workload, with the metric's title (its name where titles are equal) where it has several."""
    several = trials.groupby("workload")["metric"].transform("nunique") > 1
    # A failed trial has no metric; those of its treatment tell which it would have had.
    own = trials["metric"].fillna(trials.groupby(["workload", "treatment"])["metric"].transform("first"))
    shared = Counter(metric.title for metric in metrics.values())
    words = {name: metric.title if shared[metric.title] == 1 else name for name, metric in metrics.items()}
    return [
        labels.workload(labels.workloads[workload] | {"metric": words[metric]}) if is_one_of_several else workload
        for workload, metric, is_one_of_several in zip(trials["workload"], own, several & own.notna(), strict=True)
    ]


def workload_metrics(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metric of each workload; where all its trials have failed, that of the others if it is one.

    Args:
        trials: as from `comparable_trials`.
        metrics: as from `metrics.outcome_metrics`.
    """
    names = trials["metric"].dropna()
    other = metrics[names.iloc[0]] if len(set(names)) == 1 else UNKNOWN
    known = trials.loc[names.index].drop_duplicates("workload").set_index("workload")["metric"]
    return {name: metrics[known[name]] if name in known else other for name in trials["workload"].unique()}


def early_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of the metrics after the first epoch."""
    return [column for column in trials.columns if column.startswith(EARLY)]


def _differences(trials: pd.DataFrame) -> list[dict[str, str]]:
    """Return for each trial the arguments that tell its cell from the others, with its hash if they do not.

    They are the factors below ``cell``, which is the hash.
    """
    arguments = [c for c in trials.columns if c.startswith(("architecture.", "initializer.", "recipe."))]
    varied = [c for c in arguments if len(set(trials[c].astype(str))) > 1]
    factors = [
        {f"cell.{column}": value for column, value in zip(varied, values, strict=True)}
        for values in trials[varied].astype(str).to_numpy().tolist()
    ]
    # Arguments that do not tell all cells apart (another version of a component) need the hash as well.
    texts = [tuple(own.values()) for own in factors]
    if len(set(zip(texts, trials["cell"], strict=True))) > len(set(texts)):
        return [own | {"cell": cell[:6]} for own, cell in zip(factors, trials["cell"], strict=True)]
    return factors
