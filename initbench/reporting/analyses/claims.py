"""Do the claims of a paper hold?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from initbench.claims.evidence import Evidence
from initbench.claims.judge import judge_claims
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.columns import Column
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.claims import claim_words, criterion_words, measured_words, overall_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from initbench.claims.criteria import Criterion
    from initbench.claims.verdict import ClaimVerdict
    from initbench.metric import Metric
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_COLUMNS = ["claim", "source", "status", "criterion", "refutes", "measured", "seeds", "caution"]


@dataclass(frozen=True)
class Claims(Analysis):
    """What became of the claims of the suites.

    Attributes:
        results: that it is of.
        verdicts: of each claim.
    """

    results: Results
    verdicts: Sequence[ClaimVerdict]
    name: ClassVar[str] = "claims"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "Do the claims hold?"

    def metric(self, criterion: Criterion) -> Metric | None:
        """Return the metric that a criterion's measure is; None for one that is none."""
        return evidence_of(self.results).metric(criterion.measure)

    @cached_property
    def sentences(self) -> list[Sentence]:
        """How many held, then each claim."""
        found = overall_words(self.verdicts)
        for verdict in self.verdicts:
            found += claim_words(verdict, [self.metric(one.criterion) for one in verdict.judged])
        return found

    @cached_property
    def tables(self) -> list[Table]:
        """Every criterion of every claim."""
        rows = [
            {
                "claim": verdict.claim.id,
                "source": verdict.claim.source,
                "status": one.status,
                "criterion": "Refuted by: " * refutes + criterion_words(one.criterion, self.metric(one.criterion)),
                "refutes": refutes,
                "measured": measured_words(one, self.metric(one.criterion)),
                "seeds": one.n,
                "caution": verdict.claim.caution,
            }
            for verdict in self.verdicts
            for refutes, criteria in ((False, verdict.criteria), (True, verdict.refutations))
            for one in criteria
        ]
        columns = [
            Column("Claim", "text", "claim"),
            Column("Source", "text", "source"),
            Column("Criterion", "text", "criterion"),
            Column("Status", "text", "status"),
            Column("Measured", "text", "measured"),
        ]
        note = (
            "A claim held where all of its criteria did, and did not hold where one did not; a claim that says what "
            "refutes it did not hold where that is met. Each is judged by itself, not corrected for their number."
        )
        frame = pd.DataFrame(rows, columns=_COLUMNS)
        return [
            Table("claims", "Every claim with what would hold it up", frame, columns, note, names=self.results.names)
        ]

    @property
    def remarks(self) -> list[str]:
        """What must be known of single claims."""
        return [f"{one.claim.id}: {one.claim.caution}" for one in self.verdicts if one.claim.caution]


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


def claims(results: Results | str | Path) -> Claims | None:
    """Return what became of the claims of the suites; None where they have none.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    verdicts = [
        verdict
        for stated in results.source.stated
        for verdict in judge_claims(evidence_of(results), stated.claims, stated.seeds)
    ]
    return Claims(results, verdicts) if verdicts else None
