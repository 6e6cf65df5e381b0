"""What the statistics say, one sentence for each question: a number with its interval and n, or what is lacking.

The sentence says "not enough evidence" where the interval holds the value of no effect or the test does not reject, and
then what would be enough. That is never evidence of no difference.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.comparison import MINIMUM_SEEDS
from initbench.reporting.formatting import percent
from initbench.reporting.statistics.intervals import Estimate, values_deviation
from initbench.reporting.statistics.power import (
    MAXIMUM_SEEDS,
    correlation_initializers,
    friedman_workloads,
    seeds_needed,
)
from initbench.reporting.statistics.ranks import ALPHA

if TYPE_CHECKING:
    from initbench.reporting.statistics.divergence import DivergencePrediction, DivergenceRate
    from initbench.reporting.statistics.gain import Gain
    from initbench.reporting.statistics.paired import PairedComparison
    from initbench.reporting.statistics.permutation import PermutationTest
    from initbench.reporting.statistics.ranks import RankComparison
    from initbench.reporting.statistics.selection import Selection
    from initbench.reporting.statistics.variance import VarianceSplit

NOT_ENOUGH = "Not enough evidence"
FIVE = "; that takes 5 initializers with values on the same workloads"


def difference_verdict(initializer: str, reference: str, comparison: PairedComparison) -> str:
    """Return whether an initializer has a lower test error than a reference over the workloads.

    What would be enough is the number of workloads that find a difference of the size seen with a chance of 80 %. With
    one workload alone it is the verdict over its seeds.
    """
    found, m = comparison.difference, comparison.comparisons
    workloads, diverged = len(comparison.by_workload), int(comparison.by_workload["diverged"].sum())
    if workloads == 0:
        return (
            f"{NOT_ENOUGH} about {initializer} and {reference}: there is no workload and seed where both have a result."
        )
    if math.isnan(found.value):
        chance = comparison.probability_of_improvement
        lower = f"a run of {initializer} has the lower error with probability {chance.value:.2f}"
        size = f"{_ends(chance, '{:.2f}', comparisons=m)}, {_n(workloads)}"
        pairs = int(comparison.by_workload["seeds"].sum())
        why = f"one or both diverged at {diverged} of {_count(pairs, 'seed')}, so that there is no mean difference"
        if chance.has_interval and not chance.low <= 0.5 <= chance.high:
            return f"Of {initializer} and {reference}, {lower} ({size}); {why}."
        return (
            f"{NOT_ENOUGH} that {initializer} and {reference} differ: {lower} ({size}), and {why}; "
            "more workloads would tell."
        )
    if workloads == 1:
        [row] = comparison.by_workload.to_dict("records")
        seeds = Estimate(row["difference"], row["low"], row["high"], row["seeds"])
        return _difference(initializer, reference, seeds, m, "seed", " of one workload")
    return _difference(initializer, reference, found, m, "workload")


def workload_verdict(first: str, second: str, estimate: Estimate, comparisons: int = 1) -> str:
    """Return whether an initializer has a lower test error than another on one workload.

    What would be enough is the number of seeds that find a difference of the size seen with a chance of 80 %. The
    spread between seeds that this takes is recovered from the interval, which is a known multiple of it.

    Args:
        first: label of the one.
        second: label of the other.
        estimate: of the difference first - second, as from `paired.paired_estimate`.
        comparisons: with which that was made.
    """
    if estimate.n == 0:
        return f"{NOT_ENOUGH} about {first} and {second}: there is no seed where both have a result."
    if math.isnan(estimate.value):
        n = _count(estimate.n, "seed")
        return f"A trial of {first} or {second} diverged, so that there is no mean difference (n = {n})."
    return _difference(first, second, estimate, comparisons, "seed")


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
        needed = friedman_workloads(ranks.statistic, k, ranks.workloads)
        enough = f"differences of this size take about {needed} workloads" if needed else "they rank alike"
        return f"{NOT_ENOUGH} that the initializers differ in rank: {first}; {enough}."
    behind = ranks.pairs[(ranks.pairs["first"] == best) & (ranks.pairs["pvalue"] < ALPHA)]
    if len(behind) == 0:
        return f"{best} is first ({means}); that some initializers differ is sure, but not from which it does."
    names = ", ".join(
        f"{row['second']} (by {row['difference']:.2f}, {row['low']:.2f} to {row['high']:.2f}, p = {row['pvalue']:.2g})"
        for row in behind.to_dict("records")
    )
    return (
        f"{best} is first ({means}), ahead of {names} by more than chance (difference of mean ranks with its 95 % "
        f"interval, simultaneous over all {len(ranks.pairs)} pairs; p by Holm)."
    )


def divergence_rate_verdict(initializer: str, rate: DivergenceRate) -> str:
    """Return on how many of its workloads an initializer diverges, and in how many trials."""
    on = rate.workloads
    if on.n == 0:
        return f"{NOT_ENOUGH} how often {initializer} diverges: no trial has a result."
    size = f"{percent(on.value)}, 95 % interval over workloads {percent(on.low)} to {percent(on.high)}"
    return (
        f"{initializer} diverged on {round(on.value * on.n)} of {_workloads(on.n)} at one seed or more ({size}), "
        f"in {rate.diverged} of {_trials(rate.trials)}."
    )


def variance_verdict(split: VarianceSplit) -> str:
    """Return what the outcome depends on most."""
    if split.reason:
        return f"{NOT_ENOUGH} to say what the outcome depends on: {split.reason}."
    shares = {
        "between initializers": split.initializer,
        "between workloads": split.workload,
        "in which initializer meets which workload": split.interaction,
        "between seeds": split.seed,
    }
    parts = ", ".join(f"{100 * share:.0f} % is {name}" for name, share in sorted(shares.items(), key=lambda s: -s[1]))
    a, i, s = split.shape
    size = f"n = {a} workloads, {i} initializers, {s} seeds; estimated by moments, without interval"
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
    # A correlation of so few that it has no interval would be taken for more than it is.
    size = f"mean ρ = {test.statistic:+.2f} ({_ends(rho, '{:+.2f}')}), " if rho.has_interval else ""
    # Where there are gaps, only initializers with the same ones are exchanged.
    gaps = " that can be exchanged," if test.initializers < rho.n else ""
    n = f"n = {_count(test.initializers, 'initializer')}{gaps} on {_workloads(test.workloads)}"
    if math.isnan(test.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}{n}; {test.reason}{FIVE}."
    p = test.pvalue if pvalue is None else pvalue
    evidence = f"{size}{n}, {_permutation(p, corrected=pvalue is not None)}"
    # The interval may hold 0 where the test rejects: both are to agree before anything is claimed.
    if p < ALPHA and not (rho.has_interval and rho.low <= 0 <= rho.high):
        return f"The higher {probe}, the {'higher' if test.statistic > 0 else 'lower'} the test error: {evidence}."
    needed = correlation_initializers(test.statistic)
    enough = f"a ρ of this size takes about {needed} initializers" if needed else "no number of initializers would do"
    return f"{NOT_ENOUGH} {claim}: {evidence}; {enough}."


def regret_verdict(probe: str, chosen: Selection) -> str:
    """Return what it costs to pick the one initializer with the best value of a probe."""
    regret, random = chosen.regret, chosen.regret_at_random
    by = f"by {probe}" + (", its direction learned on other architectures," if chosen.learned else "")
    if regret.n == 0:
        lacking = " and has others to tell the direction" if chosen.learned else ""
        return f"{NOT_ENOUGH} on what picking {by} costs: no workload leaves a choice{lacking}."
    if math.isinf(regret.value):
        bad = int((chosen.by_workload["regret"] == math.inf).sum())
        return f"Picking {by} takes an initializer that diverged on {bad} of {_workloads(regret.n)}."
    against = "takes one that diverged on some" if math.isinf(random.value) else f"costs {points(random.value)}"
    few = "an interval takes 3 workloads" if regret.n < MINIMUM_SEEDS else "the same each time, so no interval"
    ends = f"{_ends(regret, '{:.2f}', 100)} points" if regret.has_interval else few
    return (
        f"Picking {by} costs {points(regret.value)} of test error against the best ({ends}, {_n(regret.n)}); "
        f"picking at random {against}."
    )


def gain_verdict(probe: str, gain: Gain, pvalue: float | None = None) -> str:
    """Return whether a probe adds anything to trivial predictors on architectures that were left out.

    Args:
        probe: its name, to begin a sentence with.
        gain: as from `gain.gain`.
        pvalue: after a correction for several probes; its own by default.
    """
    beyond = ", ".join(gain.predictors) or "the mean"
    claim = f"that {probe} adds anything to {beyond}"
    if math.isnan(gain.without):
        return f"{NOT_ENOUGH} {claim}: {gain.reason}."
    size = (
        f"on an architecture that was left out the predicted rank is off by {percent(gain.without)} of all ranks "
        f"without it and {percent(gain.with_probe)} with it (gain {points(gain.gain.value)}, "
        f"{_ends(gain.gain, '{:.2f}', 100)}, n = {_count(gain.gain.n, 'architecture')}"
    )
    if math.isnan(gain.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}); {gain.reason}{FIVE}."
    p = gain.pvalue if pvalue is None else pvalue
    size += f", {_permutation(p, corrected=pvalue is not None)})"
    if p < ALPHA and gain.gain.value > 0:
        return f"Knowing {probe} adds to {beyond}: {size}."
    return f"{NOT_ENOUGH} {claim}: {size}; more initializers and architectures would tell."


def divergence_verdict(probe: str, prediction: DivergencePrediction, pvalue: float | None = None) -> str:
    """Return whether a high value of a probe foretells divergence.

    Args:
        probe: its name, to begin a sentence with.
        prediction: as from `divergence.predict_divergence`.
        pvalue: after a correction for several probes; its own by default.
    """
    area, claim = prediction.auroc, f"that {probe} foretells divergence"
    if math.isnan(area.value):
        return f"{NOT_ENOUGH} {claim}: {prediction.reason}."
    size = f"AUROC {area.value:.2f} ({_ends(area, '{:.2f}')}), n = {area.n} initializers, {prediction.pairs} pairs"
    if math.isnan(prediction.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}; {prediction.reason}."
    p = prediction.pvalue if pvalue is None else pvalue
    size += f", {_permutation(p, corrected=pvalue is not None)}"
    if p < ALPHA:
        return f"{'High' if area.value > 0.5 else 'Low'} values of {probe} foretell divergence: {size}."
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
        f"Between two seeds {probe} orders the initializers with a mean ρ of {agreement.value:+.2f} "
        f"({_ends(agreement, '{:+.2f}')}, {_n(agreement.n)})."
    )


def points(fraction: float) -> str:
    """Return a difference of two fractions in percentage points: ``1.30 points``."""
    return f"{100 * fraction:.2f} points"


def _difference(first: str, second: str, found: Estimate, comparisons: int, unit: str, where: str = "") -> str:
    """Return the sentence on a mean difference first - second.

    Args:
        first: label of the one.
        second: label of the other.
        found: over the units, as from `intervals.mean_estimate`.
        comparisons: with which it was made.
        unit: what n counts: ``seed`` or ``workload``.
        where: added to n.
    """
    n = f"n = {_count(found.n, unit)}{where}"
    if not found.has_interval:
        lacking = (
            "an interval takes 3" if found.n < MINIMUM_SEEDS else "it is the same each time, which gives no interval"
        )
        mean = f"{points(found.value)} of test error, " if found.n >= MINIMUM_SEEDS else ""
        return f"{NOT_ENOUGH} that {first} and {second} differ: {mean}{n}; {lacking}."
    if found.low > 0 or found.high < 0:
        size = found if found.low > 0 else Estimate(-found.value, -found.high, -found.low, found.n)
        ends = _ends(size.clipped(-1, 1), "{:.2f}", 100, comparisons)
        than = "more" if found.low > 0 else "less"
        return f"{first} has {points(size.value)} {than} test error than {second} ({ends} points, {n})."
    needed = seeds_needed(found.value, values_deviation(found, comparisons), comparisons)
    enough = (
        f"a difference of this size takes about {needed} {unit}s"
        if needed
        else f"a difference of this size takes more than {MAXIMUM_SEEDS:,} {unit}s"
    )
    # No two test errors differ by more than 100 points.
    ends = _ends(found.clipped(-1, 1), "{:.2f}", 100, comparisons)
    return (
        f"{NOT_ENOUGH} that {first} and {second} differ: {points(found.value)} of test error ({ends} points, {n}); "
        f"{enough}."
    )


def _permutation(pvalue: float, *, corrected: bool) -> str:
    return f"permutation p = {pvalue:.2g}{' after correction' if corrected else ''}"


def _ends(estimate: Estimate, form: str, scale: float = 1.0, comparisons: int = 1) -> str:
    if not estimate.has_interval:
        return "no interval"
    level = "95 % interval" + (f", simultaneous over {comparisons} comparisons," if comparisons > 1 else "")
    return f"{level} {form.format(scale * estimate.low)} to {form.format(scale * estimate.high)}"


def _n(workloads: int) -> str:
    return f"n = {_workloads(workloads)}"


def _workloads(count: int) -> str:
    return _count(count, "workload")


def _trials(count: int) -> str:
    return _count(count, "trial")


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' if number != 1 else ''}"
