"""Reports: what the trials of suites say. The same objects serve a notebook, a script and the page.

    results = initbench.reporting.read_results("runs/quickstart")
    answer = initbench.reporting.compare(results)       # the object behind the page's first question
    answer.sentences; answer.frame; answer.draw("figure.pdf")

Importing this package loads neither torch nor what draws.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from initbench.reporting.analyses.layers import layers
    from initbench.reporting.analyses.overview import overview
    from initbench.reporting.analyses.stable_rates import stable_rates
    from initbench.reporting.analyses.tunability import tunability
    from initbench.reporting.analyses.tuner_steps import tuner_steps
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
    from initbench.reporting.report import write_report
    from initbench.reporting.results import read_results

_PUBLIC = {
    "claims": "questions.claims",
    "compare": "questions.comparison",
    "cost": "questions.cost",
    "depth_profile": "questions.depth",
    "divergence": "questions.divergence",
    "layers": "analyses.layers",
    "overview": "analyses.overview",
    "predict": "questions.prediction",
    "protocols": "questions.protocols",
    "published": "questions.published",
    "read_results": "results",
    "stable_rates": "analyses.stable_rates",
    "training_curves": "questions.training",
    "tunability": "analyses.tunability",
    "tuner_steps": "analyses.tuner_steps",
    "tuning": "analyses.tuning",
    "variance": "questions.variance",
    "workloads": "questions.workloads",
    "write_report": "report",
}

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
    "read_results",
    "stable_rates",
    "training_curves",
    "tunability",
    "tuner_steps",
    "tuning",
    "variance",
    "workloads",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
