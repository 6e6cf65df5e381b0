"""Every question of a report, each a function from results to an `Answer`: the one list of them."""

from __future__ import annotations

from collections.abc import Iterator

from initbench.reporting.answer import Answer
from initbench.reporting.questions.claims import claims
from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.cost import cost
from initbench.reporting.questions.depth import depth_profile
from initbench.reporting.questions.divergence import divergence
from initbench.reporting.questions.layers import layers
from initbench.reporting.questions.overview import overview
from initbench.reporting.questions.prediction import predict
from initbench.reporting.questions.protocols import protocols
from initbench.reporting.questions.published import published
from initbench.reporting.questions.scaling import scaling
from initbench.reporting.questions.stable_rates import stable_rates
from initbench.reporting.questions.training import training_curves
from initbench.reporting.questions.transfer import transfer
from initbench.reporting.questions.tunability import tunability
from initbench.reporting.questions.tuner_steps import tuner_steps
from initbench.reporting.questions.tuning import tuning
from initbench.reporting.questions.variance import variance
from initbench.reporting.questions.workloads import workloads
from initbench.reporting.results import Results

__all__ = [
    "claims",
    "compare",
    "cost",
    "depth_profile",
    "divergence",
    "layers",
    "overview",
    "predict",
    "protocols",
    "published",
    "scaling",
    "stable_rates",
    "training_curves",
    "transfer",
    "tunability",
    "tuner_steps",
    "tuning",
    "variance",
    "workloads",
]
_ON_PAGE = (
    *(claims, published, compare, protocols, tunability, stable_rates, transfer, predict),
    *(cost, training_curves, depth_profile, scaling, tuning, layers, divergence, variance, workloads),
)
_ABOUT_OUTCOMES = {compare, protocols, tunability, stable_rates, transfer, predict, divergence, variance}


def every_answer(results: Results) -> Iterator[Answer]:
    """Yield the answers of a report in the order of its page; none while a suite still searches."""
    if results.trials.empty:
        return
    has_outcomes = len(results.judged) > 0
    for question in _ON_PAGE:
        if (has_outcomes or question not in _ABOUT_OUTCOMES) and (answer := question(results)) is not None:
            yield answer
