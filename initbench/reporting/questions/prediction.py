"""Does a measurement at initialization predict the outcome?

Below five treatments nothing is concluded about a probe, and no number is quoted: a correlation of four would be taken
for more than it is. One sentence says all that cannot be tested for lack of treatments or networks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from initbench.comparing.formatting import capitalized, counted, listed, typeset
from initbench.comparing.names import Name, label_of
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
_REVERSE = "the reverse of what its authors expect"
_WENT_WITH = "Higher values of {probe} went with {change}"
_CORRELATION = [
    *("probe", "form", "workload", "n", "rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high", "remark"),
    "saturated",
]


class Untested(NamedTuple):
    """A part of the question that these trials cannot answer.

    Attributes:
        what: such as ``whether {probe} predicts the {outcome}``.
        needs: the nouns of what is lacking: treatments, workloads, architectures or seeds.
    """

    what: str
    needs: tuple[str, ...]


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
    probes, outcome = list(measure(results)), results.terms.outcome
    if probe:
        first = label_of(probe, {result.probe: Name(result.probe) for result in probes}, "probe")
        probes.sort(key=lambda result: result.probe != first)
    facts, table = Prediction(probes, only), _on_workloads(probes, results)
    if not probes or not len(results.judged):
        question = f"Does a measurement at initialization predict the {outcome}?"
        return Answer("prediction", question, [_nothing(results)], [table], facts=facts)
    return Answer(
        "prediction",
        f"Does {name_of(probes[0])} predict the {outcome}?",
        _sentences(probes, results),
        [_every_probe(probes, results), table],
        prediction_figures(probes, results, only),
        list(_remarks(probes[0], results)),
        facts=facts,
    )


def _nothing(results: Results) -> Sentence:
    if not any(probe.get("kind") == "scalar" for record in results.records for probe in record.probes):
        return say("Nothing was measured at initialization.", is_open=True)
    if len(results.judged):
        return say("No measurement at initialization is finite.", is_open=True)
    return say("No trial has an outcome to predict.", is_open=True)


def _sentences(probes: Sequence[ProbeResult], results: Results) -> list[Sentence]:
    """Return for each probe whether it predicts the outcome, what choosing by it costs, how much it adds, and the rest.

    The p-values of one part of the question are corrected by Holm for all probes and forms. If no part can be tested
    for any probe, one sentence says so for all of them.
    """
    terms, noun, tested = results.terms, results.names.noun, sum(result.test.is_testable for result in probes)
    parts = ([getattr(result, part).pvalue for result in probes] for part in ("test", "gain", "divergence"))
    answers: list[tuple[ProbeResult, list[Sentence | Untested]]] = []
    for result, *pvalues in zip(probes, *(adjust(part, "holm") for part in parts), strict=True):
        predicted, gained, foretold = map(float, pvalues)
        said = [predicts(result, predicted, max(1, tested), terms), *reversed_on(result, terms, noun)]
        if terms.metric is not None:
            said += [costs(result, terms.metric, terms, noun), adds(result, gained, terms, noun)]
        if result.divergence.pairs:
            said.append(foretells(result, foretold, terms))
        answers.append((result, [*said, agrees(result, terms, noun)]))
    every = [part for _, said in answers for part in said]
    untested = [part for part in every if isinstance(part, Untested)]
    if len(untested) == len(every):
        return [_none_tested(probes, untested, results)]
    return [sentence for result, said in answers for sentence in _joined(result, said, results)]


def _none_tested(probes: Sequence[ProbeResult], parts: Sequence[Untested], results: Results) -> Sentence:
    names = named(list(dict.fromkeys(map(name_of, probes))))
    takes = _takes({need for part in parts for need in part.needs} - {"seed"}, results)
    verb = "predicts" if len({result.probe for result in probes}) == 1 else "predict"
    text = f"Whether {{probes}} {verb} the {{outcome}} cannot be tested: {takes}."
    return say(text, is_open=True, probes=names, outcome=results.terms.outcome)


def _joined(result: ProbeResult, said: Sequence[Sentence | Untested], results: Results) -> Iterator[Sentence]:
    """Yield the sentences on a probe, with one in place of all parts that cannot be tested."""
    untested = [part for part in said if isinstance(part, Untested)]
    for part in said:
        if isinstance(part, Sentence):
            yield part
        elif part is untested[0]:
            first, *others = [part.what for part in untested]
            what = [capitalized(first), *(other.replace("{probe}", "it") for other in others)]
            last = f", and {what[-1]}" if len(what) > 2 else f" and {what[-1]}" if others else ""
            unknown = f"{', '.join(what[:-1] or what)}{last} {'are' if others else 'is'}"
            takes = _takes({need for part in untested for need in part.needs}, results)
            fields = {"outcome": results.terms.outcome, "beyond": _beyond(result)}
            yield _open(result, f"{unknown} unknown: {takes}.", **fields)


def _takes(needs: Collection[str], results: Results) -> str:
    """Return ``that takes at least 5 initializers and 3 networks; the report has 4 and 2``."""
    treatment, noun, trials = _exchanged(results.terms), results.names.noun, results.trials
    least = {
        treatment: (MINIMUM_TREATMENTS, "part" if results.terms.exchanged else "treatment"),
        noun: (MINIMUM_SEEDS, "workload"),
        "architecture": (MINIMUM_ARCHITECTURES, "architecture_label"),
        "seed": (2, "seed"),
    }
    known = {what: trials[column].nunique() for what, (_, column) in least.items() if what in needs}
    lacking = [what for what, number in known.items() if number < least[what][0]]
    texts = [_several(least[what][0], what) for what in lacking]
    if treatment in needs and treatment not in lacking:
        different = f"{_several(MINIMUM_TREATMENTS, treatment)} with different values on the same {noun}s"
        return f"that takes {listed([different, *texts])}"
    if not lacking:
        return f"that takes {listed([f'more {need}s' for need in sorted(needs)])}"
    return f"that takes at least {listed(texts)}; the report has {listed([str(known[what]) for what in lacking])}"


def _several(number: int, what: str) -> str:
    return f"{number} values of {what}" if "." in what else counted(number, what)


def _exchanged(terms: Terms) -> str:
    return terms.exchanged or terms.treatment


def _architecture(noun: str) -> str:
    return noun if noun == "network" else "architecture"


def predicts(result: ProbeResult, pvalue: float, tested: int, terms: Terms) -> Sentence | Untested:
    test, rho = result.test, result.rho
    if not test.is_testable:
        return Untested("whether {probe} predicts the {outcome}", (_exchanged(terms),))
    is_reverse = test.statistic * _expected(result, terms) < 0
    if test.tells(rho, pvalue):
        higher, lower = ("worse", "better") if terms.metric is None else ("higher", "lower")
        text = f"The higher {{probe}}, the {higher if test.statistic > 0 else lower} the {{outcome}}: ρ = {{size}}"
        size = plain_words(rho._replace(value=test.statistic), _RHO)
        return _told(result, f"{text}{f', {_REVERSE}' if is_reverse else ''}.", outcome=terms.outcome, size=size)
    few, needed = counted(test.treatments, terms.treatment), needed_text(test.needed(tested))
    text = f"{few} do not show whether {{probe}} predicts the {{outcome}}; {needed}."
    if is_reverse:
        size = typeset(_RHO.format(test.statistic))
        text = f"{_WENT_WITH} (ρ = {size}), {_REVERSE}; {few} cannot confirm it, and {needed}."
    return _open(result, text, outcome=terms.outcome, change=_change(test.statistic, terms))


def reversed_on(result: ProbeResult, terms: Terms, noun: str) -> Iterator[Sentence]:
    """Yield on how many workloads ρ has the sign that the probe's authors do not expect, if it is the most of them.

    It is for a probe that is not tested, although some workloads have enough treatments for a ρ of their own.
    """
    expected, rhos = _expected(result, terms), result.by_workload["rho"].dropna()
    reverse = int((rhos * expected < 0).sum())
    if not result.test.is_testable and 2 * reverse > len(rhos):
        on = f"{reverse} of {len(rhos)} {noun}s" if len(rhos) > 1 else f"one {noun}"
        text = f"{_WENT_WITH} on {on}, {_REVERSE}; this was not tested."
        yield _open(result, text, change=_change(-expected, terms))


def _expected(result: ProbeResult, terms: Terms) -> int:
    """Return the sign of ρ that the probe's authors expect, 0 if unknown."""
    if result.lower_is_better is None:
        return 0
    return 1 if result.lower_is_better == (terms.metric is None or terms.metric.better == "lower") else -1


def _change(rho: float, terms: Terms) -> str:
    if terms.metric is None:
        return f"a {'worse' if rho > 0 else 'better'} outcome"
    return f"{'higher' if rho > 0 else 'lower'} {terms.outcome}"


def costs(result: ProbeResult, metric: Metric, terms: Terms, noun: str) -> Sentence | Untested:
    """Return the cost of choosing the treatment with the best value; the table has the cost of a random choice."""
    chosen, treatment = result.chosen[1], terms.treatment
    regret, what = chosen.regret, "what choosing by {probe} costs"
    if regret.n == 0:
        is_alone = chosen.learned and result.gain.has_too_few_architectures
        return Untested(what, (_architecture(noun) if is_alone else _exchanged(terms),))
    if chosen.diverged:
        on = f"{chosen.diverged} of {counted(regret.n, noun)}"
        return _told(result, f"Choosing by {{probe}} picks {terms.one} that diverged on {on}.")
    if regret.n < MINIMUM_SEEDS:
        return Untested(what, (noun,))
    each, size = f"on each of {regret.n} {noun}s", difference_words(regret, metric)
    if regret.has_interval:
        return _told(result, f"Choosing by {{probe}} costs {{size}} compared with the best {treatment}.", size=size)
    if regret.value:
        return _told(result, f"Choosing by {{probe}} costs {{size}} {each}.", size=size)
    return _told(result, f"Choosing by {{probe}} picks the best {treatment} {each}.")


def adds(result: ProbeResult, pvalue: float, terms: Terms, noun: str) -> Sentence | Untested:
    """Return whether a probe adds anything to trivial predictors on architectures that were left out."""
    gain, treatment = result.gain, terms.treatment
    if gain.adds(pvalue):
        closer = _in_points(gain.gain)
        text = "Knowing {probe} as well as {beyond} brings the predicted rank {size} points closer to the true one."
        return _told(result, text, beyond=_beyond(result), size=plain_words(closer, "{:.1f}"))
    what = "whether {probe} adds anything to {beyond}"
    if gain.has_too_few_architectures or not gain.is_known:
        return Untested(what, (_architecture(noun),))
    if not gain.is_testable:
        return Untested(what, (_exchanged(terms),))
    why = f"{counted(gain.gain.n, 'architecture')} do not show it; more {treatment}s and architectures would tell"
    return _open(result, f"{capitalized(what)} is unknown: {why}.", beyond=_beyond(result))


def _beyond(result: ProbeResult) -> str:
    return named(result.gain.predictors) if result.gain.predictors else "the mean"


def _in_points(gain: Estimate) -> Estimate:
    """Return a gain of ranks from 0 to 1 in percent of all ranks."""
    value, low, high = (100 * part for part in gain.clipped(-1, 1)[:3])
    return Estimate(value, low, high, gain.n)


def foretells(result: ProbeResult, pvalue: float, terms: Terms) -> Sentence | Untested:
    prediction = result.divergence
    area = prediction.auroc
    if not prediction.is_testable:
        return Untested("whether {probe} foretells divergence", (_exchanged(terms),))
    if prediction.foretells(pvalue):
        which = "High" if area.value > 0.5 else "Low"
        return _told(result, f"{which} values of {{probe}} foretell divergence: AUROC {plain_words(area)}.")
    few = counted(area.n, terms.treatment)
    return _open(result, f"{few} do not show whether {{probe}} foretells divergence; more would.")


def agrees(result: ProbeResult, terms: Terms, noun: str) -> Sentence | Untested:
    """Return whether a probe orders the treatments at one seed as at another."""
    agreement, treatment = result.agreement, terms.treatment
    what = f"whether {{probe}} orders the {treatment}s alike at another seed"
    if math.isnan(agreement.value):
        return Untested(what, (_exchanged(terms), "seed"))
    if result.by_workload["n"].max() < MINIMUM_TREATMENTS:
        return Untested(what, (_exchanged(terms),))
    if agreement.side():
        alike = "alike" if agreement.side() > 0 else "the other way round"
        text = f"From seed to seed {{probe}} orders the {treatment}s {alike}: ρ = {plain_words(agreement, _RHO)}."
        return _told(result, text)
    if agreement.n < MINIMUM_SEEDS:
        return Untested(what, (noun,))
    several = counted(agreement.n, noun)
    if agreement.has_interval:
        return _open(result, f"{capitalized(what)} is unknown: {several} do not show it; more would.")
    rho = f"ρ = {plain_words(agreement, _RHO)} on each of {several}; an interval needs values that differ"
    return _open(result, f"From seed to seed, the orders of the {treatment}s by {{probe}} correlate with {rho}.")


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
    metric, several, nouns = results.terms.metric, f"{results.terms.treatment}s", f"{results.names.noun}s"
    show = (
        "probe form rho treatments workloads pvalue_holm pvalue_benjamini_hochberg precision_1 regret_1 regret_3 "
        "regret_at_random gain auroc seed_agreement batch_spread seconds"
    )
    note = (
        f"Mean ρ: over {nouns}, its interval over {several}; p-values come from permuting the labels of the {several} "
        f"jointly over all {nouns}, and are corrected for the number of rows by Holm’s method or by Benjamini and "
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
        **(result.rho if result.rho.has_interval and result.test.is_testable else NONE).columns("rho"),
        "treatments": result.rho.n,
        "workloads": result.test.workloads,
        "pvalue": result.test.pvalue,
        "pvalue_holm": holm,
        "pvalue_benjamini_hochberg": benjamini_hochberg,
        **result.pooled.rho.columns("pooled_rho"),
        "i_squared": result.pooled.i_squared,
    }
    for k, chosen in result.chosen.items():
        row |= chosen.regret.columns(f"regret_{k}") | chosen.precision.columns(f"precision_{k}")
    return row | {
        "regret_at_random": result.chosen[1].regret_at_random.value,
        **result.gain.gain.columns("gain"),
        "gain_pvalue": result.gain.pvalue,
        **result.divergence.auroc.columns("auroc"),
        "auroc_pvalue": result.divergence.pvalue,
        **result.agreement.columns("seed_agreement"),
        "batch_spread": result.spread.value,
        "seconds": result.seconds,
    }
