"""A plug-in of one file: a learnable gate behind every residual branch, and an initializer that needs it."""

import torch
from torch import nn

import initbench
from initbench import ArgumentError, Initializer


class Gate(nn.Module):
    """Multiplies its input by one learnable number."""

    def __init__(self, start: float):
        super().__init__()
        self.value = nn.Parameter(torch.full((1,), start))

    def forward(self, x):
        """Return a tensor of the shape of x."""
        return self.value * x


@initbench.register_scheme("half_gates")
def half_gates(model: nn.Module, structure: initbench.Structure, start: float = 0.5) -> nn.Module:
    """A learnable gate behind every residual branch.

    Args:
        start: its first value.
    """
    if not 0 < start <= 1:
        raise ArgumentError(f"must be above 0 and at most 1, got {start}", "start")
    initbench.end_branches(model, structure, lambda: Gate(start), "gate")
    return model


@initbench.register_initializer("small_gates", scheme="half_gates")
def small_gates(base: Initializer | None = Initializer("kaiming"), value: float = 0.1):  # a value
    """Another initializer, and one value for all gates.

    Args:
        base: what draws the weights; null takes the model as it is.
        value: of the gates.
    """

    def apply(model, context):
        context.apply(base, model)
        for module in model.modules():
            if isinstance(module, Gate):
                module.value.data.fill_(value)

    return apply
