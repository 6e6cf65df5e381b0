"""What one workload says, in short sentences: who is best, who did not train, who diverged, whose GQ is saturated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted
from initbench.reporting.sentence import Sentence, named
from initbench.reporting.sizes import outcome_words, value_words
from initbench.reporting.words.comparison import pair_words
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import bolded

if TYPE_CHECKING:
    from collections.abc import Callable

    from initbench.metric import Metric
    from initbench.reporting.terms import Terms
    from initbench.statistics.verdicts import WorkloadOrder


def workload_words(
    order: WorkloadOrder, metric: Metric, terms: Terms, display: Callable[[str], str] = str, *, subject: str = ""
) -> list[Sentence]:
    """Return the sentences on one workload, which is not named in them; at least one.

    Args:
        order: as from `verdicts.workload_order`.
        metric: of the workload.
        terms: of the comparison.
        display: a treatment's label → its display text.
        subject: the workload, as a display text.
    """
    sentences = [
        *_best(order, metric, terms, display, subject),
        *_untrained(order, metric, terms, display, subject),
        *_diverged(order, terms, display, subject),
    ]
    if order.saturated:
        whose = named([display(name) for name in order.saturated])
        sentences.append(
            said(
                "GQ is saturated for {whose}: the gradient has vanished, GQ says nothing of curvature.",
                "GQ is saturated for {whose}: the gradient has vanished.",
                f"GQ is saturated for {counted(len(order.saturated), terms.treatment)}: the gradient has vanished.",
                names={"whose": whose},
                subject=subject,
            )
        )
    return sentences


def _best(
    order: WorkloadOrder, metric: Metric, terms: Terms, display: Callable[[str], str], subject: str
) -> list[Sentence]:
    outcomes = order.outcomes
    if order.compared == 0:
        nothing = "Nothing was trained here: the trials were measured at initialization alone."
        text = nothing if order.seeds else "No trial has a result."
        return [bolded(text, is_open=not order.seeds, subject=subject)]
    if not len(outcomes):
        return [] if len(order.untrained) else [bolded(f"Every {terms.treatment} diverges.", subject=subject)]
    if len(outcomes) == 1:
        own = [metric.oriented(outcomes.iloc[0])]
        # Where chance is not known nothing is said of training.
        verb = "trains" if len(order.untrained) else "does not diverge"
        form = "Only {{first}} {verb}: {value}."
        if order.compared == 1:
            form = "{{first}}: {value}; there is nothing to compare it with."
        return [
            said(
                *(form.format(verb=verb, value=words(own, metric)) for words in (outcome_words, value_words)),
                names={"first": display(order.best)},
                bold=["first"],
                subject=subject,
            )
        ]
    sentences = []
    if order.behind:
        other = order.behind[0]
        difference = order.differences[other]
        found = pair_words(display(order.best), display(other), difference, metric, comparisons=order.comparisons)
        sentences.append(replace(found, subject=subject))
    leading = order.leading
    if len(leading) == 2:
        difference = order.differences[leading[1]]
        found = pair_words(display(leading[0]), display(leading[1]), difference, metric, comparisons=order.comparisons)
        sentences.append(replace(found, subject=subject))
    elif len(leading) > 2:
        values = [metric.oriented(outcomes[name]) for name in leading]
        sentences.append(
            said(
                f"{{who}} cannot be told apart, {outcome_words(values, metric)}; more seeds would tell.",
                f"{len(leading)} {terms.treatment}s cannot be told apart, {value_words(values, metric)}; "
                "more seeds would tell.",
                names={"who": named([display(name) for name in leading])},
                is_open=True,
                subject=subject,
            )
        )
    return sentences


def _untrained(
    order: WorkloadOrder, metric: Metric, terms: Terms, display: Callable[[str], str], subject: str
) -> list[Sentence]:
    untrained = order.untrained
    if not len(untrained):
        return []
    own = [metric.oriented(value) for value in untrained]
    values = value_words(own, metric)
    if len(untrained) == order.compared:
        text = f"No {terms.treatment} trains here: {values}, no better than guessing."
        return [bolded(text, subject=subject)]
    verb = "does" if len(untrained) == 1 else "do"
    return [
        said(
            f"{{who}} {verb} not train: {outcome_words(own, metric)}, no better than guessing.",
            f"{{who}} {verb} not train: {values}, no better than guessing.",
            f"{counted(len(untrained), terms.treatment)} {verb} not train: {values}, no better than guessing.",
            names={"who": named([display(str(name)) for name in untrained.index])},
            subject=subject,
        )
    ]


def _diverged(order: WorkloadOrder, terms: Terms, display: Callable[[str], str], subject: str) -> list[Sentence]:
    """Return one sentence for those that diverged at equally many of their seeds, the most often first."""
    together: dict[tuple[int, int], list[str]] = {}
    for name, counts in order.diverged.items():
        together.setdefault(counts, []).append(display(name))
    sentences = []
    for (diverged, seeds), names in sorted(together.items(), key=lambda item: -item[0][0] / item[0][1]):
        verb = "diverges" if len(names) == 1 else "diverge"
        at = (
            "the only seed"
            if seeds == 1
            else f"all {seeds} seeds"
            if diverged == seeds
            else f"{diverged} of {seeds} seeds"
        )
        several = f"{counted(len(names), terms.treatment)} {verb} at {at}."
        sentences.append(said(f"{{who}} {verb} at {at}.", several, names={"who": named(names)}, subject=subject))
    return sentences
