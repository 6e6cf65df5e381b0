"""Gates: parameters by which a residual branch is multiplied behind its last weight layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from initbench.structure.residual import ResidualBranch


def scalar_gate(model: nn.Module, branch: ResidualBranch) -> str | None:
    """Return the first of a branch's gates that is one number, by its name; None where there is none.

    Such are the multipliers of Fixup (Zhang, Dauphin & Ma, 2019) and SkipInit (De & Smith, 2020), also those that
    models have on their own, as timm's NF-ResNets do.
    """
    return next((gate for gate in branch.gates if model.get_parameter(gate).numel() == 1), None)
