"""The best rate between those that were tried, and its exponent, from planted parabolas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from initbench.statistics.intervals import mean_estimate
from initbench.statistics.optima import Optimum, optimum, transfer_exponent

RATES = 2.0 ** np.arange(-10, -3)


def around(best, rates=RATES):
    """Outcomes that are least at a rate, by a parabola in log(rate)."""
    return (np.log2(rates) - math.log2(best)) ** 2 + 1


@pytest.mark.parametrize("best", [0.01, 0.0137, 0.004])
def test_the_minimum_of_a_parabola_is_found_between_the_rates(best):
    assert optimum(RATES[::-1], around(best)[::-1]) == pytest.approx((best, ""))


def test_what_is_far_from_the_minimum_has_no_weight():
    outcomes = around(0.01)
    outcomes[[0, -1]] = 100.0, math.inf
    assert optimum(RATES, outcomes) == pytest.approx((0.01, ""))


@pytest.mark.parametrize(("best", "edge"), [(RATES[0] / 3, "smallest"), (RATES[-1] * 3, "largest")])
def test_an_optimum_at_the_edge_is_said(best, edge):
    tried = RATES[0] if edge == "smallest" else RATES[-1]
    assert optimum(RATES, around(best)) == (tried, edge)


def test_beside_a_diverged_rate_the_best_one_tried_counts():
    outcomes = around(0.01)
    outcomes[RATES[np.argmin(outcomes)] < RATES] = math.inf
    assert optimum(RATES, outcomes) == (RATES[np.argmin(outcomes)], "")
    assert optimum(RATES, np.full(len(RATES), math.inf)) is None
    assert optimum(RATES[:3], [1.0, 1.0, 1.0]) == (RATES[0], "smallest")
    assert optimum(RATES[:4], [2.0, 1.0, 1.0, 2.0]) == pytest.approx((RATES[1] * math.sqrt(2), ""))


def test_each_seed_has_its_own_exponent():
    exponents = [-1.0, -0.9, -1.2]
    sizes = (32, 64, 256)
    optima = {size: [Optimum(0.1 * size**b, "") for b in exponents] for size in sizes}
    assert transfer_exponent(optima) == pytest.approx(mean_estimate(exponents))
    assert math.isnan(transfer_exponent(optima | {512: optima[32][:2]}).value)
    assert math.isnan(transfer_exponent({32: optima[32]}).value)
