"""What a trial cost, in gradients of its training, with what its initializer used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.ledger import TrialRecord


def initialization_gradients(record: TrialRecord) -> float:
    """Return what the initializer used, in gradients of a training batch; NaN for a record that does not say.

    (f + 2 b) / 3 · B₀ / B: f forward and b backward passes over batches of B₀ samples, training batches having B. One
    gradient is a forward and a backward pass, and a backward pass counts as two forward passes, as it takes twice the
    multiplications. B₀ is the batch that the initializer recorded, else that of its spec, else B.

    Args:
        record: with its `initialization`, as from `Ledger.records`.
    """
    cost = record.initialization.get("cost")
    if not cost:
        return math.nan
    batch = float(record.spec["recipe"]["batch_size"])
    shape = record.initialization.get("conditions", {}).get("batch_shape")
    own = shape[0] if shape else record.spec["initializer"].get("batch_size") or batch
    return (cost["forward"] + 2 * cost["backward"]) / 3 * own / batch


def cost_to_target(record: TrialRecord, target: float) -> float:
    """Return the gradients until the test error is first at most a target, with those of the initializer; +∞ if never.

    Args:
        record: with its history, as from `Ledger.records`. Where that is per epoch, so is the answer.
        target: test error as a fraction.
    """
    begun = initialization_gradients(record)
    for entry in record.history:
        error = entry.get("test_error")
        if error is not None and error <= target:
            return begun + entry["step"]
    return math.inf


def cost_curves(records: Sequence[TrialRecord]) -> pd.DataFrame:
    """Return the test error of each trial against total compute.

    Args:
        records: with histories.

    Returns:
        One row per entry of a history that has a test error: ``trial_id``, ``gradients`` (initialization and steps up
        to there), ``test_error``.
    """
    rows = [
        {
            "trial_id": record.id,
            "gradients": initialization_gradients(record) + entry["step"],
            "test_error": entry["test_error"],
        }
        for record in records
        for entry in record.history
        if entry.get("test_error") is not None
    ]
    return pd.DataFrame(rows, columns=["trial_id", "gradients", "test_error"])
