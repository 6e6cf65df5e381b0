"""What a scheme is told of the model that it changes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from initbench.architectures.residual import ResidualBranch, residual_branches

if TYPE_CHECKING:
    from torch import nn


class Structure:
    """What is known of a model, looked for when it is first asked for: a scheme may do without.

    Args:
        model: as it is before the scheme.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    @cached_property
    def branches(self) -> tuple[ResidualBranch, ...]:
        """The residual branches, in the order in which they are added.

        Raises:
            ValueError: they cannot be looked for.
        """
        return tuple(residual_branches(self._model))
