"""Admin's shortcuts: a learnable vector multiplies each shortcut of a post-norm Transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from initbench.architectures.style import Shortcut
from initbench.errors import ArgumentError
from initbench.registry import register_scheme
from initbench.schemes.replacing import replace_modules
from initbench.structure.find import Structure
from initbench.structure.stacks import require_post_norm, transformer_stacks


class ShortcutScale(nn.Module):
    """Multiplies its input by a learnable vector ω, which starts at 1.

    Source: Liu et al., Understanding the Difficulty of Training Transformers, EMNLP 2020, section 4.2.

    Args:
        width: features of the input's last dimension.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`, (..., width)."""
        return self.scale * x


@register_scheme(
    "admin",
    reference="Liu et al., Understanding the Difficulty of Training Transformers, EMNLP 2020, section 4.2",
    example={"name": "gpt", "norm": "post"},
)
def admin(model: nn.Module, structure: Structure) -> nn.Module:
    """norm(ω ⊙ x + f(x)) in each residual branch of a post-norm Transformer, with a learnable vector ω of 1s.

    The architecture has to mark the shortcuts by `Shortcut` modules, as `gpt` and `transformer` do.

    Args:
        model: is changed.
        structure: the model's structure.

    Raises:
        ArgumentError: the model is not one stack of Transformer layers or an encoder and a decoder, no norm follows an
            addition, or a shortcut is not marked.
    """
    stacks = transformer_stacks(structure)
    require_post_norm(stacks)
    branches = [branch for stack in stacks for branch in stack.branches]
    shortcuts = [module for module in model.modules() if isinstance(module, Shortcut)]
    if len(shortcuts) != len(branches):
        raise ArgumentError(
            f"{type(model).__name__} marks {len(shortcuts)} shortcuts of {len(branches)} residual branches; it works "
            "for gpt and transformer"
        )
    widths = {model.get_parameter(f"{branch.norm}.weight").numel() for branch in branches}
    if len(widths) != 1:
        raise ArgumentError(f"the shortcuts differ in width: {', '.join(map(str, sorted(widths)))}")
    width = widths.pop()
    replace_modules(model, {shortcut: ShortcutScale(width) for shortcut in shortcuts})
    return model
