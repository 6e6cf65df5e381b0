"""Does a measurement at initialization predict the outcome?

Below five treatments nothing is concluded about a probe, and no number is quoted: a correlation of four would be taken
for more than it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from initbench.comparing.formatting import counted
from initbench.comparing.labels import Name, label_of
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.comparison_sentences import needed_text
from initbench.reporting.questions.prediction_figures import can_be_drawn, prediction_figures
from initbench.reporting.questions.probe_results import measure, name_of, trivial_predictors
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.sizes import difference_words, plain_words
from initbench.reporting.tables import Table, table_of
from initbench.reporting.terms import Terms
from initbench.statistics.association import MINIMUM_TREATMENTS
from initbench.statistics.decisions import adjust
from initbench.statistics.gain import MINIMUM_ARCHITECTURES
from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate
from initbench.statistics.probes import NONE, ProbeResult

_RHO = "{:+.2f}"
_CORRELATION = [
    *("probe", "form", "workload", "n", "rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high", "remark"),
    "saturated",
]


class Prediction(NamedTuple):
    """The results of each probe, the drawn one first, and the label of the only workload drawn, empty for all."""

    probes: Sequence[ProbeResult]
    workload: str = ""


def predict(results: Results | str | Path, *, probe: str = "", workload: str = "") -> Answer:
    """Return what measurements at initialization tell about the outcomes.

    Args:
        results: as from `read_results`, or a suite's folder.
        probe: that comes first and is drawn; by default the gradient quotient, if it was measured. All are analysed,
            because p-values are corrected for all.
        workload: that is drawn alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read, or there is no such probe or workload.
    """
    results = as_results(results)
    only = label_of(workload, results.names.workloads, "workload") if workload else ""
    probes, outcome = list(results.once(measure)), results.terms.outcome
    if probe:
        first = label_of(probe, {result.probe: Name(result.probe) for result in probes}, "probe")
        probes.sort(key=lambda result: result.probe != first)
    facts, table = Prediction(probes, only), _on_workloads(probes, results)
    if not probes:
        question = f"Does a measurement at initialization predict the {outcome}?"
        return Answer("prediction", question, [_nothing(results)], [table], facts=facts)
    return Answer(
        "prediction",
        f"Does {name_of(probes[0])} predict the {outcome}?",
        # If there are too few treatments, several parts of the question have one answer, which is given once.
        list(dict.fromkeys(_sentences(probes, results))),
        [_every_probe(probes, results), table],
        prediction_figures(probes, results, only),
        list(_remarks(probes[0], results)),
        facts=facts,
    )


def _nothing(results: Results) -> Sentence:
    if any(probe.get("kind") == "scalar" for record in results.records for probe in record.probes):
        return say("No measurement at initialization is finite.", is_open=True)
    return say("Nothing was measured at initialization.", is_open=True)


def _sentences(probes: Sequence[ProbeResult], results: Results) -> Iterator[Sentence]:
    """Yield for each probe whether it predicts the outcome, the cost of choosing by it, how much it adds, and the rest.

    The p-values of one part of the question are corrected by Holm for all probes and forms.
    """
    terms, noun, tested = results.terms, results.names.noun, sum(result.test.is_testable for result in probes)
    parts = ([getattr(result, part).pvalue for result in probes] for part in ("test", "gain", "divergence"))
    for result, *pvalues in zip(probes, *(adjust(part, "holm") for part in parts), strict=True):
        predicted, gained, foretold = map(float, pvalues)
        yield predicts(result, predicted, max(1, tested), terms, noun)
        if terms.metric is not None:
            yield costs(result, terms.metric, terms, noun)
            yield adds(result, gained, terms, noun)
        if result.divergence.pairs:
            yield foretells(result, foretold, terms, noun)
        yield agrees(result, terms, noun)


def predicts(result: ProbeResult, pvalue: float, tested: int, terms: Terms, noun: str) -> Sentence:
    test, rho, treatment = result.test, result.rho, terms.treatment
    if math.isnan(test.statistic):
        lacking = f"no {noun} has 3 {treatment}s with different values"
        return _open(result, f"Nothing can be concluded: {lacking}; it takes {MINIMUM_TREATMENTS}.")
    if not test.is_testable:
        return _too_few(result, rho.n, terms, noun)
    if test.tells(rho, pvalue):
        higher, lower = ("worse", "better") if terms.metric is None else ("higher", "lower")
        text = f"The higher {{probe}}, the {higher if test.statistic > 0 else lower} the {{outcome}}: ρ = {{size}}."
        return _told(result, text, outcome=terms.outcome, size=plain_words(rho._replace(value=test.statistic), _RHO))
    text = f"{counted(test.treatments, treatment)} do not show whether {{probe}} predicts the {{outcome}}; {{needed}}."
    return _open(result, text, outcome=terms.outcome, needed=needed_text(test.needed(tested)))


def costs(result: ProbeResult, metric: Metric, terms: Terms, noun: str) -> Sentence:
    """Return the cost of choosing the treatment with the best value; the table has the cost of a random choice."""
    chosen, treatment = result.chosen[1], terms.treatment
    regret = chosen.regret
    if regret.n == 0:
        why = "has others from which to learn the direction" if chosen.learned else "leaves a choice"
        return _open(result, f"What choosing by {{probe}} costs is unknown: no {noun} {why}.")
    if chosen.diverged:
        on = f"{chosen.diverged} of {counted(regret.n, noun)}"
        return _told(result, f"Choosing by {{probe}} picks {terms.one} that diverged on {on}.")
    if regret.n < MINIMUM_SEEDS:
        return _open(result, f"What choosing by {{probe}} costs is unknown: {_few(regret.n, noun, MINIMUM_SEEDS)}.")
    each, size = f"on each of {regret.n} {noun}s", difference_words(regret, metric)
    if regret.has_interval:
        return _told(result, f"Choosing by {{probe}} costs {{size}} compared with the best {treatment}.", size=size)
    if regret.value:
        return _told(result, f"Choosing by {{probe}} costs {{size}} {each}.", size=size)
    return _told(result, f"Choosing by {{probe}} picks the best {treatment} {each}.")


def adds(result: ProbeResult, pvalue: float, terms: Terms, noun: str) -> Sentence:
    """Return whether a probe adds anything to trivial predictors on architectures that were left out."""
    gain, treatment = result.gain, terms.treatment
    beyond = named(gain.predictors) if gain.predictors else "the mean"
    if gain.adds(pvalue):
        value, low, high = (100 * part for part in gain.gain[:3])  # percent of all ranks
        text = "Knowing {probe} as well as {beyond} brings the predicted rank {size} points closer to the true one."
        return _told(result, text, beyond=beyond, size=plain_words(Estimate(value, low, high, gain.gain.n), "{:.1f}"))
    if gain.has_too_few_architectures:
        why = _few(gain.gain.n, "architecture", MINIMUM_ARCHITECTURES)
    elif not gain.is_known:
        why = f"{counted(gain.cells, 'cell')} are too few; more architectures would tell"
    elif not gain.is_testable:
        why = f"it takes {MINIMUM_TREATMENTS} {terms.exchanged or treatment}s on the same {noun}s"
    else:
        why = f"{counted(gain.gain.n, 'architecture')} do not show it; more {treatment}s and architectures would tell"
    return _open(result, f"Whether {{probe}} adds anything to {{beyond}} is unknown: {why}.", beyond=beyond)


def foretells(result: ProbeResult, pvalue: float, terms: Terms, noun: str) -> Sentence:
    prediction = result.divergence
    area = prediction.auroc
    if not prediction.is_testable:
        return _too_few(result, area.n, terms, noun)
    if prediction.foretells(pvalue):
        which = "High" if area.value > 0.5 else "Low"
        return _told(result, f"{which} values of {{probe}} foretell divergence: AUROC {plain_words(area)}.")
    few = counted(area.n, terms.treatment)
    return _open(result, f"{few} do not show whether {{probe}} foretells divergence; more would.")


def agrees(result: ProbeResult, terms: Terms, noun: str) -> Sentence:
    """Return whether a probe orders the treatments at one seed as at another."""
    agreement, treatment = result.agreement, terms.treatment
    most = int(result.by_workload["n"].max()) if len(result.by_workload) else 0
    whether = f"Whether {{probe}} orders the {treatment}s alike at another seed is unknown"
    if math.isnan(agreement.value):
        needed = f"it takes 2 seeds and {MINIMUM_TREATMENTS} {treatment}s with different values"
        return _open(result, f"{whether}: {needed}.")
    if most < MINIMUM_TREATMENTS:
        return _too_few(result, most, terms, noun)
    if agreement.side():
        alike = "alike" if agreement.side() > 0 else "the other way round"
        text = f"From seed to seed {{probe}} orders the {treatment}s {alike}: ρ = {plain_words(agreement, _RHO)}."
        return _told(result, text)
    several = counted(agreement.n, noun)
    if agreement.n < MINIMUM_SEEDS:
        why = _few(agreement.n, noun, MINIMUM_SEEDS)
    elif agreement.has_interval:
        why = f"{several} do not show it; more would"
    else:
        why = f"ρ is the same on each of {several}"
    return _open(result, f"{whether}: {why}.")


def _few(number: int, noun: str, needed: int) -> str:
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'} too few; it takes {needed}"


def _too_few(result: ProbeResult, treatments: int, terms: Terms, noun: str) -> Sentence:
    if treatments < MINIMUM_TREATMENTS and not terms.exchanged:
        few = counted(treatments, terms.treatment)
        return _open(result, f"Nothing can be concluded from {few}; it takes {MINIMUM_TREATMENTS}.")
    needed = f"{MINIMUM_TREATMENTS} {terms.exchanged or terms.treatment}s with values on the same {noun}s"
    return _open(result, f"Nothing can be concluded: it takes {needed}.")


def _told(result: ProbeResult, text: str, *, is_open: bool = False, **fields: str) -> Sentence:
    return say(text, is_open=is_open, subject=result.subject, probe=name_of(result), **fields)


def _open(result: ProbeResult, text: str, **fields: str) -> Sentence:
    return _told(result, text, is_open=True, **fields)


def _remarks(first: ProbeResult, results: Results) -> Iterator[str]:
    drawable = can_be_drawn(first, results)
    if blank := [results.names.workload(workload) for workload, drawn in drawable.items() if not drawn.any()]:
        yield f"Not drawn, because {name_of(first)} is not finite in any trial: {', '.join(blank)}."
    if results.terms.metric is None:
        yield (
            "The workloads have several metrics, whose values are never put together: what choosing by a probe costs "
            "and what it adds are left out. Correlations are with outcomes turned so that lower is better."
        )


def _on_workloads(probes: Sequence[ProbeResult], results: Results) -> Table:
    """Return one row per probe, form and workload (`association.associations`), with how many are saturated."""
    frames = [
        result.by_workload.assign(
            probe=result.probe,
            form=result.form,
            remark=[results.terms.say(remark) for remark in result.by_workload["remark"]],
            saturated=result.saturated.reindex(result.by_workload["workload"]).to_numpy(),
        )
        for result in probes
    ]
    frame = pd.concat(frames, ignore_index=True)[_CORRELATION] if frames else pd.DataFrame(columns=_CORRELATION)
    title = f"Every probe on every {results.names.noun}"
    return table_of(results, "correlation", title, frame, "probe form workload rho tau n saturated remark")


def _every_probe(probes: Sequence[ProbeResult], results: Results) -> Table:
    metric, several, places = results.terms.metric, f"{results.terms.treatment}s", f"{results.names.noun}s"
    show = (
        "probe form rho treatments workloads pvalue_holm pvalue_benjamini_hochberg precision_1 regret_1 regret_3 "
        "regret_at_random gain auroc seed_agreement batch_spread seconds"
    )
    note = (
        f"Mean ρ: over {places}, its interval over {several}; p-values come from permuting the labels of the {several} "
        f"jointly over all {places}, and are corrected for the number of rows by Holm’s method or by Benjamini and "
        f"Hochberg’s. Precision@k and regret@k: choosing the k {several} with the best values. For GQ these are the "
        "lowest; for other probes the direction is learned on other architectures, by which even a meaningless probe "
        f"beats a random choice among these {several}. Gain: how much closer the predicted rank is, on architectures "
        f"that were left out, than without the probe, knowing {', '.join(trivial_predictors(results).values())}."
        f"{results.terms.exchange}"
    )
    unit = f",\n{metric.points}" if metric is not None and metric.points else ""
    return table_of(results, "probes", "Every probe", _probes_frame(probes), show, note, unit=unit)


def _probes_frame(probes: Sequence[ProbeResult]) -> pd.DataFrame:
    """Return one row per probe and form; without a test, because of too few treatments, there is no mean ρ."""
    pvalues = [result.test.pvalue for result in probes]
    corrected = (adjust(pvalues, method) for method in ("holm", "benjamini-hochberg"))
    return pd.DataFrame(_probe_row(*row) for row in zip(probes, *corrected, strict=True))


def _probe_row(result: ProbeResult, holm: float, benjamini_hochberg: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "probe": result.probe,
        "form": result.form,
        **_columns("rho", result.rho if result.rho.has_interval and result.test.is_testable else NONE),
        "treatments": result.rho.n,
        "workloads": result.test.workloads,
        "pvalue": result.test.pvalue,
        "pvalue_holm": holm,
        "pvalue_benjamini_hochberg": benjamini_hochberg,
        **_columns("pooled_rho", result.pooled.rho),
        "i_squared": result.pooled.i_squared,
    }
    for k, chosen in result.chosen.items():
        row |= _columns(f"regret_{k}", chosen.regret) | _columns(f"precision_{k}", chosen.precision)
    return row | {
        "regret_at_random": result.chosen[1].regret_at_random.value,
        **_columns("gain", result.gain.gain),
        "gain_pvalue": result.gain.pvalue,
        **_columns("auroc", result.divergence.auroc),
        "auroc_pvalue": result.divergence.pvalue,
        **_columns("seed_agreement", result.agreement),
        "batch_spread": result.spread.value,
        "seconds": result.seconds,
    }


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
