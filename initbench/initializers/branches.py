"""The residual branches of a model, as the initializers that need them ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.errors import InitializationError
from initbench.structure.gates import scalar_gate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import nn

    from initbench.initializers.context import InitializationContext
    from initbench.structure.find import Structure
    from initbench.structure.residual import ResidualBranch


def known_branches(context: InitializationContext) -> tuple[ResidualBranch, ...]:
    """Return the model's residual branches, of which there may be none, and record how many they are.

    Raises:
        InitializationError: they cannot be told, or the model does not run on its inputs.
    """
    structure = context.structure
    if "branches" in structure.unknown:
        reason = structure.unknown["branches"]
        raise InitializationError(f"{context.record.initializer}: the residual branches cannot be told: {reason}")
    context.record.conditions["residual_branches"] = len(structure.branches)
    return structure.branches


def required_branches(context: InitializationContext) -> tuple[ResidualBranch, ...]:
    """Return the model's residual branches, and record how many they are.

    Raises:
        InitializationError: there are none, they cannot be told, or the model does not run on its inputs.
    """
    branches = known_branches(context)
    if not branches:
        kind = type(context.model).__name__
        raise InitializationError(f"{context.record.initializer}: no residual branches are found in {kind}")
    return branches


def required_gates(model: nn.Module, branches: Iterable[ResidualBranch], scheme: str) -> list[str]:
    """Return the scalar gate of each branch, by the parameter's name.

    Raises:
        InitializationError: a branch has none.
    """
    found: list[str] = []
    for branch in branches:
        gate = scalar_gate(model, branch)
        if gate is None:
            raise InitializationError(
                f"{scheme}: the residual branch of {branch.block or type(model).__name__} ends in no scalar "
                f"multiplier; initbench.rewrite(model, '{scheme}') puts one there"
            )
        found.append(gate)
    return found


def weights_of(model: nn.Module, structure: Structure, layers: Iterable[str]) -> Iterator[nn.Parameter]:
    """Yield the weights of layers given by their names; of a parametrized one the largest parameter it is made from."""
    names = set(layers)
    for layer in structure.layers:
        if layer.name in names:
            yield model.get_parameter(layer.weight)
