"""Looks-linear initialization: mirrored weights that make a ReLU network compute a linear function."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import WeightLayer, weight_layers
from initbench.initializers.orthogonal import haar_orthogonal
from initbench.initializers.parameter_writer import ParameterWriter, embeddings
from initbench.initializers.record import Law
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS


@register_initializer(
    "looks_linear",
    reference="Balduzzi et al., The Shattered Gradients Problem, ICML 2017, section 4.2",
)
def looks_linear(gain: float = 1.0, embedding_std: float = 0.02) -> Apply:
    """Orthogonal weights W, mirrored: W over -W first, [W, -W; -W, W] between, and [W, -W] last.

    A ReLU then receives x and -x in its two halves, and because x = ReLU(x) - ReLU(-x) the next layer recombines them:
    a network of ReLUs computes a linear function, and its gradients do not shatter. The first weight, in the order in
    which the model registers them, takes unmirrored inputs, and the last gives unmirrored outputs; embeddings, and
    layers that share their weight with one, do not count. Convolutions have W in the kernel's centre tap and zeros
    around it. The model needs at least two weights, even widths between them, and no groups.

    The function is exactly linear if only ReLU, average pooling, reshaping within a channel and additions of mirrored
    values lie between the layers. Norm layers and frozen weights break this; the record names them.

    Args:
        gain: multiplies each W; 1 keeps norms if W is square.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: gain or embedding_std is not a finite number above 0.
    """
    check_positive(gain=gain, embedding_std=embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        embedded = {id(weight) for weight, _ in embeddings(model)}
        everywhere = [layer for module in model.modules() for layer in weight_layers(module)]
        layers = {names[id(layer.weight)]: layer for layer in everywhere if id(layer.weight) not in embedded}
        order = list(layers)
        if len(order) < 2:
            raise InitializationError("looks_linear: the model needs at least two weights, to mirror and to join")
        writer = ParameterWriter(model, context)
        writer.draw_embeddings(model, embedding_std)
        for tied in [layer for layer in everywhere if id(layer.weight) in embedded]:
            writer.fill(tied.bias, 0.0)
        for name, layer in layers.items():
            inputs, outputs = name != order[0], name != order[-1]
            _check_halves(name, layer, inputs, outputs)
            writer.draw(layer.weight, partial(_mirrored, layer, inputs, outputs, gain))
            writer.fill(layer.bias, 0.0)
        norms = [name for name, module in model.named_modules() if isinstance(module, NORM_LAYERS)]
        for name in norms:
            writer.reset_norm(model.get_submodule(name))
        frozen = [name for name, layer in layers.items() if not layer.weight.requires_grad]
        context.record.conditions |= {"first": order[0], "last": order[-1], "frozen": frozen, "norm_layers": norms}

    return apply


def _check_halves(name: str, layer: WeightLayer, inputs: bool, outputs: bool) -> None:
    if layer.blocks > 1:
        raise InitializationError(f"looks_linear: {name}: a weight of {layer.blocks} groups does not join both halves")
    for mirrored, size, what in ((inputs, layer.inputs, "inputs"), (outputs, layer.outputs, "outputs")):
        if mirrored and size % 2:
            raise InitializationError(f"looks_linear: {name}: {size} {what} have no two halves")


def _mirrored(
    layer: WeightLayer, inputs: bool, outputs: bool, gain: float, generator: torch.Generator
) -> tuple[Tensor, Law]:
    """Return a weight, with inputs and outputs in mirrored halves where asked for, and its law."""
    w = gain * haar_orthogonal(layer.outputs // (1 + outputs), layer.inputs // (1 + inputs), generator)
    wide = torch.cat([w, -w], 1) if inputs else w
    matrix = torch.cat([wide, -wide]) if outputs else wide
    return layer.in_centre_taps([matrix]), {"law": "looks_linear", "gain": gain}
