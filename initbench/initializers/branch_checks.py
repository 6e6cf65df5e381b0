"""A check that training can change what an initializer has set to 0."""

from __future__ import annotations

from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.context import InitializationContext
from initbench.structure.backward import in_words, locked_branch

_SAMPLES = 2


def refuse_locked_branches(model: nn.Module, context: InitializationContext) -> None:
    """Raise an InitializationError if a head or a residual branch is 0 and stays 0 whatever the training.

    Branches that are closed by a single factor of 0, whose gradient is not 0, are what ZerO and Fixup intend. See
    `structure.backward.locked_branch`.
    """
    locked = locked_branch(model, context.sample_inputs(_SAMPLES), context.structure)
    if locked:
        raise InitializationError(f"{context.record.initializer}: {in_words(locked)}")
