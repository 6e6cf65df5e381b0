"""Fixup: residual networks without normalization, by the depth of the network and zeros."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Literal

from torch import nn

from initbench.architectures.schemes import ScalarBias, ScalarMultiplier, residual_blocks
from initbench.errors import InitializationError
from initbench.initializers.context import Apply  # noqa: TC001 - the registry evaluates the annotations
from initbench.initializers.distribution import NORM_LAYERS, ParameterWriter, WeightLayer, sample, weight_layers
from initbench.probes.checks import check_positive
from initbench.registry import register_initializer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from initbench.initializers.context import InitializationContext


@register_initializer(
    "fixup", scheme="fixup", reference="Zhang, Dauphin & Ma, Fixup Initialization, ICLR 2019, section 3.2"
)
def fixup(
    mode: Literal["fan_in", "fan_out"] = "fan_out", nonzero: bool = False, scalar_learning_rate: float = 0.1
) -> Apply:
    """Kaiming's law, times L^(-1/(2m-2)) within residual branches, and 0 for the last layer of each and the classifier.

    L is the number of residual branches and m the number of layers of one. Scalar multipliers start at 1, scalar and
    other biases at 0. These are rules 1 to 3 of the paper; the classifier is the model's last linear layer.

    Where the paper and the authors' code differ, the weights follow the paper: their code leaves PyTorch's default in
    the first convolution. The learning rate of biases and multipliers follows the code: a tenth of that of the weights.

    Args:
        mode: Kaiming's fan; the authors' code has fan_out, that is output channels × kernel taps.
        nonzero: draw by Kaiming's law what else is 0: a start for methods that scale weights, such as metainit, whose
            paper (Dauphin & Schoenholz, 2019, Figure 3) has a Fixup without zeros and does not say which.
        scalar_learning_rate: of biases and multipliers, as a fraction of the learning rate.

    Raises:
        ValueError: scalar_learning_rate is not a finite number above 0.
    """
    check_positive("scalar_learning_rate", scalar_learning_rate)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        factors = _factors(model, nonzero)
        writer = ParameterWriter(model, context)
        for module in model.modules():
            for layer in weight_layers(module):
                factor = factors.get(id(layer.weight), 1.0)
                if factor == 0:
                    writer.fill(layer.weight, 0.0)
                else:
                    writer.draw(layer.weight, partial(_draw, layer, mode, factor))
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
            elif isinstance(module, ScalarMultiplier):
                writer.fill(module.scale, 1.0)
            elif isinstance(module, ScalarBias):
                writer.fill(module.bias, 0.0)
        context.record.conditions["residual_branches"] = len(residual_blocks(model))
        context.record.learning_rate_multipliers |= {
            name: scalar_learning_rate
            for name, _ in model.named_parameters()
            if name.rpartition(".")[2] in {"bias", "scale"}
        }

    return apply


def _factors(model: nn.Module, nonzero: bool) -> dict[int, float]:
    """Return by what Kaiming's law is multiplied for the weights of branches and classifier, by the weights' ids.

    Raises:
        InitializationError: the model has no residual branch, or no linear layer.
    """
    blocks = residual_blocks(model)
    if not blocks:
        raise InitializationError("fixup: the model has no residual branches that initbench knows of")
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise InitializationError("fixup: the model has no linear layer to take for its classifier")
    last = 1.0 if nonzero else 0.0
    factors = {id(linear[-1].weight): last}
    for block in blocks:
        *inner, end = block.branch_layers()
        for layer in inner:
            factors[id(layer.weight)] = len(blocks) ** (-1 / (2 * len(inner)))  # 2m - 2, where m counts the end too
        factors[id(end.weight)] = last
    return factors


def _draw(
    layer: WeightLayer, mode: Literal["fan_in", "fan_out"], factor: float, generator: torch.Generator
) -> tuple[Tensor, str]:
    fan = layer.fan_in if mode == "fan_in" else layer.fan_out
    values, law = sample(layer, factor * math.sqrt(2 / fan), "normal", generator)
    return values, f"fixup {mode} {law}, kaiming × {factor:.4g}"
