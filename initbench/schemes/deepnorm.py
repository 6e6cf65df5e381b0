"""DeepNorm: shortcuts multiplied by a constant before the norm that follows each addition."""

from __future__ import annotations

import math

from torch import nn

from initbench.architectures.scalars import ConstantMultiplier
from initbench.errors import ArgumentError
from initbench.registry import register_scheme
from initbench.schemes.branch_ends import branch_ends, ended
from initbench.schemes.replacing import replace_modules
from initbench.structure.find import Structure
from initbench.structure.stacks import Stack, require_post_norm, transformer_stacks

_ENCODER = 0.81


@register_scheme(
    "deepnorm",
    reference="Wang et al., DeepNet: Scaling Transformers to 1,000 Layers, 2022, Figure 2",
    example={"name": "gpt", "norm": "post"},
)
def deepnorm(model: nn.Module, structure: Structure, alpha: float | None = None) -> nn.Module:
    """norm(α·x + f(x)) in each residual branch of a post-norm Transformer, with a constant α for each stack.

    The factor stands at the end of the branch, as norm(x + f(x)/α) with ε/α² in place of ε, which is the same function:
    a norm removes the scale of its input. An ε that a norm does not hold as its number ``eps`` stays as it is.

    For N encoder and M decoder layers, α is 0.81·(N⁴M)^(1/16) in the encoder and (3M)^(1/4) in the decoder; for one
    stack of L layers it is (2L)^(1/4).

    Args:
        model: is changed.
        structure: the model's structure.
        alpha: α of all shortcuts; null for the paper's.

    Raises:
        ArgumentError: alpha is not a finite number above 0, the model is not one stack of Transformer layers or an
            encoder and a decoder, no norm follows an addition, or a branch ends in no module that a multiplier could
            follow.
    """
    if alpha is not None and not (alpha > 0 and math.isfinite(alpha)):
        raise ArgumentError(f"must be a finite number above 0, got {alpha}", "alpha")
    stacks = transformer_stacks(structure)
    require_post_norm(stacks)
    replacements: dict[nn.Module, nn.Module] = {}
    scaled: dict[nn.Module, float] = {}
    for stack, multiplier in zip(stacks, alphas(stacks), strict=True):
        factor = multiplier if alpha is None else alpha
        for end in branch_ends(model, stack.branches):
            replacements[end] = ended(end, end, ConstantMultiplier(1 / factor), "multiplier")
        scaled |= {model.get_submodule(branch.norm or ""): factor for branch in stack.branches}
    for norm, factor in scaled.items():
        if isinstance(norm, nn.LayerNorm | nn.RMSNorm) and norm.eps is not None:
            norm.eps /= factor**2
    replace_modules(model, replacements)
    return model


def alphas(stacks: tuple[Stack, ...]) -> list[float]:
    """Return the paper's α of each stack (Figure 2)."""
    if len(stacks) == 1:
        return [(2 * stacks[0].layers) ** 0.25]
    n, m = (stack.layers for stack in stacks)
    return [_ENCODER * (n**4 * m) ** (1 / 16), (3 * m) ** 0.25]
