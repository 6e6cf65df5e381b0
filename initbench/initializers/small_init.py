"""SmallInit, and Wang's law for residual projections: the initialization of GPT-NeoX-20B."""

from __future__ import annotations

import math
from typing import Literal

from torch import nn

from initbench.initializers.branches import transformer_blocks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.transformer_normals import Normal, Weight, draw_normals
from initbench.registry import register_initializer


@register_initializer(
    "small_init",
    reference="Nguyen & Salazar, Transformers without Tears: Improving the Normalization of Self-Attention, 2019; "
    "EleutherAI/gpt-neox at ea7aefd, megatron/model/init_functions.py (small_init, wang_init)",
)
def small_init(residual: Literal["wang", "small"] = "wang") -> Apply:
    """Entries ~ N(0, 2/(5d)), and N(0, (2 / (N√d))²) in the last weights of the residual branches of N blocks.

    d is the width of the stream that a layer reads or adds to, so the law of a feed-forward part's last weight does
    not depend on its number of inputs. For a convolution that cuts patches, d is the fan-in. The first law is Xavier's
    for a layer with d inputs and 4d outputs. Embeddings of tokens and positions and the head, tied or not, have it,
    too, as in GPT-NeoX.

    It draws the same parameters as `gpt2`, and a block is the same.

    Args:
        residual: ``wang`` as above, as GPT-NeoX-20B was trained; ``small`` for N(0, 2/(5d)) everywhere.
    """

    def apply(model: nn.Module, context: InitializationContext) -> None:
        blocks = transformer_blocks(model, context)

        def law(weight: Weight) -> Normal:
            if weight.role == "residual" and residual == "wang":
                return Normal(2 / (blocks.number * math.sqrt(weight.width)))
            return Normal(math.sqrt(2 / (5 * weight.width)))

        draw_normals(model, context, blocks, law)

    return apply
