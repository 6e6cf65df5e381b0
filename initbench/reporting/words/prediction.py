"""What the statistics say of probes, one sentence for each question.

A sentence has one number and its interval. Below five treatments nothing can be told of a probe, and no number is
quoted: a correlation of four would be taken for more than it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.comparing.formatting import counted
from initbench.reporting.sentence import Sentence, named
from initbench.reporting.sizes import difference_words, needed_words, over_words, plain_words
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import bolded
from initbench.statistics.association import MINIMUM_TREATMENTS
from initbench.statistics.gain import MINIMUM_ARCHITECTURES
from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from initbench.metric import Metric
    from initbench.reporting.terms import Terms
    from initbench.statistics.divergence import DivergencePrediction
    from initbench.statistics.gain import Gain
    from initbench.statistics.permutation import PermutationTest
    from initbench.statistics.selection import Selection

_CORRELATION = "{:+.2f}"


def predicts_words(
    probe: str,
    test: PermutationTest,
    rho: Estimate,
    terms: Terms,
    *,
    pvalue: float | None = None,
    comparisons: int = 1,
    place: str = "workload",
    subject: str = "",
) -> Sentence:
    """Return whether a probe orders the treatments of a workload as their outcomes do.

    Args:
        probe: its name, within a sentence: ``the gradient quotient``.
        test: as from `permutation.permutation_test`, on outcomes in the metric's own direction, or on oriented ones
            where there are several metrics.
        rho: as from `pooled.crossed`, likewise.
        terms: of the comparison.
        pvalue: the test's after a correction for several probes; its own by default.
        comparisons: how many were corrected for.
        place: a workload in one word.
        subject: as in `Sentence`.
    """
    names = {"probe": probe}
    if math.isnan(test.statistic):
        lacking = f"no {place} has 3 {terms.treatment}s with different values"
        return bolded(f"Cannot be told: {lacking}; it takes {MINIMUM_TREATMENTS}.", is_open=True, subject=subject)
    if not test.is_testable:
        return _too_few(rho.n, terms, subject)
    if test.tells(rho, pvalue):
        higher, lower = ("worse", "better") if terms.metric is None else ("higher", "lower")
        return said(
            f"The higher {{probe}}, the {higher if test.statistic > 0 else lower} the {terms.outcome}: ρ = {{size}}.",
            f"The higher {{probe}}, the {higher if test.statistic > 0 else lower} the outcome: ρ = {{size}}.",
            names=names,
            subject=subject,
            size=plain_words(rho._replace(value=test.statistic), _CORRELATION),
        )
    few = f"from {counted(test.treatments, terms.treatment)}"
    enough = needed_words(test.needed(comparisons))
    return said(
        f"Whether {{probe}} predicts the {terms.outcome} cannot be told {few}; {enough}.",
        f"Whether {{probe}} predicts the outcome cannot be told {few}; {enough}.",
        names=names,
        is_open=True,
        subject=subject,
    )


def regret_words(
    probe: str, chosen: Selection, metric: Metric, terms: Terms, *, place: str = "workload", subject: str = ""
) -> Sentence:
    """Return what it costs to pick the one treatment with the best value of a probe.

    What it costs at random, and that a learned direction flatters the probe, stands in the table.

    Args:
        probe: its name.
        chosen: as from `selection.selection` with k = 1, on oriented outcomes.
        metric: of these outcomes.
        terms: of the comparison.
        place: a workload in one word.
        subject: as in `Sentence`.
    """
    regret, names = chosen.regret, {"probe": probe}
    if regret.n == 0:
        text = f"What picking by {{probe}} costs cannot be told: no {place} leaves a choice."
        if chosen.learned:
            text = f"What picking by {{probe}} costs cannot be told: no {place} has others to tell the direction."
        return said(text, names=names, is_open=True, subject=subject)
    if chosen.diverged:
        on = f"{chosen.diverged} of {counted(regret.n, place)}"
        return said(f"Picking by {{probe}} takes {terms.one} that diverged on {on}.", names=names, subject=subject)
    if regret.n < MINIMUM_SEEDS:
        few = f"from {counted(regret.n, place)}; it takes {MINIMUM_SEEDS}"
        text = f"What picking by {{probe}} costs cannot be told {few}."
        return said(text, names=names, is_open=True, subject=subject)
    if not regret.has_interval:
        each = f"on each of {regret.n} {place}s"
        text = f"Picking by {{probe}} takes the best {terms.treatment} {each}."
        if regret.value != 0:
            text = f"Picking by {{probe}} costs {{size}} {each}."
        return said(text, names=names, subject=subject, size=difference_words(regret, metric))
    return said(
        f"Picking by {{probe}} costs {{size}} against the best {terms.treatment}.",
        "Picking by {probe} costs {size}.",
        names=names,
        subject=subject,
        size=difference_words(regret, metric),
    )


def gain_words(probe: str, gain: Gain, terms: Terms, *, pvalue: float | None = None, subject: str = "") -> Sentence:
    """Return whether a probe adds anything to trivial predictors on architectures that were left out.

    Args:
        probe: its name, within a sentence.
        gain: as from `gain.gain`.
        terms: of the comparison.
        pvalue: after a correction for several probes; its own by default.
        subject: as in `Sentence`.
    """
    beyond = named(gain.predictors) if gain.predictors else "the mean"
    n = gain.gain.n
    if gain.adds(pvalue):
        # In percent of all ranks.
        points = gain.gain._replace(value=100 * gain.gain.value, low=100 * gain.gain.low, high=100 * gain.gain.high)
        return said(
            "Knowing {probe} as well as {beyond} brings the predicted rank {size} points nearer.",
            "Knowing {probe} brings the predicted rank {size} points nearer.",
            names={"probe": probe},
            subject=subject,
            beyond=beyond,
            size=plain_words(points, "{:.1f}"),
        )
    from_n = f"from {counted(n, 'architecture')}"
    if gain.has_too_few_architectures:
        why = f"{from_n}; it takes {MINIMUM_ARCHITECTURES}"
    elif not gain.is_known:
        why = f"from {counted(gain.cells, 'cell')}; more architectures would tell"
    elif not gain.is_testable:
        why = f"; it takes {MINIMUM_TREATMENTS} {terms.exchanged or terms.treatment}s on the same workloads"
    else:
        why = f"{from_n}; more {terms.treatment}s and architectures would tell"
    return said(
        f"Whether {{probe}} adds anything to {{beyond}} cannot be told {why}.".replace(" ;", ";"),
        f"Whether {{probe}} adds anything cannot be told {why}.".replace(" ;", ";"),
        names={"probe": probe},
        is_open=True,
        subject=subject,
        beyond=beyond,
    )


def foretells_words(
    probe: str, prediction: DivergencePrediction, terms: Terms, *, pvalue: float | None = None, subject: str = ""
) -> Sentence:
    """Return whether a high value of a probe foretells divergence.

    Args:
        probe: its name, within a sentence.
        prediction: as from `divergence.predict_divergence`.
        terms: of the comparison.
        pvalue: after a correction for several probes; its own by default.
        subject: as in `Sentence`.
    """
    area, names = prediction.auroc, {"probe": probe}
    if prediction.pairs == 0:
        text = f"Whether {{probe}} foretells divergence cannot be told: {prediction.reason}."
        return said(text, "Cannot be told: " + prediction.reason + ".", names=names, is_open=True, subject=subject)
    if not prediction.is_testable:
        return _too_few(area.n, terms, subject)
    if prediction.foretells(pvalue):
        return said(
            f"{'High' if area.value > 0.5 else 'Low'} values of {{probe}} foretell divergence: AUROC {{size}}.",
            names=names,
            subject=subject,
            size=plain_words(area),
        )
    few = f"from {counted(area.n, terms.treatment)}; more would tell"
    text = f"Whether {{probe}} foretells divergence cannot be told {few}."
    return said(text, names=names, is_open=True, subject=subject)


def agreement_words(
    probe: str, agreement: Estimate, treatments: int, terms: Terms, *, place: str = "workload", subject: str = ""
) -> Sentence:
    """Return whether a probe orders the treatments at one seed as at another.

    Args:
        probe: its name, within a sentence.
        agreement: as from `agreement.mean_seed_agreement`; its n counts workloads.
        treatments: the most that a workload has.
        terms: of the comparison.
        place: a workload in one word.
        subject: as in `Sentence`.
    """
    names = {"probe": probe}
    if math.isnan(agreement.value):
        text = f"Cannot be told: it takes 2 seeds, and {MINIMUM_TREATMENTS} {terms.treatment}s with different values."
        return bolded(text, is_open=True, subject=subject)
    if treatments < MINIMUM_TREATMENTS:
        return _too_few(treatments, terms, subject)
    if agreement.side():
        alike = "alike" if agreement.side() > 0 else "the other way round"
        return said(
            f"Between seeds {{probe}} orders the {terms.treatment}s {alike}: ρ = {{size}}.",
            names=names,
            subject=subject,
            size=plain_words(agreement, _CORRELATION),
        )
    few = f"from {over_words(agreement.n, place)}"
    enough = f"it takes {MINIMUM_SEEDS}" if agreement.n < MINIMUM_SEEDS else "more would tell"
    if agreement.n >= MINIMUM_SEEDS and not agreement.has_interval:
        few, enough = "", f"its ρ is the same on each of {agreement.n} {place}s"
    text = f"Whether {{probe}} orders the {terms.treatment}s alike at another seed cannot be told {few}; {enough}."
    return said(text.replace(" ;", ";"), names=names, is_open=True, subject=subject)


def association_words(row: Mapping[Hashable, Any], terms: Terms, *, left_out: int = 0, subject: str = "") -> Sentence:
    """Return what one workload says of a probe: ρ with its interval, or why there is none.

    Args:
        row: of `association.associations`.
        terms: of the comparison.
        left_out: treatments that are left out because their values are saturated.
        subject: the workload, as a display text.
    """
    n, left = int(row["n"]), f"; {left_out} left out, saturated" if left_out else ""
    if n < MINIMUM_TREATMENTS:
        text = f"Cannot be told from {counted(n, terms.treatment)}; it takes {MINIMUM_TREATMENTS}{left}."
        return bolded(text, is_open=True, subject=subject)
    if row["remark"]:
        return bolded(f"Cannot be told: {terms.say(row['remark'])}{left}.", is_open=True, subject=subject)
    rho = Estimate(row["rho"], row["rho_low"], row["rho_high"], n)
    text = f"ρ = {plain_words(rho, _CORRELATION)}{left}."
    return bolded(text, is_open=rho.side() == 0, subject=subject)


def _too_few(treatments: int, terms: Terms, subject: str) -> Sentence:
    """Return that nothing can be told of so few treatments."""
    if terms.exchanged:
        text = f"Cannot be told: it takes {MINIMUM_TREATMENTS} {terms.exchanged}s with values on the same workloads."
    elif treatments < MINIMUM_TREATMENTS:
        text = f"Cannot be told from {counted(treatments, terms.treatment)}; it takes {MINIMUM_TREATMENTS}."
    else:
        text = f"Cannot be told: it takes {MINIMUM_TREATMENTS} {terms.treatment}s with values on the same workloads."
    return bolded(text, is_open=True, subject=subject)
