"""LayerScale and ReZero: small gates at the ends of residual branches."""

from __future__ import annotations

import math

from torch import nn

from initbench.arguments import check_positive
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.branches import required_branches
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.parameter_writer import ParameterWriter
from initbench.initializers.truncated_normal import kept_deviation, truncated_normal
from initbench.registry import register_initializer
from initbench.structure.kinds import is_class_attention

_CUT = 2.0
_LARGEST_STD = 2000.0


@register_initializer(
    "layer_scale", 2, reference="Touvron et al., Going deeper with Image Transformers, ICCV 2021 (LayerScale)"
)
def layer_scale(value: float | None = None, std: float = 0.02, embedding_std: float = 0.02) -> Apply:
    """One value for all gates of residual branches; truncated normal weights and zero biases for the rest.

    A gate multiplies a branch after its last weight layer: the LayerScale of timm's and torchvision's models, such as
    `timm/convnext_atto` or `timm/cait_xxs24_224`, with one number per channel, and the scalar gates of scheme skipinit.
    With value 0 this is ReZero (Bachlechner et al., ReZero is all you need, 2021).

    Args:
        value: value of the gates; null for 0.1 up to 18 blocks, 1e-5 up to 24 and 1e-6 above, as in the LayerScale
            paper, where class-attention blocks (timm's CaiT and XCiT) do not count.
        std: standard deviation of the normal law of the weights, truncated at ±2 whatever the deviation, as in the
            authors' code: with their 0.02 the tails are practically complete.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: value is not finite, std or embedding_std is not a finite number above 0, or std is above 2000.
    """
    if value is not None and not math.isfinite(value):
        raise ArgumentError(f"must be finite, got {value}", "value")
    check_positive(std=std)
    if std > _LARGEST_STD:
        raise ArgumentError(f"must be at most {_LARGEST_STD:g}, got {std}", "std")
    bound = _CUT / std
    rest = truncated_normal(std * kept_deviation(bound), bound, embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        branches = required_branches(context)
        gates = [gate for branch in branches for gate in branch.gates]
        if not gates:
            raise InitializationError(
                "layer_scale: no residual branch ends in a gate; initbench.rewrite(model, 'skipinit') puts gates there"
            )
        blocks = {branch.block for branch in branches}
        # The rule's depth leaves out class-attention blocks, which follow the other blocks.
        counted = [name for name in blocks if not is_class_attention(model.get_submodule(name))]
        chosen = _by_depth(len(counted)) if value is None else value
        writer = ParameterWriter(model, context)
        for gate in gates:
            writer.fill(model.get_parameter(gate), chosen)
        context.record.conditions |= {"gates": len(gates), "value": chosen}
        rest(model, context)

    return apply


def _by_depth(blocks: int) -> float:
    return 0.1 if blocks <= 18 else 1e-5 if blocks <= 24 else 1e-6
