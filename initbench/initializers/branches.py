"""The residual branches of a model, as the initializers that need them ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.architectures.residual import residual_branches
from initbench.architectures.scalars import branch_multiplier
from initbench.errors import InitializationError
from initbench.initializers.distribution import weight_layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import nn

    from initbench.architectures.residual import ResidualBranch
    from initbench.architectures.scalars import ScalarMultiplier
    from initbench.initializers.context import InitializationContext


def required_branches(model: nn.Module, context: InitializationContext, initializer: str) -> list[ResidualBranch]:
    """Return the model's residual branches, and record how many they are.

    Raises:
        InitializationError: there are none, or they cannot be looked for.
    """
    try:
        branches = residual_branches(model)
    except ValueError as error:
        raise InitializationError(f"{initializer}: {error}") from error
    if not branches:
        raise InitializationError(f"{initializer}: no residual branches are found in {type(model).__name__}")
    context.record.conditions["residual_branches"] = len(branches)
    return branches


def branches_if_any(model: nn.Module, context: InitializationContext) -> list[ResidualBranch]:
    """Return the model's residual branches, none where they cannot be looked for; record their number, or why."""
    try:
        branches = residual_branches(model)
    except ValueError as error:
        context.record.conditions["residual_branches"] = str(error)
        return []
    context.record.conditions["residual_branches"] = len(branches)
    return branches


def required_multipliers(model: nn.Module, branches: list[ResidualBranch], scheme: str) -> list[ScalarMultiplier]:
    """Return the scalar multiplier of each branch.

    Raises:
        InitializationError: a branch has none.
    """
    found: list[ScalarMultiplier] = []
    for branch in branches:
        multiplier = branch_multiplier(model, branch)
        if multiplier is None:
            raise InitializationError(
                f"{scheme}: the residual branch of {branch.block} ends in no scalar multiplier; "
                f"initbench.rewrite(model, '{scheme}') puts one there"
            )
        found.append(multiplier)
    return found


def weights_of(model: nn.Module, layers: Iterable[str]) -> Iterator[nn.Parameter]:
    """Yield the weights of layers given by their names, as `weight_layers` gives them."""
    for name in layers:
        for layer in weight_layers(model.get_submodule(name)):
            yield layer.weight
