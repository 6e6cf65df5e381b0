"""MetaInit's plateau stop: where it ends, that it changes nothing before, and what it spares."""

from __future__ import annotations

from statistics import median

import pytest
import torch
from cases import small
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize
from initbench.probes.gradient_quotient import gradient_quotient

RANDOM = {"input_shape": (8, 3, 8, 8), "num_classes": 10}


def first_plateau(quotients, window, tolerance):
    """The steps taken when the rule is first met, by its definition."""
    for end in range(2 * window, len(quotients) + 1, window):
        before, last = quotients[end - 2 * window : end - window], quotients[end - window : end]
        if median(last) >= (1 - tolerance) * median(before):
            return end
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("window", "tolerance"), [(4, 0.05), (5, 0.3), (6, 0.0)])
def test_it_ends_where_the_definition_says_and_changes_nothing_before(window, tolerance):
    whole = initialize(small("wrn"), "metainit", steps=60, **RANDOM)
    quotients = [entry["gradient_quotient"] for entry in whole.history]
    end = first_plateau(quotients, window, tolerance)
    assert end is not None
    assert 2 * window <= end < 60
    model, fixed = small("wrn"), small("wrn")
    record = initialize(model, "metainit", steps=60, plateau_window=window, plateau_tolerance=tolerance, **RANDOM)
    assert record.conditions["plateau_at_step"] == end
    assert record.conditions["stopped_at_step"] is None
    assert record.cost == {"forward": end, "backward": 3 * end}
    assert record.history == whole.history[:end]
    initialize(fixed, "metainit", steps=end, **RANDOM)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), fixed.parameters(), strict=True))


def test_it_is_off_by_default():
    record = initialize(small("wrn"), "metainit", steps=40, **RANDOM)
    assert len(record.history) == 40
    assert record.conditions["plateau_at_step"] is None


class Quadratic(nn.Module):
    """The loss a·w²/2 at w = 1."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, 1, dtype=torch.float64))

    def forward(self, curvature):
        return curvature * self.w.square() / 2


def tuned(curvatures):
    """The record of MetaInit over batches of these curvatures."""
    return initialize(
        Quadratic(),
        "metainit",
        base=None,
        steps=len(curvatures),
        lr=1e-9,  # w stays 1
        plateau_window=2,
        batches=[(torch.tensor([[a]], dtype=torch.float64), torch.tensor([0])) for a in curvatures],
        loss_fn=lambda outputs, _: outputs.mean(),
    )


def test_a_quotient_that_falls_in_every_window_is_tuned_to_the_end():
    """The loss a·w²/2 has g = a·w and Hg = a·g, so GQ = (a·g + ε) / (g + ε); a falls from batch to batch."""

    curvatures = [0.5 * 0.9**step for step in range(20)]
    record = tuned(curvatures)
    assert record.conditions["plateau_at_step"] is None
    expected = [(a * a + 1e-5) / (a + 1e-5) for a in curvatures]
    assert [entry["gradient_quotient"] for entry in record.history] == pytest.approx(expected, rel=1e-6)


def test_quotients_that_are_infinite_are_no_plateau():
    """a·g overflows, and with it the median of a window, which does not fall."""
    with pytest.warns(UserWarning, match="metainit stopped at step 4"):
        record = tuned([0.5, 0.4, 0.3, 0.2] + [1e308] * 6)
    assert (record.conditions["stopped_at_step"], record.conditions["plateau_at_step"]) == (4, None)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"plateau_window": 0}, "plateau_window"),
        ({"plateau_window": 5, "plateau_tolerance": 1.0}, "plateau_tolerance"),
        ({"plateau_tolerance": 0.1}, "plateau_tolerance"),
    ],
)
def test_bad_arguments(arguments, argument):
    with pytest.raises(ArgumentError) as caught:
        initialize(small("wrn"), "metainit", **arguments, **RANDOM)
    assert caught.value.argument == argument


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "base", "arguments"),
    [
        ("mlp", "kaiming", {"depth": 10, "width": 64}),
        ("plain", "delta_orthogonal", {"depth": 10, "width": 1, "norm": "none", "activation": "beta_swish"}),
        ("wrn", "delta_orthogonal", {"depth": 10, "width": 1, "norm": "none", "activation": "beta_swish"}),
    ],
)
def test_the_same_quotient_in_at_most_half_of_the_steps(name, base, arguments):
    """Against the paper's 500 steps; GQ is the median over 64 batches that neither was tuned on.

    The bound of 10 %: signSGD's step of .1 does not shrink, so the norms wander, and over the last 250 of 500 steps the
    medians of windows of 50 differ by up to 9 % from one another on these networks.
    """
    shape = (32, 1, 8, 8)
    quotients, steps = {}, {}
    for window in (None, 50):
        model = create_model(name, input_shape=shape[1:], seed=0, **arguments)
        record = initialize(
            model, "metainit", base=base, steps=500, plateau_window=window, input_shape=shape, num_classes=10, seed=0
        )
        generator = torch.Generator().manual_seed(1)
        measured = [
            gradient_quotient(
                model,
                torch.randn(shape, generator=generator),
                torch.randint(10, shape[:1], generator=generator),
            ).item()
            for _ in range(64)
        ]
        quotients[window], steps[window] = median(measured), len(record.history)
    assert steps[None] == 500
    assert steps[50] <= 250, steps
    assert quotients[50] <= 1.1 * quotients[None], quotients
