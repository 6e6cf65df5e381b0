"""How long a training is, and the factor of the initial learning rate at each of its steps."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from initbench.training.recipe import Recipe


class Schedule:
    """What a recipe comes to in steps.

    Warm-up takes the first W steps, at (t + 1) / W: it starts above 0 and ends at 1 (Goyal et al., Accurate, Large
    Minibatch SGD, 2017, section 2.2). W is `warmup_steps`, or ⌊`warmup_epochs` · `steps_per_epoch`⌋. Then, for
    t = W ... T − 1:

    - ``cosine`` is (1 + cos(π(t − W) / (T − W))) / 2, one cycle over the steps that remain (Loshchilov & Hutter, SGDR,
      2017, equation 5 with a minimum of 0);
    - ``linear`` is 1 − (t − W) / (T − W) (Devlin et al., BERT, 2019, appendix A.2);
    - ``inverse_square_root`` is √(W / (t + 1)), which with the warm-up is the schedule of Vaswani et al., Attention Is
      All You Need, 2017, equation 3, with `lr` as its largest value (steps are counted from 1 there);
    - ``step`` multiplies by `step_factor` at the start of each milestone's epoch, that is after so many epochs from the
      beginning.

    Attributes:
        steps: T, of the whole training; 0 for none.
        steps_per_epoch: steps in one epoch.
        epochs: epochs that the steps take, the last of them perhaps in part.
        warmup: W. One that is longer than the training ends with it.

    Args:
        recipe: the recipe.
        steps_per_epoch: steps in one epoch.
    """

    def __init__(self, recipe: Recipe, steps_per_epoch: int) -> None:
        self.recipe = recipe
        self.steps_per_epoch = steps_per_epoch
        self.steps = recipe.epochs * steps_per_epoch if recipe.steps is None else recipe.steps
        self.epochs = -(-self.steps // steps_per_epoch)
        # A product such as 0.29 * 100 lies below the whole number that is meant.
        self.warmup = recipe.warmup_steps or math.floor(recipe.warmup_epochs * steps_per_epoch + 1e-9)

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate at a step, from 0; after the last step it says nothing."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        recipe, remaining = self.recipe, max(1, self.steps - self.warmup)
        if recipe.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / remaining))
        if recipe.schedule == "linear":
            return 1 - (step - self.warmup) / remaining
        if recipe.schedule == "inverse_square_root":
            return math.sqrt(max(1, self.warmup) / (step + 1))
        if recipe.schedule == "step":
            # Divided as integers, so that a milestone is met exactly.
            return float(recipe.step_factor ** bisect_right(recipe.milestones, step // self.steps_per_epoch))
        return 1.0
