"""What initialization costs, and what gets to a target with the least compute, in sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted
from initbench.comparing.formatting import steps as steps_words
from initbench.reporting.sentence import Sentence, named
from initbench.reporting.sizes import share_words
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import bolded

if TYPE_CHECKING:
    from collections.abc import Callable

    from initbench.reporting.terms import Terms
    from initbench.statistics.cost import Spending, Spent
    from initbench.statistics.profiles import Fastest


def spent_words(spent: Spent, terms: Terms, display: Callable[[str], str] = str) -> Sentence:
    """Return what initialization costs in training steps, the most first: ``450 steps, 2.7 times the training``.

    Args:
        spent: as from `cost.spent`.
        terms: of the comparison.
        display: a treatment's label → its display text.
    """
    if not spent.is_known:
        return bolded("Not known: the records do not say what initializers spent.", is_open=True)
    if not spent.spending:
        if spent.unknown:
            others = f"the other {terms.treatment}s cost nothing before training"
            return said(
                f"Of {{who}} it is not known; {others}.",
                f"Of {counted(len(spent.unknown), terms.treatment)} it is not known; {others}.",
                names={"who": named([display(name) for name in spent.unknown])},
                is_open=True,
            )
        return bolded(f"No {terms.treatment} costs a forward or a backward pass before training.")
    first, *more = spent.spending
    names = {"first": display(first.treatment), "second": display(more[0].treatment) if more else ""}
    own = f"{{first}}: {_amount(first)}"
    if more:
        templates = [f"{own}. {{second}}: {_amount(more[0])}."] if len(more) == 1 else []
        templates += [f"{own}, the most of {len(spent.spending)} that cost anything.", f"{own}."]
    else:
        # Those of which it is not known are no others that cost nothing.
        all_known = bool(spent.nothing) and not spent.unknown
        templates = [f"{own}. The others: nothing."] if all_known else []
        templates.append(f"{own}.")
    return said(*templates, names=names, bold=["first"])


def fastest_words(
    fastest: Fastest, terms: Terms, display: Callable[[str], str] = str, *, place: str = "workload"
) -> Sentence:
    """Return what reaches the targets with the least compute, its own passes included, on the most workloads.

    Args:
        fastest: as from `profiles.fastest`.
        terms: of the comparison.
        display: a treatment's label → its display text.
        place: a workload in one word.
    """
    if not fastest.names:
        return bolded(f"No {terms.treatment} gets to the target of any {place}.")
    on = f"{fastest.wins} of {counted(fastest.share.n, place)}"
    if len(fastest.names) > 1:
        return said(
            f"{{who}} each get to the target with the least compute on {on}, {{size}}.",
            f"{len(fastest.names)} {terms.treatment}s each get to the target with the least compute on {on}, {{size}}.",
            names={"who": named([display(name) for name in fastest.names])},
            size=share_words(fastest.share),
        )
    return said(
        f"{{first}} gets to the target with the least compute, its own passes included, on {on}, {{size}}.",
        f"{{first}} gets to the target with the least compute on {on}, {{size}}.",
        names={"first": display(fastest.names[0])},
        bold=["first"],
        size=share_words(fastest.share),
    )


def _amount(spending: Spending) -> str:
    """Return ``450 steps, 2.7 times the training``."""
    low, high = steps_words(spending.least), steps_words(spending.most)
    plural = "" if high in {"1", "less than 1"} else "s"
    own = f"{high} step{plural}" if low == high else f"{low} to {high} steps"
    if math.isnan(spending.most_times):
        return own
    ends = [_times(spending.least_times), _times(spending.most_times)]
    return f"{own}, {ends[0] if ends[0] == ends[1] else f'up to {ends[1]}'} the training"


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio >= 1 else f"{100 * ratio:.2g}\N{NO-BREAK SPACE}% of"
