"""What searches tell, in sentences: how easily a good rate is found, and how far up training is stable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted
from initbench.reporting.questions.stable_rates import fold
from initbench.reporting.sentence import Sentence, named
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import bolded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.metric import Metric


def widest_words(widest: str, factor: float, narrowest: str, least: float, *, over: str, at_least: bool) -> Sentence:
    """Return whose range of good rates is the widest, and whose the narrowest.

    Args:
        widest: a treatment, as a display text.
        factor: of its range, the geometric mean over workloads.
        narrowest: another; empty where there is one alone.
        least: of its range.
        over: `` over 4 networks``; empty for one.
        at_least: whether the widest reaches the edge of what was tried.
    """
    most = f"{'at least ' if at_least else ''}{fold(factor)}-fold"
    if not narrowest:
        return said(f"Good rates of {{widest}} range {most}{over}.", names={"widest": widest}, bold=["widest"])
    how = f"{fold(least)}-fold" if least > 1 else "one rate alone"
    return said(
        f"Good rates range the widest with {{widest}}, {most}{over}, and the least with {{narrowest}}, {how}.",
        f"Good rates range the widest with {{widest}}, {most}, and the least with {{narrowest}}, {how}.",
        names={"widest": widest, "narrowest": narrowest},
        bold=["widest"],
    )


def tries_words(least: str, loss: float, most: str, largest: float, tries: int, metric: Metric) -> Sentence:
    """Return what one try loses against all, for whom the least and for whom the most.

    Args:
        least: a treatment, as a display text.
        loss: of the metric's outcome, as one that is worse by so much.
        most: another; empty where there is one alone.
        largest: its loss.
        tries: all of them.
        metric: of the outcomes.
    """
    first, second = metric.difference(max(loss, 0.0)), metric.difference(max(largest, 0.0))
    if not most:
        return said(f"One try loses {first} against {tries} with {{least}}.", names={"least": least})
    return said(
        f"One try loses {first} against {tries} with {{least}}, the least, and {second} with {{most}}.",
        names={"least": least, "most": most},
        bold=["least"],
    )


def edge_words(who: Sequence[str], end: str, *, subject: str) -> Sentence:
    """Return whose best rate lies at an edge of what was tried, so that a better one may lie beyond.

    Args:
        who: display texts.
        end: ``smallest`` or ``largest``.
        subject: the workload, as a display text.
    """
    verb = "lies" if len(who) == 1 else "lie"
    noun = "rate" if len(who) == 1 else "rates"
    return said(
        f"The best {noun} of {{who}} {verb} at the edge of what was tried, the {end}: a better one may lie beyond.",
        f"The best rates of {counted(len(who), 'treatment')} lie at the edge of what was tried, the {end}.",
        names={"who": named(list(who))},
        subject=subject,
    )


def no_edge_words(cells: int) -> Sentence:
    """Return that no cell's best rate lies at an edge."""
    return bolded(f"In none of {counted(cells, 'cell')} does the best rate lie at the edge of what was tried.")


def differing_words(chosen: Mapping[str, str], noun: str, *, subject: str) -> Sentence:
    """Return the seeds of which cells chose differently, and what where there is one such cell.

    Args:
        chosen: display text of a treatment → what its seeds chose, as from `searches.counts_text`.
        noun: what is chosen, in one word.
        subject: the workload, as a display text.
    """
    what = f": {next(iter(chosen.values()))}" if len(chosen) == 1 else ""
    return said(
        f"Seeds chose different {noun}s for {{who}}{what}.",
        f"Seeds chose different {noun}s for {{who}}.",
        names={"who": named(list(chosen))},
        subject=subject,
    )
