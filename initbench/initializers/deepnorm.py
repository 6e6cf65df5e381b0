"""DeepNorm's initialization: Xavier's law, smaller in values, outputs and feed-forward parts."""

from __future__ import annotations

from functools import partial

from torch import nn

from initbench.architectures.scalars import ConstantMultiplier
from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import transformer_stacks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, embeddings, normal_embedding
from initbench.initializers.transformer_gains import gains_by_role, xavier_by_role
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS
from initbench.structure.stacks import Stack

_ENCODER = 0.87


@register_initializer(
    "deepnorm",
    scheme="deepnorm",
    reference="Wang et al., DeepNet: Scaling Transformers to 1,000 Layers, 2022, Figure 2",
)
def deepnorm(beta: float | None = None) -> Apply:
    """Entries ~ N(0, β²·2/(fan_in + fan_out)) in feed-forward parts, values and outputs of attentions; else β is 1.

    Queries, keys and the layers outside of residual branches have β = 1; biases are 0, and embeddings are drawn from
    N(0, 1/features), as in fairseq. For N encoder and M decoder layers, β is 0.87·(N⁴M)^(-1/16) in the encoder and
    (12M)^(-1/4) in the decoder; for one stack of L layers it is (8L)^(-1/4). TorchScale, the authors' library, divides
    the encoder's weights by (N⁴M)^(1/16) / 1.15 instead.

    The scheme deepnorm multiplies the shortcuts by α.

    Args:
        beta: β of all stacks; null for the paper's.

    Raises:
        ArgumentError: beta is not a finite number above 0.
    """
    check_positive(beta=beta)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        stacks = transformer_stacks(context)
        if not any(isinstance(module, ConstantMultiplier) for module in model.modules()):
            raise InitializationError(
                "deepnorm: no shortcut is multiplied by α; initbench.rewrite(model, 'deepnorm') does it"
            )
        values = betas(stacks) if beta is None else [beta] * len(stacks)
        gains = gains_by_role(context, stacks, values, queries=1.0)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        writer = ParameterWriter(model, context)
        for weight, padding in embeddings(model):
            writer.draw(weight, partial(normal_embedding, weight, weight.shape[1] ** -0.5, padding))
        for module in model.modules():
            for layer in weight_layers(module):
                gain = gains.get(names[id(layer.weight)], 1.0)
                writer.draw(layer.weight, partial(xavier_by_role, layer, gain, 1.0, "normal"))
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
        context.record.conditions |= {
            stack.kind: {"layers": stack.layers, "beta": value} for stack, value in zip(stacks, values, strict=True)
        }

    return apply


def betas(stacks: tuple[Stack, ...]) -> list[float]:
    """Return the paper's β of each stack (Figure 2)."""
    if len(stacks) == 1:
        return [(8 * stacks[0].layers) ** -0.25]
    n, m = (stack.layers for stack in stacks)
    return [_ENCODER * (n**4 * m) ** (-1 / 16), (12 * m) ** -0.25]
