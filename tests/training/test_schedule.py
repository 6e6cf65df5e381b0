"""Learning-rate schedules against their formulas."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from initbench.training.recipe import Recipe
from initbench.training.schedule import lr_factor


def factors(steps_per_epoch, **recipe):
    recipe = Recipe(**recipe)
    return [lr_factor(recipe, step, steps_per_epoch) for step in range(recipe.epochs * steps_per_epoch)]


def test_cosine_falls_per_iteration_over_one_cycle():
    values = factors(7, epochs=4)
    assert values[0] == 1.0
    assert values[14] == pytest.approx(0.5)
    assert values[7] == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert values[27] == pytest.approx(math.sin(math.pi / 56) ** 2)  # (1 + cos(π − x)) / 2 = sin²(x / 2), x = π / 28
    assert all(a > b > 0 for a, b in pairwise(values))
    # Opposite steps add up to 1: the curve is symmetric about its middle.
    assert [values[t] + values[28 - t] for t in range(1, 28)] == pytest.approx([1.0] * 27)


def test_step_falls_at_the_start_of_each_milestone():
    values = factors(3, epochs=5, schedule="step", milestones=(2, 4), step_factor=0.2)
    assert values == pytest.approx([1.0] * 6 + [0.2] * 6 + [0.04] * 3)


def test_constant_stays():
    assert factors(3, epochs=2, schedule="constant") == [1.0] * 6
