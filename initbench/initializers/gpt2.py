"""GPT-2's initialization of transformers: residual projections scaled by depth."""

from __future__ import annotations

import math
from typing import Literal

from torch import nn

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import transformer_blocks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.transformer_normals import Normal, Weight, draw_normals
from initbench.registry import register_initializer


@register_initializer(
    "gpt2",
    2,
    reference="Radford et al., Language Models are Unsupervised Multitask Learners (GPT-2), 2019, section 2.3; "
    "Shoeybi et al., Megatron-LM, 2019, section 4.2",
)
def gpt2(
    std: float = 0.02,
    residual: Literal["scaled", "unscaled", "zero"] = "scaled",
    position_std: float | None = None,
) -> Apply:
    """Entries ~ N(0, std²), divided by √(2N) in the last weights of the residual branches of N transformer blocks.

    Each block adds to its input twice, so with this factor the sum over N blocks does not grow with N. Drawn are the
    weights of linear layers, convolutions and attention, embeddings (padding rows are 0), and parameters that are added
    to the stream as position embeddings (`Structure.positions`). Biases are 0; norm layers get weight 1 and bias 0.
    Everything else, such as class tokens and LayerScale gates, stays as built and is recorded as untouched.

    Megatron-LM and Hugging Face's GPT-2 do the same. Hugging Face's Llama and BERT scale nothing: `residual` is
    ``unscaled`` there. OpenAI's code for GPT-2 scales nothing either, and draws positions with 0.01: `position_std`.

    Blocks are found by running the model once, see `transformer_blocks`; the record contains N and the weights that
    were taken for residual projections. Attention pooling with a feed-forward part is a block. A feed-forward part
    without attention, for example in a block of convolutions, is refused because the rule does not cover it. The
    projection of a cross-attention belongs to its block and leaves N unchanged, as in Megatron-LM. A block that runs
    several times counts once, and the stacks of an encoder and a decoder count together.

    Args:
        std: standard deviation of the entries; 0.02 as in GPT-2.
        residual: ``scaled`` as above; ``unscaled`` draws the residual projections like all other weights; ``zero`` sets
            them to 0, so that every branch adds nothing.
        position_std: standard deviation of the parameters that are added as position embeddings; null for `std`. A
            model without such a parameter is refused if this is given.

    Raises:
        ArgumentError: std or position_std is not a finite number above 0.
    """
    check_positive(std=std, position_std=position_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        blocks = transformer_blocks(model, context)
        if position_std is not None and not context.structure.positions:
            raise InitializationError(
                "gpt2: position_std is for a parameter that is added as position embeddings, and the model has none"
            )
        factor = {"scaled": 1 / math.sqrt(2 * blocks.number), "unscaled": 1.0, "zero": 0.0}[residual]

        def law(weight: Weight) -> Normal:
            if weight.role == "positions" and position_std is not None:
                return Normal(position_std)
            return Normal(std * factor if weight.role == "residual" else std)

        draw_normals(model, context, blocks, law)

    return apply
