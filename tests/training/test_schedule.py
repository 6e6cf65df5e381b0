"""Learning-rate schedules against their formulas."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from initbench.training.optimizer import Schedule
from initbench.training.recipe import Recipe


def factors(steps_per_epoch, **recipe):
    schedule = Schedule(Recipe(**recipe), steps_per_epoch)
    return [schedule.factor(step) for step in range(schedule.steps)]


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


def scheduled(total, make):
    """The learning rates that PyTorch's schedulers give an optimizer whose own is 1."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)
    values = []
    for _ in range(total):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return values


@pytest.mark.parametrize(("warmup_epochs", "warmup"), [(2, 14), (1.5, 10), (0.3, 2), (3.99, 27), (3 / 7 * 6, 18)])
def test_linear_warm_up_then_cosine_are_those_of_pytorch(warmup_epochs, warmup):
    lr_scheduler = torch.optim.lr_scheduler

    def make(optimizer):
        rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
        fall = lr_scheduler.CosineAnnealingLR(optimizer, T_max=28 - warmup)
        return lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[warmup])

    values = factors(7, epochs=4, warmup_epochs=warmup_epochs)
    assert values == pytest.approx(scheduled(28, make), rel=1e-9)
    assert values[:warmup] == pytest.approx([(t + 1) / warmup for t in range(warmup)])
    assert values[warmup] == 1.0
    assert min(values) > 0


def test_milestones_are_counted_from_the_beginning():
    values = factors(4, epochs=4, schedule="step", milestones=(1, 3), step_factor=0.5, warmup_epochs=1)
    assert values == pytest.approx([0.25, 0.5, 0.75, 1.0] + [0.5] * 8 + [0.25] * 4)
    assert factors(2, epochs=3, schedule="constant", warmup_epochs=2) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_a_warm_up_of_less_than_a_step_is_none():
    assert factors(4, epochs=2, warmup_epochs=0.24) == factors(4, epochs=2)


def test_a_warm_up_has_the_steps_that_are_meant():
    assert 0.29 * 100 < 29  # as floating-point numbers
    assert factors(100, epochs=1, warmup_epochs=0.29)[28] == 1.0


def test_linear_falls_by_equal_steps_to_the_last_but_one():
    assert factors(4, epochs=2, schedule="linear") == pytest.approx([1 - t / 8 for t in range(8)], rel=1e-12)
    warm = factors(4, epochs=2, schedule="linear", warmup_steps=3)
    assert warm == pytest.approx([1 / 3, 2 / 3, 1, 1, 4 / 5, 3 / 5, 2 / 5, 1 / 5], rel=1e-12)


@pytest.mark.parametrize("warmup", [1, 4, 13])
def test_the_inverse_square_root_is_that_of_attention_is_all_you_need(warmup):
    """Vaswani et al. (2017), equation 3: d^(-1/2) · min(s^(-1/2), s · W^(-3/2)) at step s = 1, 2, ..."""
    paper = [512**-0.5 * min(s**-0.5, s * warmup**-1.5) for s in range(1, 41)]
    values = factors(10, steps=40, schedule="inverse_square_root", warmup_steps=warmup)
    assert values == pytest.approx([x / max(paper) for x in paper], rel=1e-12)
    assert values[warmup - 1] == 1.0
    assert values[4 * warmup - 1 : 4 * warmup] == pytest.approx([0.5][: max(0, 41 - 4 * warmup)])


@pytest.mark.parametrize("shift", [1, 4, 4000])
def test_a_shifted_inverse_square_root_starts_at_its_largest_rate(shift):
    """Huang et al. (2020), the authors' code: √(S / (S + t)) at step t = 0, 1, ..."""
    values = factors(10, steps=40, schedule="inverse_square_root", shift_steps=shift)
    assert values == pytest.approx([(1 + t / shift) ** -0.5 for t in range(40)], rel=1e-12)
    assert values[0] == 1.0
    assert values[3 * shift : 3 * shift + 1] == pytest.approx([0.5][: max(0, 40 - 3 * shift)])


def test_a_warm_up_in_steps_is_one_in_epochs():
    for schedule in ("cosine", "linear", "inverse_square_root", "constant"):
        in_epochs = factors(7, epochs=4, schedule=schedule, warmup_epochs=2)
        assert factors(7, epochs=4, schedule=schedule, warmup_steps=14) == in_epochs


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_steps_take_the_place_of_epochs(schedule):
    assert factors(7, steps=28, schedule=schedule) == factors(7, epochs=4, schedule=schedule)
    assert factors(1000, steps=28, schedule=schedule) == factors(7, epochs=4, schedule=schedule)


@pytest.mark.parametrize(("steps", "epochs"), [(1, 1), (6, 1), (7, 1), (8, 2), (15, 3)])
def test_steps_begin_as_many_epochs_as_they_need(steps, epochs):
    assert Schedule(Recipe(steps=steps), 7).epochs == epochs


def test_a_warm_up_longer_than_the_training_ends_with_it():
    assert factors(3, epochs=1, warmup_steps=6) == pytest.approx([1 / 6, 2 / 6, 3 / 6])
