"""The optimizers of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from initbench.training.recipe import Recipe


def make_optimizer(groups: list[dict[str, Any]], recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimizer.

    Args:
        groups: parameter groups; one without ``lr`` or ``weight_decay`` has that of the recipe.
        recipe: the recipe; `Recipe` says what each optimizer does with momentum and weight decay.
    """
    if recipe.optimizer in {"adam", "adamw"}:
        kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay, foreach=True)
    if recipe.optimizer == "signsgd":
        return _signsgd(groups, recipe)
    return torch.optim.SGD(
        groups,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
        foreach=True,
    )


def _signsgd(groups: list[dict[str, Any]], recipe: Recipe) -> torch.optim.Optimizer:
    """Return Signum: m ← μm + (1 − μ)g from m = 0, then θ ← (1 − lr·λ)θ − lr·sign(m), where sign(0) is 0.

    It is Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023) with β₁ = β₂ = μ: Lion steps by the
    sign of β₁m + (1 − β₁)g before it makes β₂m + (1 − β₂)g the new m, and so by the sign of the new m.

    Source: Bernstein et al., signSGD, ICML 2018, algorithms 1 (μ = 0) and 2.
    """
    from timm.optim import Lion

    optimizer: torch.optim.Optimizer = Lion(
        groups, lr=recipe.lr, betas=(recipe.momentum, recipe.momentum), weight_decay=recipe.weight_decay, foreach=True
    )
    return optimizer
