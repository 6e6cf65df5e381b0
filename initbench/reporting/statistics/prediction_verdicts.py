"""What the statistics say of probes, one sentence for each question.

A sentence has a number with its interval and n. It says "not enough evidence" where the interval holds the value of no
effect or the test does not reject, and then what would be enough. That is never evidence of no difference.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.formatting import counted, percent
from initbench.reporting.statistics.intervals import MINIMUM_SEEDS
from initbench.reporting.statistics.power import MAXIMUM_SEEDS, correlation_treatments
from initbench.reporting.statistics.ranks import ALPHA
from initbench.reporting.statistics.wording import (
    NOT_ENOUGH,
    Terms,
    difference_words,
    interval_words,
    n_workloads,
    points,
    workloads_words,
)

if TYPE_CHECKING:
    from initbench.metric import Metric
    from initbench.reporting.statistics.divergence import DivergencePrediction
    from initbench.reporting.statistics.gain import Gain
    from initbench.reporting.statistics.intervals import Estimate
    from initbench.reporting.statistics.permutation import PermutationTest
    from initbench.reporting.statistics.selection import Selection

_FIVE = "; that takes 5 treatments with values on the same workloads"  # in the words of `Terms.say`


def prediction_verdict(
    probe: str,
    test: PermutationTest,
    rho: Estimate,
    terms: Terms,
    pvalue: float | None = None,
    comparisons: int = 1,
) -> str:
    """Return whether a probe orders the treatments of a workload as their outcomes do.

    Args:
        probe: its name, to begin a sentence with.
        test: as from `permutation.permutation_test`, on outcomes in the metric's own direction, or on oriented ones
            where there are several metrics.
        rho: as from `pooled.crossed`, likewise.
        terms: of the comparison.
        pvalue: the test's after a correction for several probes; its own by default.
        comparisons: how many were corrected for.
    """
    claim = f"that {probe} predicts the {terms.outcome}"
    if math.isnan(test.statistic):
        return f"{NOT_ENOUGH} {claim}: {terms.say(test.reason)}."
    # A correlation of so few that it has no interval would be taken for more than it is.
    size = f"mean ρ = {test.statistic:+.2f} ({interval_words(rho, '{:+.2f}')}), " if rho.has_interval else ""
    # Where there are gaps, only treatments with the same ones are exchanged.
    gaps = " that can be exchanged," if test.treatments < rho.n else ""
    n = f"n = {counted(test.treatments, terms.treatment)}{gaps} on {workloads_words(test.workloads)}"
    if math.isnan(test.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}{n}; {terms.say(test.reason + _FIVE)}."
    p = test.pvalue if pvalue is None else pvalue
    evidence = f"{size}{n}, {_permutation(p, corrected=pvalue is not None)}"
    # The interval may hold 0 where the test rejects: both are to agree before anything is claimed.
    if p < ALPHA and not (rho.has_interval and rho.low <= 0 <= rho.high):
        higher, lower = ("worse", "better") if terms.metric is None else ("higher", "lower")
        direction = higher if test.statistic > 0 else lower
        return f"The higher {probe}, the {direction} the {terms.outcome}: {evidence}."
    needed = correlation_treatments(test.statistic, comparisons, test.treatments)
    number = f"about {needed}" if needed else f"more than {MAXIMUM_SEEDS:,}"
    enough = f"a ρ of this size takes {number} {terms.treatment}s"
    return f"{NOT_ENOUGH} {claim}: {evidence}; {enough}."


def regret_verdict(probe: str, chosen: Selection, metric: Metric, terms: Terms) -> str:
    """Return what it costs to pick the one treatment with the best value of a probe.

    Args:
        probe: its name.
        chosen: as from `selection.selection` with k = 1, on oriented outcomes.
        metric: of these outcomes.
        terms: of the comparison.
    """
    regret, random = chosen.regret, chosen.regret_at_random
    by = f"by {probe}" + (", its direction learned on other architectures," if chosen.learned else "")
    if regret.n == 0:
        lacking = " and has others to tell the direction" if chosen.learned else ""
        return f"{NOT_ENOUGH} on what picking {by} costs: no workload leaves a choice{lacking}."
    if math.isinf(regret.value):
        bad = int((chosen.by_workload["regret"] == math.inf).sum())
        return f"Picking {by} takes {terms.one} that diverged on {bad} of {workloads_words(regret.n)}."
    against = (
        "takes one that diverged on some" if math.isinf(random.value) else f"costs {metric.difference(random.value)}"
    )
    few = "an interval takes 3 workloads" if regret.n < MINIMUM_SEEDS else "the same each time, so no interval"
    ends = difference_words(regret, metric) if regret.has_interval else few
    # docs/statistics.md, "Choosing by a probe".
    warning = (
        f" (for these {terms.treatment}s alone, a probe without meaning would do better too)" if chosen.learned else ""
    )
    return (
        f"Picking {by} costs {metric.difference(regret.value)} of {metric.title} against the best "
        f"({ends}, {n_workloads(regret.n)}); "
        f"picking at random {against}{warning}."
    )


def gain_verdict(probe: str, gain: Gain, terms: Terms, pvalue: float | None = None) -> str:
    """Return whether a probe adds anything to trivial predictors on architectures that were left out.

    Args:
        probe: its name, to begin a sentence with.
        gain: as from `gain.gain`.
        terms: of the comparison.
        pvalue: after a correction for several probes; its own by default.
    """
    beyond = ", ".join(gain.predictors) or "the mean"
    claim = f"that {probe} adds anything to {beyond}"
    if math.isnan(gain.without):
        return f"{NOT_ENOUGH} {claim}: {terms.say(gain.reason)}."
    size = (
        f"on an architecture that was left out the predicted rank is off by {percent(gain.without)} of all ranks "
        f"without it and {percent(gain.with_probe)} with it (gain {points(gain.gain.value)}, "
        f"{interval_words(gain.gain, '{:.2f}', 100)}, n = {counted(gain.gain.n, 'architecture')}"
    )
    if math.isnan(gain.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}); {terms.say(gain.reason + _FIVE)}."
    p = gain.pvalue if pvalue is None else pvalue
    size += f", {_permutation(p, corrected=pvalue is not None)})"
    if p < ALPHA and gain.gain.value > 0 and not (gain.gain.has_interval and gain.gain.low <= 0):
        return f"Knowing {probe} adds to {beyond}: {size}."
    return f"{NOT_ENOUGH} {claim}: {size}; more {terms.treatment}s and architectures would tell."


def divergence_verdict(probe: str, prediction: DivergencePrediction, terms: Terms, pvalue: float | None = None) -> str:
    """Return whether a high value of a probe foretells divergence.

    Args:
        probe: its name, to begin a sentence with.
        prediction: as from `divergence.predict_divergence`.
        terms: of the comparison.
        pvalue: after a correction for several probes; its own by default.
    """
    area, claim = prediction.auroc, f"that {probe} foretells divergence"
    if math.isnan(area.value):
        return f"{NOT_ENOUGH} {claim}: {prediction.reason}."
    n = f"n = {counted(area.n, terms.treatment)}, {counted(prediction.pairs, 'pair')}"
    size = f"AUROC {area.value:.2f} ({interval_words(area, '{:.2f}')}), {n}"
    if math.isnan(prediction.pvalue):
        return f"{NOT_ENOUGH} {claim}: {size}; {terms.say(prediction.reason + _FIVE)}."
    p = prediction.pvalue if pvalue is None else pvalue
    size += f", {_permutation(p, corrected=pvalue is not None)}"
    if p < ALPHA and not (area.has_interval and area.low <= 0.5 <= area.high):
        return f"{'High' if area.value > 0.5 else 'Low'} values of {probe} foretell divergence: {size}."
    return f"{NOT_ENOUGH} {claim}: {size}; more {terms.treatment}s would tell."


def agreement_verdict(probe: str, agreement: Estimate, terms: Terms) -> str:
    """Return how much of a probe's order is the seed's.

    Args:
        probe: its name, to begin a sentence with.
        agreement: as from `agreement.mean_seed_agreement`.
        terms: of the comparison.
    """
    if math.isnan(agreement.value):
        lacking = f"it takes 2 seeds, and 3 {terms.treatment}s with different values"
        return f"{NOT_ENOUGH} whether {probe} agrees with itself: {lacking}."
    return (
        f"Between two seeds {probe} orders the {terms.treatment}s with a mean ρ of {agreement.value:+.2f} "
        f"({interval_words(agreement, '{:+.2f}')}, {n_workloads(agreement.n)})."
    )


def _permutation(pvalue: float, *, corrected: bool) -> str:
    return f"permutation p = {pvalue:.2g}{' after correction' if corrected else ''}"
