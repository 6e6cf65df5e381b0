"""Which treatments diverge, and how often?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted
from initbench.reporting.answer import Answer
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.sizes import share_words
from initbench.reporting.tables import table_of
from initbench.statistics.cells import trial_outcomes
from initbench.statistics.divergence import divergence_rates
from initbench.statistics.intervals import Estimate

if TYPE_CHECKING:
    import pandas as pd


def divergence(results: Results | str | Path) -> Answer:
    """Return which treatments diverge.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    rates, treatment = divergence_rates(results.judged, trial_outcomes(results.trials)), results.terms.treatment
    note = (
        "On what share of its workloads at least one seed diverged, with Wilson's 95 % interval, simultaneous over "
        f"the {treatment}s."
    )
    show = "treatment workloads rate trials trials_diverged"
    table = table_of(results, "divergence", "How often each diverges", rates, show, note)
    tables = [table] if rates["trials_diverged"].any() else []
    return Answer("divergence", f"Which {treatment}s diverge?", _sentences(rates, results), tables, facts=rates)


def _sentences(rates: pd.DataFrame, results: Results) -> list[Sentence]:
    trials = trial_outcomes(results.trials)["trial_id"].nunique()
    if not rates["trials"].any():
        return [say("No trial has a result, so nothing is known about divergence.", is_open=True)]
    if not rates["trials_diverged"].any():
        return [say(f"Not one of {trials} trials diverged." if trials > 1 else "The trial did not diverge.")]
    often = rates[rates["trials_diverged"] > 0].sort_values(["rate", "trials_diverged"], ascending=False, kind="stable")
    noun, sentences = results.names.noun, []
    only = f"on the only {noun}" + " on which it has a result" * (len(results.metric_of) > 1)
    for row in often.to_dict("records"):
        name, n = results.names.treatment(row["treatment"]), row["workloads"]
        on = f"in {row['trials_diverged']} of {counted(row['trials'], 'trial')} {only}"
        if n > 1:
            rate = Estimate(row["rate"], row["rate_low"], row["rate_high"], n)
            on = f"on {round(rate.value * n)} of {n} {noun}s at one seed or more, {share_words(rate)}"
        sentences.append(say(f"{{name!b}} diverges {on}.", name=name))
    return sentences
