"""Every question of a report, in the order of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.reporting.analyses.layers import layers
from initbench.reporting.analyses.stable_rates import stable_rates
from initbench.reporting.analyses.tunability import tunability
from initbench.reporting.analyses.tuning import tuning
from initbench.reporting.questions.claims import claims
from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.cost import cost
from initbench.reporting.questions.depth import depth_profile
from initbench.reporting.questions.divergence import divergence
from initbench.reporting.questions.prediction import predict
from initbench.reporting.questions.protocols import protocols
from initbench.reporting.questions.published import published
from initbench.reporting.questions.training import training_curves
from initbench.reporting.questions.variance import variance
from initbench.reporting.questions.workloads import workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.reporting.analyses.analysis import Analysis
    from initbench.reporting.results import Results

_OF_PAPERS = (claims, published)
_OF_OUTCOMES = (compare, protocols, tunability, stable_rates, predict)
_OF_ANY = (cost, training_curves, depth_profile, tuning, layers)
_MORE_OF_OUTCOMES = (divergence, variance)


def every_analysis(results: Results) -> Iterator[Analysis]:
    """Yield what answers each question that the results can be asked.

    Where no trial has an outcome, none is asked that is about outcomes; where a suite still searches, none at all.

    Args:
        results: as from `read_results`.
    """
    if results.trials.empty:
        return
    has_outcomes = len(results.judged) > 0
    makers = [
        *_OF_PAPERS,
        *(_OF_OUTCOMES if has_outcomes else ()),
        *_OF_ANY,
        *(_MORE_OF_OUTCOMES if has_outcomes else ()),
        workloads,
    ]
    for make in makers:
        if (found := make(results)) is not None:
            yield found
