"""Who leads, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.reporting.words.fitting import said
from initbench.reporting.words.sizes import difference_words

if TYPE_CHECKING:
    from initbench.reporting.analyses.lead import Lead
    from initbench.reporting.results import Results
    from initbench.reporting.words.sentence import Sentence


def lead_words(lead: Lead | None, results: Results) -> list[Sentence]:
    """Return who is better than whom, and by how much; nothing where that cannot be told.

    Args:
        lead: as from `lead.find_lead`.
        results: that it is of.
    """
    if lead is None:
        return []
    names = {"winner": results.names.treatment(lead.winner), "loser": results.names.treatment(lead.loser)}
    places = results.names.workloads_of(lead.difference.n)
    if not lead.workload and lead.is_of_ranks:
        low, high = lead.difference.low, lead.difference.high
        return [
            said(
                f"Over {places}, {{winner}} ranks first, ahead of {{loser}} by {{size}}.",
                f"Over {places}, {{winner}} ranks first, ahead of the last by {{size}}.",
                names=names,
                bold=["winner"],
                size=f"{lead.difference.value:.1f} ranks ({low:.1f} to {high:.1f})",
            )
        ]
    metric = results.metric_of[lead.workload or next(iter(results.metric_of))]
    size = difference_words(lead.difference, metric)
    if not lead.workload:
        text = f"Over {places}, {{winner}} beats {{loser}} by {{size}} on average."
        return [said(text, names=names, bold=["winner"], size=size)]
    names["place"] = results.names.workload(lead.workload)
    text = "On {place}, {winner} beats {loser} by {size}."
    return [said(text, names=names, bold=["winner", "place"], size=size)]
