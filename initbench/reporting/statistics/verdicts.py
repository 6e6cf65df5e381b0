"""What the statistics say, one sentence for each question: a number with its interval and n, or what is lacking.

The sentence says "not enough evidence" where the interval holds the value of no effect or the test does not reject, and
then what would be enough. That is never evidence of no difference.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.formatting import percent
from initbench.reporting.statistics.power import correlation_initializers, seeds_needed
from initbench.reporting.statistics.ranks import ALPHA

if TYPE_CHECKING:
    from initbench.reporting.statistics.divergence import DivergencePrediction
    from initbench.reporting.statistics.gain import Gain
    from initbench.reporting.statistics.intervals import Estimate
    from initbench.reporting.statistics.paired import PairedComparison
    from initbench.reporting.statistics.permutation import PermutationTest
    from initbench.reporting.statistics.ranks import RankComparison
    from initbench.reporting.statistics.selection import Selection
    from initbench.reporting.statistics.variance import VarianceSplit

NOT_ENOUGH = "Not enough evidence"
FIVE = ", which takes 5 initializers that run on the same workloads"


def difference_verdict(initializer: str, reference: str, comparison: PairedComparison) -> str:
    """Return whether an initializer has a lower test error than a reference over the workloads.

    What would be enough is the number of workloads that find a difference of the size seen with a chance of 80 %.
    """
    both, found = f"{initializer} and {reference}", comparison.difference
    workloads, diverged = len(comparison.by_workload), int(comparison.by_workload["diverged"].sum())
    if workloads == 0:
        return f"{NOT_ENOUGH} about {both}: there is no workload and seed where both have a result."
    if math.isnan(found.value):
        chance = comparison.probability_of_improvement
        return (
            f"{_trials(diverged)} of {both} diverged, so that there is no mean difference; a run of {initializer} has "
            f"the lower error with probability {chance.value:.2f}{_interval(chance, '{:.2f}')} ({_n(workloads)})."
        )
    sign = "less" if found.value < 0 else "more"
    size = f"{initializer} has {points(abs(found.value))} {sign} test error than {reference}"
    if not found.has_interval:
        [*_, row] = comparison.by_workload.to_dict("records")
        if workloads == 1 and not math.isnan(row["low"]):
            low, high = sorted([abs(row["low"]), abs(row["high"])]) if row["low"] * row["high"] > 0 else (0.0, 0.0)
            if high:
                interval = f"95 % interval {points(low, unit=False)} to {points(high)}"
                return f"{size} ({interval}, n = {row['seeds']} seeds of one workload)."
            ends = f"95 % interval {points(row['low'], unit=False)} to {points(row['high'])}"
            return (
                f"{NOT_ENOUGH} that {both} differ: {points(row['difference'])} of test error "
                f"({ends}, n = {row['seeds']} seeds of one workload); more seeds or workloads would tell."
            )
        return f"{NOT_ENOUGH} that {both} differ: {_n(workloads)}; an interval takes 3."
    if found.low > 0 or found.high < 0:
        low, high = sorted([abs(found.low), abs(found.high)])
        return f"{size} (95 % interval {points(low, unit=False)} to {points(high)}, {_n(found.n)})."
    # Student's interval is the mean and a multiple of the standard deviation over workloads: that is recovered here.
    spread = float(comparison.by_workload["difference"].std())
    needed = seeds_needed(found.value, spread) if found.value else None
    enough = (
        f"a difference of this size takes about {needed} workloads" if needed else "no number of workloads would do"
    )
    interval = f"95 % interval {points(found.low, unit=False)} to {points(found.high)}"
    return (
        f"{NOT_ENOUGH} that {both} differ: {points(found.value)} of test error ({interval}, {_n(found.n)}); {enough}."
    )


def rank_verdict(ranks: RankComparison) -> str:
    """Return which initializer ranks best over the workloads, and which others are behind it by more than chance."""
    k = len(ranks.mean_ranks)
    if math.isnan(ranks.pvalue):
        return f"{NOT_ENOUGH} to rank the initializers over workloads: {ranks.reason}."
    best = str(ranks.mean_ranks.index[0])
    means = f"mean rank {ranks.mean_ranks.iloc[0]:.2f} of {k}, {_n(ranks.workloads)}"
    if ranks.pvalue >= ALPHA:
        test = f"Friedman's χ² = {ranks.statistic:.1f} with {k - 1} degrees of freedom, p = {ranks.pvalue:.2g}"
        first = f"{best} is first ({means}; {test})"
        return f"{NOT_ENOUGH} that the initializers differ in rank: {first}; more workloads would tell."
    behind = ranks.pairs[(ranks.pairs["first"] == best) & (ranks.pairs["pvalue"] < ALPHA)]
    if len(behind) == 0:
        return f"{best} is first ({means}); that some initializers differ is sure, but not from which it does."
    names = ", ".join(
        f"{row['second']} (by {row['difference']:.2f}, p = {row['pvalue']:.2g})" for row in behind.to_dict("records")
    )
    return f"{best} is first ({means}), ahead of {names} by more than chance (Holm over {len(ranks.pairs)} pairs)."


def divergence_rate_verdict(initializer: str, rate: Estimate) -> str:
    """Return how often an initializer diverges.

    Args:
        initializer: its label.
        rate: as from `intervals.wilson_estimate`.
    """
    if rate.n == 0:
        return f"{NOT_ENOUGH} how often {initializer} diverges: no trial has a result."
    count = round(rate.value * rate.n)
    interval = f"95 % interval {percent(rate.low)} to {percent(rate.high)}"
    return f"{initializer}: {count} of {_trials(rate.n)} diverged, {percent(rate.value)} ({interval})."


def variance_verdict(split: VarianceSplit) -> str:
    """Return what the outcome depends on most."""
    if split.reason:
        return f"{NOT_ENOUGH} to say what the outcome depends on: {split.reason}."
    shares = {
        "the initializer": split.initializer,
        "the workload": split.workload,
        "which initializer meets which workload": split.interaction,
        "the seed": split.seed,
    }
    parts = ", ".join(f"{100 * share:.0f} % to {name}" for name, share in sorted(shares.items(), key=lambda s: -s[1]))
    a, i, s = split.shape
    size = f"n = {a} workloads, {i} initializers, {s} seeds; moments, without interval"
    return f"Of the variance of the {split.unit}, {parts} ({size})."


def prediction_verdict(probe: str, test: PermutationTest, rho: Estimate, pvalue: float | None = None) -> str:
    """Return whether a probe orders the initializers of a workload as their outcomes do.

    Args:
        probe: its name, to begin a sentence with.
        test: as from `permutation.permutation_test`.
        rho: as from `pooled.crossed`.
        pvalue: the test's after a correction for several probes; its own by default.
    """
    claim = f"that {probe} predicts the test error"
    if math.isnan(test.statistic):
        return f"{NOT_ENOUGH} {claim}: {test.reason}."
    size = f"mean ρ = {test.statistic:+.2f}{_interval(rho, '{:+.2f}')}"
    n = f"n = {test.initializers} initializers on {_workloads(test.workloads)}"
    if math.isnan(test.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}, {n}; {test.reason}{FIVE}."
    p = test.pvalue if pvalue is None else pvalue
    evidence = f"{size}, {n}, permutation p = {p:.2g}{'' if pvalue is None else ' after correction'}"
    # The interval may hold 0 where the test rejects: both are to agree before anything is claimed.
    if p < ALPHA and not (rho.has_interval and rho.low <= 0 <= rho.high):
        return f"A higher {probe} goes with a {'higher' if test.statistic > 0 else 'lower'} test error: {evidence}."
    needed = correlation_initializers(test.statistic)
    enough = f"a ρ of this size takes about {needed} initializers" if needed else "no number of initializers would do"
    return f"{NOT_ENOUGH} {claim}: {evidence}; {enough}."


def regret_verdict(probe: str, chosen: Selection) -> str:
    """Return what it costs to pick the one initializer with the best value of a probe."""
    regret, random = chosen.regret, chosen.regret_at_random
    if regret.n == 0:
        return f"{NOT_ENOUGH} on what picking by {probe} costs: no workload leaves a choice."
    against = "some that diverged" if math.isinf(random.value) else points(random.value)
    if math.isinf(regret.value):
        bad = int((chosen.by_workload["regret"] == math.inf).sum())
        return f"Picking by {probe} takes an initializer that diverged on {bad} of {_workloads(regret.n)}."
    lacking = "" if regret.has_interval else "; an interval takes 3 workloads"
    ends = f", 95 % interval {points(regret.low, unit=False)} to {points(regret.high)}" if regret.has_interval else ""
    return (
        f"Picking by {probe} costs {points(regret.value)} of test error against the best "
        f"({_n(regret.n)}{ends}{lacking}); picking at random costs {against}."
    )


def gain_verdict(probe: str, gain: Gain) -> str:
    """Return whether a probe adds anything to trivial predictors on workloads that were left out."""
    beyond = ", ".join(gain.predictors) or "the mean"
    claim = f"that {probe} adds anything to {beyond}"
    if math.isnan(gain.without):
        return f"{NOT_ENOUGH} {claim}: {gain.reason}."
    size = (
        f"on a workload that was left out the predicted rank is off by {percent(gain.without)} of all ranks without it "
        f"and {percent(gain.with_probe)} with it (gain {points(gain.gain.value)}"
        f"{_interval(gain.gain, '{:.2f}', 100)}, {_n(gain.gain.n)}"
    )
    if math.isnan(gain.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}); {gain.reason}{FIVE}."
    size += f", permutation p = {gain.pvalue:.2g})"
    if gain.pvalue < ALPHA and gain.gain.value > 0:
        return f"{probe} adds to {beyond}: {size}."
    return f"{NOT_ENOUGH} {claim}: {size}; more initializers and workloads would tell."


def divergence_verdict(probe: str, prediction: DivergencePrediction) -> str:
    """Return whether a high value of a probe foretells divergence."""
    area, claim = prediction.auroc, f"that {probe} foretells divergence"
    if math.isnan(area.value):
        return f"{NOT_ENOUGH} {claim}: {prediction.reason}."
    size = f"AUROC {area.value:.2f}{_interval(area, '{:.2f}')}, n = {area.n} initializers, {prediction.pairs} pairs"
    if math.isnan(prediction.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}; {prediction.reason}."
    size += f", permutation p = {prediction.pvalue:.2g}"
    if prediction.pvalue < ALPHA:
        return f"A {'high' if area.value > 0.5 else 'low'} {probe} foretells divergence: {size}."
    return f"{NOT_ENOUGH} {claim}: {size}; more initializers would tell."


def agreement_verdict(probe: str, agreement: Estimate) -> str:
    """Return how much of a probe's order is the seed's.

    Args:
        probe: its name, to begin a sentence with.
        agreement: as from `agreement.mean_seed_agreement`.
    """
    if math.isnan(agreement.value):
        return f"{NOT_ENOUGH} whether {probe} agrees with itself: it takes 2 seeds and 3 initializers."
    return (
        f"Between two seeds {probe} orders the initializers with a mean ρ of {agreement.value:+.2f}"
        f"{_interval(agreement, '{:+.2f}')} ({_n(agreement.n)})."
    )


def points(fraction: float, *, unit: bool = True) -> str:
    """Return a difference of two fractions in percentage points: ``1.30 points``, or ``1.30`` alone."""
    return f"{100 * fraction:.2f}{' points' if unit else ''}"


def _interval(estimate: Estimate, form: str, scale: float = 1.0) -> str:
    if not estimate.has_interval:
        return " without interval"
    return f" (95 % interval {form.format(scale * estimate.low)} to {form.format(scale * estimate.high)})"


def _n(workloads: int) -> str:
    return f"n = {_workloads(workloads)}"


def _workloads(count: int) -> str:
    return f"{count} workload{'s' if count != 1 else ''}"


def _trials(count: int) -> str:
    return f"{count} trial{'s' if count != 1 else ''}"
