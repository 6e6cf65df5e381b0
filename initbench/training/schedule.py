"""Learning-rate schedules: the factor of the initial learning rate at each step."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from initbench.training.recipe import Recipe


def lr_factor(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """Return the factor of the learning rate at a step.

    Warm-up takes the first W = ⌊`warmup_epochs` · `steps_per_epoch`⌋ steps, at (t + 1) / W: it starts above 0 and
    ends at 1 (Goyal et al., Accurate, Large Minibatch SGD, 2017, section 2.2). ``cosine`` is
    (1 + cos(π(t − W) / (T − W))) / 2 for t = W ... T − 1, one cycle over the steps that remain of all T (Loshchilov &
    Hutter, SGDR, 2017, equation 5 with a minimum of 0). ``step`` multiplies by `step_factor` at the start of each
    milestone's epoch, that is after so many epochs from the beginning.

    Args:
        recipe: the recipe.
        step: t, from 0.
        steps_per_epoch: steps in one epoch.
    """
    # A product such as 0.29 * 100 lies below the whole number that is meant.
    warmup = math.floor(recipe.warmup_epochs * steps_per_epoch + 1e-9)
    if step < warmup:
        return (step + 1) / warmup
    if recipe.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (recipe.epochs * steps_per_epoch - warmup)))
    if recipe.schedule == "step":
        # Divided as integers, so that a milestone is met exactly.
        return float(recipe.step_factor ** bisect_right(recipe.milestones, step // steps_per_epoch))
    return 1.0
