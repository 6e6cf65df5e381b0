"""How much disk the checkpoints of a suite take, before one is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.registry import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from initbench.suite.schema import Checkpoints
    from initbench.suite.spec import TrialSpec

# Moments of each optimizer, as large as the parameters; of `sgd` without momentum none.
_MOMENTS = {"sgd": 1, "signsgd": 1, "adam": 2, "adamw": 2}
_FLOAT_BYTES = 4


def checkpoint_bytes(trial: TrialSpec) -> int | None:
    """Return about how large a checkpoint of a trial is: parameters, buffers and moments; None where it is not known.

    What a scheme adds is left out, and so are the random streams and the history, some tens of kilobytes.
    """
    from initbench.architectures.size import model_size

    component = ARCHITECTURES.get(trial.architecture.name)
    try:
        arguments = component.resolve(trial.architecture.arguments)
        inputs, outputs = trial.dataset.inputs, trial.dataset.outputs
        assert inputs is not None
        size = model_size(component, arguments, inputs=inputs, outputs=outputs)
    except Exception:  # noqa: BLE001  # an architecture may not be made for the meta device; the trial runs all the same
        return None
    recipe = trial.recipe
    moments = 0 if recipe.optimizer == "sgd" and not recipe.momentum else _MOMENTS[recipe.optimizer]
    return size.bytes + moments * _FLOAT_BYTES * size.parameters


def largest_checkpoint(trials: Iterable[TrialSpec]) -> int | None:
    """Return the bytes of the largest checkpoint among trials, None where none is known."""
    kinds = {
        (t.architecture.model_dump_json(), t.dataset.model_dump_json(), t.recipe.optimizer, t.recipe.momentum > 0): t
        for t in trials
    }
    known = [size for trial in kinds.values() if (size := checkpoint_bytes(trial)) is not None]
    return max(known, default=None)


def sentence(asked: Checkpoints, largest: int | None) -> str:
    """Return when a trial is kept and what that takes, in words.

    Args:
        asked: what the suite asks for.
        largest: the bytes of the largest checkpoint; None where it is not known.
    """
    if asked.every_epochs is not None:
        every = "epoch" if asked.every_epochs == 1 else f"{asked.every_epochs} epochs"
    else:
        minutes = (asked.every_seconds or 0) / 60
        every = "minute" if minutes == 1 else f"{minutes:g} minutes"
    takes = "" if largest is None else f", up to {_size(largest)} each"
    return f"a checkpoint every {every} of a trial{takes}; a trial under way has one, while it is written two"


def _size(number: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number} bytes"
