"""What training and depth show, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.sentence import Sentence, named
from initbench.reporting.words.sentence import bolded, first_fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.metric import Metric


def widest_gap(
    metric: Metric, treatment: str, workload: str, test: float, train: float, *, several: bool = False
) -> Sentence:
    """Return between which two values of the outcome's quantity test and training differ most.

    Args:
        metric: of the outcome.
        treatment: where that is.
        workload: likewise.
        test: the median at the end, on the split that the metric is of.
        train: on the training split.
        several: whether other workloads have other metrics, so that this is said of its own alone.
    """
    ends = (metric.beside_title.text(test), metric.beside_title.text(train))
    on, off = f"{ends[0]} on {metric.split} data", f"{ends[1]} on training data"
    if metric.oriented(test) > metric.oriented(train):
        return bolded(
            first_fitting(
                f"The {metric.quantity} of {treatment} on {workload} ends at {on} and {off}, the widest gap.",
                f"The widest gap between {metric.split} and training data is {metric.text(test)} against "
                f"{metric.text(train)}.",
            ),
            (treatment, workload),
        )
    if several:
        return bolded(
            first_fitting(
                f"The {metric.quantity} is nowhere worse on {metric.split} than on training data; nearest is "
                f"{treatment} on {workload}: {ends[0]} against {ends[1]}.",
                f"Nowhere does the {metric.quantity} end worse on {metric.split} data than on training data.",
            ),
            (treatment, workload),
        )
    return bolded(
        first_fitting(
            f"Nowhere is {metric.split} data behind training data; nearest is {treatment} on {workload}: "
            f"{metric.text(test)} against {metric.text(train)}.",
            f"Nowhere does the {metric.quantity} end worse on {metric.split} data than on training data.",
        ),
        (treatment, workload),
    )


def not_fitted(metric: Metric, train: float) -> Sentence:
    """Return that what did not train did not fit its training data either.

    Args:
        metric: of the outcome.
        train: the best median at the end on the training split.
    """
    return bolded(
        f"What did not train did not fit its training data either: there the {metric.quantity} ends at "
        f"{metric.beside_title.text(train)} at best."
    )


def fitted_alone(metric: Metric, treatment: str, workload: str, test: float, train: float) -> Sentence:
    """Return that a network fits its training data and has learned nothing that holds beyond them.

    Args:
        metric: of the outcome.
        treatment: where that is.
        workload: likewise.
        test: the median at the end, on the split that the metric is of.
        train: on the training split.
    """
    return bolded(
        first_fitting(
            f"{treatment} on {workload} fits its training data ({metric.text(train)}) and stays at chance on "
            f"{metric.split} data ({metric.text(test)}).",
            f"One network fits its training data ({metric.text(train)}) and stays at chance on {metric.split} data "
            f"({metric.text(test)}).",
        ),
        (treatment, workload),
    )


def best_end(metric: Metric, treatment: str, workload: str, value: float, step: int) -> Sentence:
    """Return which treatment ends best on a workload, where nothing is known of the training split."""
    shown = metric.beside_title.text(value)
    return bolded(
        first_fitting(
            f"On {workload}, {treatment} ends with the best {metric.title}: {shown} at step {step:,}.",
            f"The best {metric.title} at an end is {shown}, at step {step:,}.",
        ),
        (treatment, workload),
    )


def best_ends(metric: Metric, treatments: Sequence[str], workload: str, value: float) -> Sentence:
    """Return which treatments share the best end on a workload, where nothing is known of the training split."""
    shown = metric.beside_title.text(value)
    return bolded(
        first_fitting(
            f"On {workload}, {named(treatments)} end with the best {metric.title}: {shown}.",
            f"{len(treatments)} share the best {metric.title} at an end, {shown}.",
        ),
        (workload,),
    )


def no_end(diverged: bool) -> Sentence:
    """Return that no curve ends better than chance.

    Args:
        diverged: whether the median of every cell has diverged.
    """
    if diverged:
        return bolded("Every curve ends where at least half of its seeds diverged.")
    return bolded("No curve ends better than chance.")


def reach(family: str, everywhere: Sequence[str], deepest: int, least: str, least_depth: float) -> Sentence:
    """Return which treatments train at every depth of a family, and which gives up first.

    Args:
        family: its name.
        everywhere: treatments that train at every depth; may be empty.
        deepest: the largest depth that any treatment trains to, at all depths up to it; 0 for none.
        least: the treatment that trains to the smallest depth, which is none of those.
        least_depth: that depth; NaN where it trains at none.
    """
    only = "at none" if math.isnan(least_depth) else f"only to {least_depth:.0f}"
    if everywhere:
        verb = "train" if len(everywhere) > 1 else "trains"
        texts = [
            f"On {family}, {named(everywhere, most)} {verb} at every depth to {deepest}, {least} {only}."
            for most in (3, 2, 1)
        ]
        short = f"{len(everywhere)} of them {verb} at every depth to {deepest}; another {only}."
        return bolded(first_fitting(*texts, short), (family, *everywhere, least))
    if deepest:
        text = first_fitting(
            f"On {family}, none trains at every depth: the farthest reaches {deepest}, {least} {only}.",
            f"On {family}, none trains at every depth: the farthest reaches {deepest}.",
            f"None trains at every depth: the farthest reaches {deepest}.",
        )
        return bolded(text, (family, least))
    return bolded(
        first_fitting(f"On {family}, nothing trains at the smallest depth.", "Nothing trains at the smallest depth."),
        (family,),
    )


def steepest(
    metric: Metric, treatment: str, family: str, before: tuple[int, float], after: tuple[int, float]
) -> Sentence:
    """Return where the outcome gets worse the most from one depth to the next.

    Args:
        metric: of the outcome.
        treatment: where that is.
        family: likewise.
        before: a depth, and the median outcome there.
        after: likewise, of the next; not finite where it diverged.
    """
    shown = metric.beside_title
    ends = [f"{shown.text(y) if math.isfinite(y) else 'divergence'} at depth {x}" for x, y in (before, after)]
    return bolded(
        first_fitting(
            f"The {metric.title} worsens most with {treatment} on {family}: from {ends[0]} to {ends[1]}.",
            f"The {metric.title} worsens most from {ends[0]} to {ends[1]}.",
        ),
        (treatment, family),
    )


def no_worse(outcome: str) -> Sentence:
    """Return that no median outcome gets worse with depth.

    Args:
        outcome: in words.
    """
    return bolded(f"No median {outcome} worsens from one depth to the next.")
