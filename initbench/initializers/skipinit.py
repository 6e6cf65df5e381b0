"""SkipInit: residual networks without normalization, with a gate at the end of each branch."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from torch import nn

from initbench.arguments import check_positive
from initbench.errors import ArgumentError
from initbench.initializers.branches import required_branches, required_gates
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import sample, weight_layers
from initbench.initializers.parameter_writer import ParameterWriter
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS


@register_initializer(
    "skipinit",
    scheme="skipinit",
    reference="De & Smith, Batch Normalization Biases Residual Blocks Towards the Identity Function, NeurIPS 2020, "
    "section 4",
)
def skipinit(alpha: float | Literal["1/sqrt(d)"] = 0.0, embedding_std: float = 0.02) -> Apply:
    """Kaiming's law (fan_in) for all weights, zero biases, and α for the gate at the end of each residual branch.

    At α = 0 every residual block starts as its shortcut, and the gate is the only parameter of a branch with a nonzero
    gradient. At α = 1/√d, where d is the number of residual branches, the variance of the signal grows by at most a
    factor of e over all of them: (1 + 1/d)^d. ReZero (Bachlechner et al., 2021) is α = 0. `initbench.rewrite(model,
    "skipinit")` adds the gates to any residual network; gates with more than one number, such as LayerScale's, are set
    to 1.

    Args:
        alpha: the gates' value: a number, or ``1/sqrt(d)``. The paper uses 0, and also constants up to 1/√d.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: alpha is not finite, or embedding_std is not a finite number above 0.
    """
    if not isinstance(alpha, str) and not math.isfinite(alpha):
        raise ArgumentError(f"must be finite, got {alpha}", "alpha")
    check_positive(embedding_std=embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        branches = required_branches(context)
        gates = required_gates(model, branches, "skipinit")
        value = 1 / math.sqrt(len(branches)) if isinstance(alpha, str) else alpha
        writer = ParameterWriter(model, context)
        writer.draw_embeddings(model, embedding_std)
        for gate in [gate for branch in branches for gate in branch.gates]:
            writer.fill(model.get_parameter(gate), value if gate in gates else 1.0)
        for module in model.modules():
            for layer in weight_layers(module):
                writer.draw(layer.weight, partial(sample, layer, math.sqrt(2 / layer.fan_in), "normal"))
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
        context.record.conditions["alpha"] = value

    return apply
