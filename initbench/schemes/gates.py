"""The gates that a model's residual branches already have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from initbench.structure.gates import scalar_gate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

    from initbench.structure.find import Structure
    from initbench.structure.residual import ResidualBranch


@torch.no_grad()
def take_over_gates(
    model: nn.Module, structure: Structure, branches: Iterable[ResidualBranch], value: float
) -> list[ResidualBranch]:
    """Set the gates that branches have: a scalar to a scheme's value, others, such as a LayerScale's, to 1.

    So are gains of 0 that a branch's last weight is multiplied by, as in NF-ResNets. Two gates in a row that both start
    near 0 would have no gradient: of α·β, that of α is β's value.

    Args:
        model: is changed.
        structure: of the model.
        branches: those of it whose gates are meant.
        value: at which the scheme's multipliers start.

    Returns:
        The branches without a scalar gate, which need a multiplier.
    """
    without = []
    gains = {layer.name: layer.gains for layer in structure.layers}
    for branch in branches:
        scalar = scalar_gate(model, branch)
        for gate in branch.gates:
            model.get_parameter(gate).fill_(value if gate == scalar else 1.0)
        for gain in (model.get_parameter(name) for end in branch.ends for name in gains[end]):
            if not gain.is_meta and not gain.any():
                gain.fill_(1.0)
        if scalar is None:
            without.append(branch)
    return without
