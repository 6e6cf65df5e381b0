"""What an initializer costs: in the unit of training, steps, and whether its seconds can be compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from initbench.ledger import TrialRecord


def gradient_equivalents(cost: Mapping[str, int]) -> float:
    """Return what `forward` passes and `backward` calls of autograd cost, in gradients of one batch.

    A gradient is one forward pass and one backward pass, which costs twice as much: 3 passes. A derivative of a
    derivative goes back through all that was computed so far, so each call multiplies it by 3: F forward passes
    with B calls cost F · 3^(B/F) passes. A step of MetaInit (1 and 3) is thus 9 gradients; 9.5 to 10.7 were measured.
    """
    forward, backward = cost.get("forward", 0), cost.get("backward", 0)
    return float(forward * 3 ** (backward / forward) / 3 if forward else backward * 2 / 3)


def initialization_steps(record: TrialRecord) -> float:
    """Return how many training steps an initialization cost; NaN where the record does not say what it spent.

    Its batches may be of another size than those of training: gradients are counted by their samples.
    """
    cost = record.initialization.get("cost")
    if not cost:
        return math.nan
    trained = float(record.spec["recipe"]["batch_size"])
    own = float(record.spec["initializer"]["arguments"].get("batch_size") or trained)
    return gradient_equivalents(cost) * own / trained


def on_one_device(records: Iterable[TrialRecord]) -> bool:
    """Return whether all trials that came to a result ran on one kind of device: seconds of two are not comparable.

    A processor is named with what it can do; a GPU by its name, whatever processor serves it.
    """
    devices = set()
    for record in records:
        if record.status != "failed":
            device = record.environment.get("device")
            devices.add((device, record.environment.get("processor") if device == "cpu" else None))
    return len(devices) <= 1
