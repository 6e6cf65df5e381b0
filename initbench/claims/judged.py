"""Claims, judged by the trials of a report."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np

from initbench.claims.counting import LEAST_SEEDS
from initbench.claims.criteria import Correlation, RateRatio
from initbench.claims.evidence import Evidence
from initbench.claims.judge import judge, judge_correlations
from initbench.claims.layer_criteria import LayerCriterion
from initbench.claims.layers import layer_groups
from initbench.claims.rates import rate_groups
from initbench.claims.verdict import CriterionVerdict, of_claim, of_groups
from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.claims.claim import Claim
    from initbench.claims.criterion import Criterion
    from initbench.claims.groups import AtSeeds
    from initbench.claims.verdict import ClaimVerdict, Status
    from initbench.reporting.results import Results


def judge_claims(results: Results, claims: Sequence[Claim], seeds: int) -> list[ClaimVerdict]:
    """Return what each claim comes to.

    Args:
        results: the trials.
        claims: of the suite, or any others: ``Claim.model_validate`` makes one of plain data. A condition that no trial
            meets is no error here, and the claim is not run.
        seeds: that the suite has; with fewer than these nothing is judged, so that no one stops at a good moment.
    """
    evidence = Evidence(results)
    verdicts = []
    for claim in claims:
        criteria, refutations = (
            tuple(_judged(criterion, evidence, seeds) for criterion in own)
            for own in (claim.criteria, claim.refuted_by)
        )
        verdicts.append(of_claim(claim, criteria, refutations))
    return verdicts


def _judged(criterion: Criterion, evidence: Evidence, seeds: int) -> CriterionVerdict:
    try:
        if isinstance(criterion, Correlation):
            return _correlation(criterion, evidence)
        groups = _groups(criterion, evidence)
    except InitbenchError as error:
        return CriterionVerdict(criterion, "undecided", (), str(error))
    known = [group for group in groups if group.seeds]
    if not known:
        return CriterionVerdict(criterion, "not run", ())
    metric = evidence.metric(criterion.measure)
    sign = 1.0 if metric is None else metric.oriented(1.0)
    verdicts = tuple(replace(judge(criterion, group, sign=sign), diverged=group.diverged) for group in known)
    fewest = min(len(group.seeds) for group in known)
    lacks = next((group.problem for group in known if group.problem), "")
    if fewest < seeds or any(group.lacking for group in groups):
        lacks = f"{fewest if len(known) == len(groups) else 0} of {counted(seeds, 'seed')} have a result"
    elif fewest < LEAST_SEEDS:
        lacks = f"{counted(LEAST_SEEDS, 'seed')} are the fewest that tell anything"
    status: Status = "undecided" if lacks else of_groups([one.status for one in verdicts], criterion.groups)
    return CriterionVerdict(criterion, status, verdicts, lacks)


@singledispatch
def _groups(criterion: Criterion, evidence: Evidence) -> Sequence[AtSeeds]:
    return evidence.groups(
        list(criterion.selectors.values()),
        each=criterion.each,
        measure=criterion.measure,
        protocol=criterion.protocol,
        best_over=criterion.best_over,
    )


@_groups.register(LayerCriterion)
def _(criterion: LayerCriterion, evidence: Evidence) -> Sequence[AtSeeds]:
    return layer_groups(criterion, evidence)


@_groups.register(RateRatio)
def _(criterion: RateRatio, evidence: Evidence) -> Sequence[AtSeeds]:
    return rate_groups(criterion, evidence)


def _correlation(criterion: Correlation, evidence: Evidence) -> CriterionVerdict:
    tables = evidence.medians(criterion)
    if not tables:
        return CriterionVerdict(criterion, "not run", ())
    from scipy.stats import spearmanr

    known = [table for table in tables if all(len(np.unique(side)) > 1 for side in table)]
    correlations = np.array([float(spearmanr(*table).statistic) for table in known])
    lacks = "" if len(known) >= LEAST_SEEDS else f"{counted(LEAST_SEEDS, 'network')} are the fewest that tell anything"
    verdict = judge_correlations(correlations, criterion.at_least)
    if math.isnan(verdict.estimate.value):
        return CriterionVerdict(criterion, "undecided", (), lacks)
    return CriterionVerdict(criterion, "undecided" if lacks else verdict.status, (verdict,), lacks)
