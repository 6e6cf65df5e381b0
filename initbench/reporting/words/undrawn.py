"""What a report says of figures that could not be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.reporting.charts.figure import Figure

_MOST_REASONS = 3


def undrawn_words(figures: Sequence[Figure]) -> list[str]:
    """Return one notice on the figures that could not be drawn; none where all were.

    Args:
        figures: all of a report; those that are not drawn yet are waited for.
    """
    problems = [figure.problem for figure in figures if figure.problem]
    if not problems:
        return []
    reasons = "; ".join(list(dict.fromkeys(problems))[:_MOST_REASONS])
    share = f"{len(problems)} of {counted(len(figures), 'figure')}"
    return [f"{share} could not be drawn ({reasons}); their numbers stand in the tables."]
