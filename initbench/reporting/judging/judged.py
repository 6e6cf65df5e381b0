"""Claims, judged by the trials of a report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from initbench.errors import InitbenchError
from initbench.reporting.formatting import counted
from initbench.reporting.judging.evidence import Evidence
from initbench.reporting.judging.judge import LEAST_SEEDS, chance_of, judge, judge_correlations
from initbench.reporting.judging.verdict import ClaimVerdict, CriterionVerdict, together
from initbench.suite.criteria import Correlation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.reporting.results import Results
    from initbench.suite.claims import Claim
    from initbench.suite.criteria import Criterion


def judge_claims(results: Results, claims: Sequence[Claim], seeds: int) -> list[ClaimVerdict]:
    """Return what each claim comes to.

    Args:
        results: the trials.
        claims: of the suite.
        seeds: that the suite has; with fewer than these nothing is judged, so that no one stops at a good moment.
    """
    evidence = Evidence(results)
    verdicts = []
    for claim in claims:
        criteria = tuple(_judged(criterion, evidence, seeds) for criterion in claim.criteria)
        verdicts.append(ClaimVerdict(claim, together([one.status for one in criteria]), criteria))
    return verdicts


def _judged(criterion: Criterion, evidence: Evidence, seeds: int) -> CriterionVerdict:
    if isinstance(criterion, Correlation):
        return _correlation(criterion, evidence)
    try:
        groups = evidence.groups(
            list(criterion.selectors.values()),
            each=criterion.each,
            measure=criterion.measure,
            protocol=criterion.protocol,
        )
    except InitbenchError as error:
        return CriterionVerdict(criterion, "undecided", (), 0.0, str(error))
    known = [group for group in groups if group.seeds]
    if not known:
        return CriterionVerdict(criterion, "not run", (), 0.0)
    metric = evidence.metric(criterion.measure)
    sign = 1.0 if metric is None else metric.oriented(1.0)
    verdicts = tuple(judge(criterion, group, sign=sign) for group in known)
    fewest = min(len(group.seeds) for group in known)
    lacks = ""
    if fewest < seeds or any(group.lacking for group in groups):
        lacks = f"{fewest if len(known) == len(groups) else 0} of {counted(seeds, 'seed')} have a result"
    elif fewest < LEAST_SEEDS:
        lacks = f"{counted(LEAST_SEEDS, 'seed')} are the fewest that tell anything"
    status = "undecided" if lacks else together([one.status for one in verdicts])
    return CriterionVerdict(criterion, status, verdicts, chance_of(criterion, fewest), lacks)


def _correlation(criterion: Correlation, evidence: Evidence) -> CriterionVerdict:
    try:
        tables = evidence.medians(criterion.of, criterion.each, criterion.measure, criterion.protocol)
    except InitbenchError as error:
        return CriterionVerdict(criterion, "undecided", (), 0.0, str(error))
    if not tables:
        return CriterionVerdict(criterion, "not run", (), 0.0)
    from scipy.stats import spearmanr

    known = [table for table in tables if all(len(np.unique(side)) > 1 for side in table)]
    correlations = np.array([float(spearmanr(*table).statistic) for table in known])
    lacks = "" if len(known) >= LEAST_SEEDS else f"{counted(LEAST_SEEDS, 'network')} are the fewest that tell anything"
    verdict = judge_correlations(correlations, criterion.at_least)
    if math.isnan(verdict.estimate.value):
        return CriterionVerdict(criterion, "undecided", (), 0.0, lacks)
    status = "undecided" if lacks else verdict.status
    return CriterionVerdict(criterion, status, (verdict,), chance_of(criterion, len(known)), lacks)
