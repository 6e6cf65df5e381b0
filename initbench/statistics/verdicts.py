"""Which treatments differ on a workload, of every pair; who is best there, and who trains."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from initbench.statistics.cells import all_learn, complete, none_learns, table
from initbench.statistics.decisions import ALPHA, holm_comparisons
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import by_seed, compare_columns
from initbench.statistics.seed_variance import (
    SeedVariance,
    SuiteVariances,
    half_width,
    pair_moments,
    pvalue,
    scores,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_SMALLEST = 2  # least number of workloads to compare over


class Verdict(NamedTuple):
    """The result of comparing two treatments.

    Attributes:
        workload: label; empty if over all workloads.
        first: label.
        second: label.
        side: -1 if the first is significantly better, 1 if the second is, 0 if neither.
        difference: first - second of oriented outcomes, with the interval that decides, which has the level of its step
            of Holm's procedure. No interval if the seeds of a treatment do not agree on whether they learn.
        is_of_training: whether one of the two learns at every seed and the other at none.
        comparisons: the number of its step.
    """

    workload: str
    first: str
    second: str
    side: int
    difference: Estimate
    is_of_training: bool = False
    comparisons: int = 1


class _Pairs(NamedTuple):
    """The pairs of treatments on a workload: the moments of the differences of their scores, and how these are judged.

    Attributes:
        workload: label.
        names: labels of the treatments.
        pairs: their positions.
        moments: mean, variance and number of the differences, each (pairs,).
        variances: for training and for outcomes.
        is_outcome: (pairs,), whether the second of `variances` is theirs.
        learns: (treatments,), 1 at all seeds, -1 at none, 0 in between.
        pvalues: (pairs,).
    """

    workload: str
    names: list[str]
    pairs: list[tuple[int, int]]
    moments: tuple[Any, Any, Any]
    variances: tuple[SeedVariance, SeedVariance]
    is_outcome: Any
    learns: list[int]
    pvalues: Any


def workload_verdicts(
    cells: pd.DataFrame,
    trials: pd.DataFrame,
    variances: SuiteVariances,
    family: Literal["workload", "suite"] = "workload",
    claims: int = 1,
) -> Iterator[Verdict]:
    """Yield the verdict on each pair of treatments on each workload, by `seed_variance.pvalue` and Holm's procedure.

    Scores are compared (`seed_variance.scores`). If both treatments learn at every seed, the verdict is of how well; if
    one does and the other does at none, it is of training. If the seeds of one disagree, there is none: their counts
    say more than a mean of two camps.

    Args:
        cells: of the trials.
        trials: of a suite.
        variances: of the same trials, as from `suite_variances`.
        family: whether any false verdict has a probability of at most 5 % / claims on a workload, or over the suite.
        claims: number of such families that share the 5 %.
    """
    judged = cells[cells["outcome"].notna()]
    groups = [_pairs(str(name), rows, trials, variances) for name, rows in judged.groupby("workload", sort=False)]
    if family == "suite" and groups:
        together = holm_comparisons(np.concatenate([group.pvalues for group in groups]), claims)
        numbers = np.split(together, np.cumsum([len(group.pairs) for group in groups])[:-1])
    else:
        numbers = [holm_comparisons(group.pvalues, claims) for group in groups]
    for group, comparisons in zip(groups, numbers, strict=True):
        yield from _verdicts(group, comparisons)


def _pairs(workload: str, cells: pd.DataFrame, trials: pd.DataFrame, variances: SuiteVariances) -> _Pairs:
    names = [str(name) for name in cells["treatment"]]
    wide = scores(trials[trials["workload"] == workload]).reindex(columns=names).to_numpy(dtype=float).T
    learns = all_learn(cells).astype(int) - none_learns(cells).astype(int)
    pairs = list(combinations(range(len(names)), 2))
    first, second = np.array(pairs, dtype=int).reshape(-1, 2).T
    moments = pair_moments(wide)
    training = variances.training[workload]
    of = training, variances.outcome.get(workload, training)
    is_alike = np.array([(workload, name) in variances.alike for name in names], dtype=bool)
    is_outcome = is_alike[first] & is_alike[second]
    by_training, by_outcome = (pvalue(*moments, variance) for variance in of)
    is_judged = (learns[first] != 0) & (learns[second] != 0)
    pvalues = np.where(is_judged, np.where(is_outcome, by_outcome, by_training), 1.0)
    return _Pairs(workload, names, pairs, moments, of, is_outcome, learns.tolist(), pvalues)


def _verdicts(group: _Pairs, comparisons: Any) -> Iterator[Verdict]:
    means, squares, seeds = group.moments
    by_training, by_outcome = (half_width(squares, seeds, variance, comparisons) for variance in group.variances)
    half = np.where(group.is_outcome, by_outcome, by_training)
    values = zip(group.pairs, means.tolist(), half.tolist(), seeds.tolist(), comparisons.tolist(), strict=True)
    for (i, j), mean, width, n, number in values:
        learns = group.learns[i], group.learns[j]
        low, high = (math.nan, math.nan) if 0 in learns else (mean - width, mean + width)
        difference = Estimate(mean if n else math.nan, low, high, n)
        is_of_training = learns[0] * learns[1] < 0
        names = group.names[i], group.names[j]
        yield Verdict(group.workload, *names, difference.side(), difference, is_of_training, number)


class WorkloadOrder(NamedTuple):
    """The treatments of one workload.

    Attributes:
        outcomes: by treatment, the oriented medians over seeds of those that learn at all seeds, the best first.
        untrained: likewise, of those that learn at none and do not diverge.
        partly: by treatment, at how many of its seeds one learns whose seeds disagree.
        diverged: by treatment, the number of seeds at which it diverged and the number of its seeds; without treatments
            that never did.
        saturated: treatments whose gradient quotient is saturated.
        verdicts: the verdict of the best against each other treatment, the best being the first of the pair.
        compared: treatments with an outcome, including diverged ones.
        seeds: trials that finished or diverged, including those without training.
    """

    outcomes: pd.Series[float]
    untrained: pd.Series[float]
    partly: dict[str, tuple[int, int]]
    diverged: dict[str, tuple[int, int]]
    saturated: list[str]
    verdicts: dict[str, Verdict]
    compared: int
    seeds: int

    @property
    def best(self) -> str:
        """The treatment with the best median in `outcomes`; the first by name if several share it."""
        return str(self.outcomes.index[0])

    @property
    def differences(self) -> dict[str, Estimate]:
        """The best minus each other treatment in `outcomes`."""
        return {str(name): self.verdicts[str(name)].difference for name in self.outcomes.index[1:]}

    @property
    def behind(self) -> list[str]:
        """The treatments in `outcomes` that are significantly worse than the best, the nearest first."""
        return [name for name in self.differences if self.verdicts[name].side < 0]

    @property
    def leading(self) -> list[str]:
        """The best, and the treatments that are not significantly worse."""
        return [self.best, *(name for name in self.differences if name not in self.behind)]


def workload_order(cells: pd.DataFrame, verdicts: Iterable[Verdict], saturated: Collection[str] = ()) -> WorkloadOrder:
    """Return the order of the treatments of one workload.

    Args:
        cells: of the workload.
        verdicts: on its pairs, as from `workload_verdicts`.
        saturated: treatments whose gradient quotient is saturated.
    """
    flags = {"learns": all_learn(cells), "never": none_learns(cells)}
    ordered = cells.assign(**flags).sort_values("ranked", kind="stable").set_index("treatment")
    outcomes = ordered.loc[ordered["learns"], "outcome"]
    partly = ordered[~ordered["learns"] & ~ordered["never"] & ordered["trained"].notna()]
    best = str(outcomes.index[0]) if len(outcomes) else ""
    return WorkloadOrder(
        outcomes,
        ordered.loc[ordered["never"] & (ordered["state"] == "untrained"), "outcome"],
        {str(name): (int(row.trained), int(row.seeds)) for name, row in partly.iterrows()},
        {str(name): (int(row.diverged), int(row.seeds)) for name, row in ordered.iterrows() if row.diverged > 0},
        [str(name) for name in ordered.index if name in saturated],
        {verdict.second: verdict for verdict in verdicts_of(best, verdicts)},
        int(ordered["outcome"].notna().sum()),
        int(ordered["seeds"].sum()),
    )


def verdicts_of(treatment: str, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts on a treatment, which becomes the first of each pair."""
    for verdict in verdicts:
        if verdict.first == treatment:
            yield verdict
        elif verdict.second == treatment:
            value, low, high, n = verdict.difference
            reversed_difference = Estimate(0.0 - value, 0.0 - high, 0.0 - low, n)  # never -0
            yield verdict._replace(
                first=treatment, second=verdict.first, side=-verdict.side, difference=reversed_difference
            )


def learning_differences(trials: pd.DataFrame) -> set[frozenset[str]]:
    """Return the pairs of treatments that learn at significantly different numbers of seeds, over all workloads.

    If two treatments were alike, each would be the one that learns at half of the workloads and seeds where only one of
    them does: an exact sign test (McNemar, Psychometrika 12 (1947) 153), at 5 % over the number of pairs of treatments.
    If chance is unknown, a trial learns unless it diverges. A trial that belongs to two workloads, because its
    initializer brings the scheme of one of them, counts once, on the first.

    Args:
        trials: of a suite.
    """
    results = trials[trials["oriented"].notna()].drop_duplicates(["treatment", "trial_id"])
    flags, outcomes = (results[column].to_numpy(dtype=float) for column in ("is_trained", "oriented"))
    learns = np.where(np.isnan(flags), np.isfinite(outcomes), flags)
    known = results[["workload", "seed", "treatment"]].assign(learns=learns)
    wide = known.pivot(index=["workload", "seed"], columns="treatment", values="learns")  # noqa: PD010  # it refuses duplicates
    x, names = wide.to_numpy(dtype=float), [str(name) for name in wide.columns]
    ahead = (x == 1).T.astype(float) @ (x == 0)  # [i, j]: the seeds at which i learns and j does not
    pvalues = 2 * stats.binom.cdf(np.minimum(ahead, ahead.T), ahead + ahead.T, 0.5)
    first, second = np.nonzero(pvalues < ALPHA / max(1, math.comb(len(names), 2)))
    return {frozenset({names[i], names[j]}) for i, j in zip(first, second, strict=True)}


def verdicts_over_workloads(cells: pd.DataFrame, trials: pd.DataFrame) -> Iterator[Verdict]:
    """Yield the verdict on each pair of treatments over the workloads on which all ran (`PairedComparison.side`)."""
    whole = complete(table(cells, "ranked")).table
    if len(whole) < _SMALLEST:
        return
    names = [str(name) for name in whole.columns]
    wide = by_seed(trials[trials["workload"].isin(whole.index)], names)
    for first, second in combinations(names, 2):
        paired = compare_columns(wide, first, second, comparisons=len(names) * (len(names) - 1) // 2)
        difference = paired.judged if paired.has_mean else Estimate(math.nan, math.nan, math.nan, paired.workloads)
        yield Verdict("", first, second, paired.side, difference, comparisons=paired.comparisons)


def verdicts_side_by_side(verdicts: Mapping[str, Iterable[Verdict]]) -> pd.DataFrame:
    """Return one row per pair of treatments on a workload, with the verdict under each protocol.

    Args:
        verdicts: by protocol.

    Returns:
        ``workload``, ``all`` if over all workloads; ``first``, ``second``; and for each protocol ``<protocol>_better``:
            the label of the significantly better one, empty if neither is; ``_difference, _low, _high``:
            first - second; ``_of_training``. Missing if a protocol has no verdict on the pair.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    names = ["workload", "first", "second"]
    for protocol, of_protocol in verdicts.items():
        ends = ("better", "difference", "low", "high", "of_training")
        columns = [f"{protocol}_{end}" for end in ends]
        names += columns
        for one in of_protocol:
            row = rows.setdefault(
                one[:3], {"workload": one.workload or "all", "first": one.first, "second": one.second}
            )
            better = {-1: one.first, 1: one.second, 0: ""}[one.side]
            row |= dict(zip(columns, (better, *one.difference[:3], one.is_of_training), strict=True))
    return pd.DataFrame(list(rows.values()), columns=names)
