"""Do the claims of a paper hold?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from initbench.claims.evidence import Evidence
from initbench.claims.judge import judge_claims
from initbench.claims.verdict import ClaimVerdict
from initbench.comparing.formatting import counted
from initbench.reporting.answer import Answer
from initbench.reporting.criteria_in_words import criterion_words, measured_words
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.tables import table_of

_MOST_GROUPS = 3  # of a criterion, that a sentence gives; the table has all
_STATUSES = ("held", "did not hold", "undecided", "not run")
_COLUMNS = ["claim", "source", "status", "criterion", "refutes", "measured", "seeds", "caution"]


def claims(results: Results | str | Path) -> Answer | None:
    """Return whether the claims of the suites hold; None if they state none.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    verdicts = _verdicts(results)
    if not verdicts:
        return None
    rows = []
    for verdict in verdicts:
        for refutes, criteria in ((False, verdict.criteria), (True, verdict.refutations)):
            for one in criteria:
                criterion = "Refuted by: " * refutes + criterion_words(one.criterion, one.metric)
                claim, measured = verdict.claim, measured_words(one, one.metric)
                rows.append((claim.id, claim.source, one.status, criterion, refutes, measured, one.n, claim.caution))
    note = (
        "A claim held if all of its criteria held, and did not hold if one did not; a claim that says what would "
        "refute it did not hold if that was found. Each is judged by itself, without a correction for their number."
    )
    title, frame = "Every claim with its criteria", pd.DataFrame(rows, columns=_COLUMNS)
    table = table_of(results, "claims", title, frame, "claim source criterion status measured", note)
    sentences = [overall_sentence(verdicts), *_sentences(verdicts)]
    remarks = [f"{one.claim.id}: {one.claim.caution}" for one in verdicts if one.claim.caution]
    return Answer("claims", "Do the claims hold?", sentences, [table], remarks=remarks, facts=verdicts)


def evidence_of(results: Results) -> Evidence:
    """Return the trials of a report as claims are judged by them."""
    return Evidence(
        trials=results.trials,
        trials_under=results.trials_under,
        searched=results.searched,
        tuned=() if results.tune is None else results.tune.keys,
        metrics=results.metrics,
        described=results.described,
        records=results.by_id,
    )


@once
def _verdicts(results: Results) -> list[ClaimVerdict]:
    evidence = evidence_of(results)
    return [one for stated in results.source.stated for one in judge_claims(evidence, stated.claims, stated.seeds)]


def overall_sentence(verdicts: Sequence[ClaimVerdict]) -> Sentence:
    """Return how many claims held."""
    counts = {status: sum(one.status == status for one in verdicts) for status in _STATUSES}
    first, *others = [f"{number} {status}" for status, number in counts.items() if number]
    rest = "".join(f", {text}" for text in others)
    return say(f"Of {counted(len(verdicts), 'claim')}, {{first!b}}{rest}.", first=first)


def _sentences(verdicts: Sequence[ClaimVerdict]) -> Iterator[Sentence]:
    """Yield for each claim its status, then each criterion with what was measured."""
    for verdict in verdicts:
        claim = verdict.claim.claim
        yield say("{status!b}.", status=verdict.status.capitalize(), subject=claim)
        if verdict.lacks:
            yield say("{lacks}.", lacks=verdict.lacks, subject=claim, is_open=True)
        for number, one in enumerate(verdict.judged):
            head = one.status.capitalize() if len(verdict.judged) > 1 else "Measured"
            if number >= len(verdict.criteria):
                head = f"What would refute it: {one.status}"
            measured = measured_words(one, one.metric, _MOST_GROUPS)
            if measured:
                yield say(f"{head}: {{measured}}.", measured=measured, subject=claim, is_open=one.status == "undecided")
