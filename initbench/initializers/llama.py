"""The initialization of Llama models in torchtitan and OLMo-core."""

from __future__ import annotations

import math
from typing import Literal

from torch import nn

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import TransformerBlocks, transformer_blocks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.transformer_normals import Normal, Weight, draw_normals
from initbench.initializers.truncated_normal import check_bound
from initbench.registry import register_initializer

_CUT_OF_HEAD = 3.0


@register_initializer(
    "llama",
    reference="pytorch/torchtitan at b5bcd76, torchtitan/models/llama3/__init__.py; allenai/OLMo-core at fa6c501, "
    "src/olmo_core/nn/transformer/init.py (llama_depth, llama)",
)
def llama(std: float = 0.02, depth: Literal["block", "model"] = "block", cut: float | None = None) -> Apply:
    """Entries ~ N(0, std²), divided by √(2l) in the residual projections and the up projection of block l = 1, 2, ...

    Residual projections are the last weights of attentions and feed-forward parts. The up projection is the factor
    without an activation in a gated feed-forward part such as SwiGLU; both code bases scale it, too. Embeddings are
    N(0, 1), and heads N(0, 1/d) for d inputs, cut off at ±3 deviations. A tied head has the law of the head, as in
    torchtitan. Position embeddings, which Llama does not have, are drawn as embeddings.

    It draws the same parameters as `gpt2`, and a block is the same. The blocks are counted in the order in which they
    run, a decoder's after the encoder's. Parallel blocks count as one after another, and all have the number of the
    last. A gated feed-forward part whose gate and up projection are one layer is refused.

    Hugging Face's Llama starts otherwise: from `gpt2` with ``residual: unscaled``.

    Args:
        std: standard deviation of the entries before the cut.
        depth: ``block`` for √(2l), as torchtitan and OLMo-core's ``llama_depth`` do; ``model`` for √(2N) in all N
            blocks, as OLMo-core's ``llama`` does.
        cut: in deviations, of all entries but the embeddings' and the head's. OLMo-core cuts off at 3; null for no cut,
            as in torchtitan, whose bounds of ±2 are at 100 deviations.

    Raises:
        ArgumentError: std is not a finite number above 0, or cut is not a finite number of at least 0.001.
    """
    check_positive(std=std)
    if cut is not None:
        check_bound("cut", cut)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        blocks = transformer_blocks(model, context)
        _refuse_fused_gates(context, blocks)

        def law(weight: Weight) -> Normal:
            if weight.role in {"embedding", "positions"}:
                return Normal(1.0)
            if weight.role == "head":
                return Normal(1 / math.sqrt(weight.fan_in), _CUT_OF_HEAD)
            if weight.role in {"residual", "up"}:
                return Normal(std / math.sqrt(2 * (weight.block if depth == "block" else blocks.number)), cut)
            return Normal(std, cut)

        draw_normals(model, context, blocks, law)

    return apply


def _refuse_fused_gates(context: InitializationContext, blocks: TransformerBlocks) -> None:
    structure = context.structure
    attending = {name for one in structure.attention for name in (*one.query, *one.key, *one.value, *one.output)}
    for branch in structure.branches:
        inner = {*branch.inner} - attending
        if not blocks.up.keys().isdisjoint(branch.linear_factors) and inner <= {*branch.linear_factors}:
            raise InitializationError(
                f"llama: which outputs of {' and '.join(branch.linear_factors)} are the gate and which the up "
                "projection is unknown; llama needs a layer for each, with an activation behind the gate"
            )
