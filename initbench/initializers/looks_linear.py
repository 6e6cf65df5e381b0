"""Looks-linear initialization: mirrored weights that make a ReLU network compute a linear function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError
from initbench.initializers.context import Apply  # noqa: TC001 - the registry evaluates the annotations
from initbench.initializers.distribution import NORM_LAYERS, ParameterWriter, WeightLayer, weight_layers
from initbench.initializers.orthogonal import haar_orthogonal
from initbench.probes.checks import check_positive
from initbench.registry import register_initializer

if TYPE_CHECKING:
    from initbench.initializers.context import InitializationContext


@register_initializer(
    "looks_linear",
    reference="Balduzzi et al., The Shattered Gradients Problem, ICML 2017, section 4.2",
)
def looks_linear(gain: float = 1.0) -> Apply:
    """Orthogonal weights W, mirrored: W over -W first, [W, -W; -W, W] between, and [W, -W] last.

    A ReLU then gets x and -x in its two halves, and since x = ReLU(x) - ReLU(-x) the next layer puts them together
    again: a network of ReLUs computes a linear function, and its gradients do not shatter. The first and the last
    weight, in the order in which the model registers them, take and give what is not mirrored. Convolutions have W in
    the kernel's centre tap and zeros around it. The function is exactly linear where nothing but ReLU, pooling by the
    mean, reshaping within a channel and additions of mirrored values lies between the layers; norm layers, which the
    record names, keep it from being so.

    Args:
        gain: multiplies each W.

    Raises:
        ValueError: gain is not a finite number above 0.
    """
    check_positive("gain", gain)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        layers = {id(layer.weight): layer for module in model.modules() for layer in weight_layers(module)}
        order = list(layers)
        if len(order) < 2:
            raise InitializationError("looks_linear: the model needs two weights at least, to mirror and to join")
        writer = ParameterWriter(model, context)
        for key, layer in layers.items():
            mirror = _Mirror(layer, names[key], inputs=key != order[0], outputs=key != order[-1], gain=gain)
            writer.draw(layer.weight, mirror.draw)
            writer.fill(layer.bias, 0.0)
        norms = [name for name, module in model.named_modules() if isinstance(module, NORM_LAYERS)]
        for name in norms:
            writer.reset_norm(model.get_submodule(name))
        context.record.conditions["norm_layers"] = norms

    return apply


@dataclass(frozen=True)
class _Mirror:
    """A mirrored weight.

    Attributes:
        layer: whose weight.
        name: the weight's, for messages.
        inputs: whether its inputs come in mirrored halves.
        outputs: whether its outputs go out so.
        gain: multiplies W.
    """

    layer: WeightLayer
    name: str
    inputs: bool
    outputs: bool
    gain: float

    def draw(self, generator: torch.Generator) -> tuple[Tensor, str]:
        """Return the weight and what it is.

        Raises:
            InitializationError: an odd number of channels has no halves.
        """
        layer = self.layer
        for mirrored, size, what in (
            (self.inputs, layer.inputs, "inputs"),
            (self.outputs, layer.outputs, "outputs"),
        ):
            if mirrored and size % 2:
                raise InitializationError(f"looks_linear: {self.name}: {size} {what} have no two halves")
        rows, columns = layer.outputs // (1 + self.outputs), layer.inputs // (1 + self.inputs)
        blocks = torch.zeros(layer.blocks, layer.outputs, layer.inputs, *layer.kernel, dtype=torch.float64)
        centre = tuple(size // 2 for size in layer.kernel)
        for block in blocks:
            w = self.gain * haar_orthogonal(rows, columns, generator)
            wide = torch.cat([w, -w], 1) if self.inputs else w
            block[(..., *centre)] = torch.cat([wide, -wide]) if self.outputs else wide
        return layer.assemble(blocks), f"looks-linear, gain {self.gain:g}"
