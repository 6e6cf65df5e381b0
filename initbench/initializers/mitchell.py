"""OLMo's initialization: truncated normal laws that depend on the fan-in and on the number of the block."""

from __future__ import annotations

import math

from torch import nn

from initbench.initializers.branches import transformer_blocks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.transformer_normals import Normal, Weight, draw_normals
from initbench.registry import register_initializer

_CUT = 3.0


@register_initializer("mitchell", reference="allenai/OLMo at 59a53e3, olmo/model.py (init_fn: mitchell)")
def mitchell() -> Apply:
    """Entries ~ N(0, 1/fan_in), and N(0, 1/(2l · fan_in)) in the last weights of the branches of block l = 1, 2, ...

    All laws are cut off at ±3 deviations, which leaves 0.98658 of the deviation. Embeddings of tokens and positions
    have N(0, 1/d) for d features, as the head has, so a tied head makes no difference. OLMo's official configurations
    of July 2024 use it; its authors name it after Mitchell Wortsman, who suggested it.

    It draws the same parameters as `gpt2`, and a block is the same. The blocks are counted in the order in which they
    run, a decoder's after the encoder's. Parallel blocks count as one after another, and all have the number of the
    last.
    """

    def apply(model: nn.Module, context: InitializationContext) -> None:
        def law(weight: Weight) -> Normal:
            factor = 2 * weight.block if weight.role == "residual" else 1
            return Normal(1 / math.sqrt(factor * weight.fan_in), _CUT)

        draw_normals(model, context, transformer_blocks(model, context), law)

    return apply
