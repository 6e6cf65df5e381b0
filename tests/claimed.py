"""Ledgers by which claims are judged: trials with a validation value, values per layer and factors of scaling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ledgers import ERROR, R_SQUARED, make_scored, make_spec, task_of
from planted import CHANCE, CHANCE_ERROR

from initbench.claims.claim import Claim
from initbench.claims.judge import judge_claims
from initbench.reporting.questions.claims import evidence_of
from initbench.reporting.records import slim
from initbench.reporting.results import Results
from initbench.reporting.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.claims.verdict import ClaimVerdict, CriterionVerdict
    from initbench.ledger import TrialRecord
    from initbench.metric import Metric

SEEDS = 5


def task_with_validation(metric: Metric, chance: float, error: float, name: str = "classification") -> dict[str, Any]:
    """Return a task's entry whose outcome has a chance level on the test and on the validation split."""
    known = replace(metric, chance=chance, chance_standard_error=error)
    held_out = replace(known, name=known.name.replace("test_", "validation_"), split="validation", primary=False)
    return task_of(known, held_out, name=name)


TASK = task_with_validation(ERROR, CHANCE, CHANCE_ERROR)
REGRESSION = task_with_validation(R_SQUARED, 0.0, 0.01, "regression")


def trial(
    initializer: str,
    seed: int = 0,
    *,
    outcome: float | None = 0.1,
    validation: float | None = None,
    lr: float = 0.1,
    batch_size: int = 64,
    depth: int = 28,
    layers: Mapping[str, float] | None = None,
    factors: Mapping[str, float] | None = None,
    step: int | None = 37,
    quotient: float = 0.5,
    task: Mapping[str, Any] = TASK,
) -> TrialRecord:
    """Return the record of one trial.

    Args:
        initializer: its name.
        seed: of the trial.
        outcome: on the test split; None for a diverged trial.
        validation: on the validation split, by default the outcome.
        lr: the learning rate.
        batch_size: of the training.
        depth: of the architecture.
        layers: what the probe ``norms`` measured of each layer.
        factors: by which the initializer scaled each tensor.
        step: at which a diverged trial diverged.
        quotient: the gradient quotient.
        task: as from `task_with_validation`.
    """
    recipe = {"lr": lr, "batch_size": batch_size}
    architecture = {"name": "plain", "depth": depth, "width": 1, "norm": "none"}
    dataset = {"name": f"{task['name']}_data"}
    spec = make_spec({"name": initializer}, architecture, seed, recipe=recipe, dataset=dataset, task=task["name"])
    held_out = outcome if validation is None else validation
    metrics = {task["primary"].replace("test_", "validation_"): None if outcome is None else held_out}
    metrics["diverged_at_step"] = step if outcome is None else None
    record = make_scored(spec, task, outcome, quotient=quotient, metrics=metrics)
    probes = [*record.probes, *([_per_layer(layers)] if layers else [])]
    tensors = {name: [{"event": "scaled", "factor": factor}] for name, factor in (factors or {}).items()}
    return replace(record, probes=probes, initialization=record.initialization | {"tensors": tensors})


def _per_layer(values: Mapping[str, float]) -> dict[str, Any]:
    lost = [str(value) for value in values.values() if not math.isfinite(value)]
    finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
    entry = {"name": "norms.per_layer", "kind": "per_layer", "values": finite, "unit": "", "conditions": {}}
    return entry | ({"values_reason": ", ".join(dict.fromkeys(lost))} if lost else {})


def results_of(records: Sequence[TrialRecord]) -> Results:
    """Return what claims are judged by, of records as a report reads them."""
    return Results(Source([slim(record) for record in records]))


def claim_of(*criteria: Mapping[str, Any], name: str = "one", **fields: Any) -> Claim:
    """Return a claim with these criteria."""
    data = {"id": name, "claim": "It does.", "source": "a paper", "criteria": list(criteria)} | fields
    return Claim.model_validate(data)


def verdict_of(records: Sequence[TrialRecord], claim: Claim, seeds: int = SEEDS) -> ClaimVerdict:
    """Return what a claim comes to."""
    (verdict,) = judge_claims(evidence_of(results_of(records)), [claim], seeds)
    return verdict


def judged(records: Sequence[TrialRecord], *, seeds: int = SEEDS, **criterion: Any) -> CriterionVerdict:
    """Return what one criterion comes to."""
    return verdict_of(records, claim_of(criterion), seeds).criteria[0]
