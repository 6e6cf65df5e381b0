"""Who leads, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.reporting.sizes import difference_words
from initbench.reporting.words.fitting import said

if TYPE_CHECKING:
    from initbench.reporting.analyses.lead import Lead
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence


def lead_words(lead: Lead | None, results: Results) -> list[Sentence]:
    """Return who is better than whom, and by how much; nothing where that cannot be told.

    Args:
        lead: as from `lead.find_lead`.
        results: that it is of.
    """
    if lead is None:
        return []
    at = at_values(results)
    names = {"winner": results.names.treatment(lead.winner), "loser": results.names.treatment(lead.loser)}
    places = results.names.workloads_of(lead.difference.n)
    if not lead.workload and lead.is_of_ranks:
        low, high = lead.difference.low, lead.difference.high
        texts = [
            f"Over {places}, {{winner}} ranks first, ahead of {{loser}} by {{size}}",
            f"Over {places}, {{winner}} ranks first, ahead of the last by {{size}}",
        ]
        size = f"{lead.difference.value:.1f} ranks ({low:.1f} to {high:.1f})"
        return [said(*(f"{text}{end}." for end in at for text in texts), names=names, bold=["winner"], size=size)]
    metric = results.metric_of[lead.workload or next(iter(results.metric_of))]
    size = difference_words(lead.difference, metric)
    if not lead.workload:
        text = f"Over {places}, {{winner}} beats {{loser}} by {{size}} on average"
        return [said(*(f"{text}{end}." for end in at), names=names, bold=["winner"], size=size)]
    names["place"] = results.names.workload(lead.workload)
    text = "On {place}, {winner} beats {loser} by {size}"
    return [said(*(f"{text}{end}." for end in at), names=names, bold=["winner", "place"], size=size)]


def at_values(results: Results) -> list[str]:
    """Return at what values the treatments of a tuned suite are compared, as ends of a sentence, the longest first."""
    if results.tune is None or not results.tune.protocol:
        return [""]
    tune = results.tune
    short = f"each at its own best {tune.noun}" if tune.protocol == "own" else f"all {tune.at(tune.protocol)}"
    return [f", {tune.chosen()}", f", {short}"]
