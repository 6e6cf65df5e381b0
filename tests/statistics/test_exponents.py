"""Exponents of power laws: an exact law, the formula of another library, and what has none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from initbench.errors import InitbenchError
from initbench.statistics.exponents import exponent, exponent_over_seeds
from initbench.statistics.intervals import mean_estimate

WIDTHS = [32, 64, 128, 256]


def test_an_exact_law():
    assert exponent(WIDTHS, [3 * width**-0.5 for width in WIDTHS]) == pytest.approx((-0.5, 0.0), abs=1e-12)


def test_repeats_are_points_of_their_own():
    values = np.exp(np.random.default_rng(0).normal(size=(4, 3)))
    line = stats.linregress(np.log2(np.repeat(WIDTHS, 3)), np.log2(values).ravel())
    assert exponent(WIDTHS, values) == pytest.approx((line.slope, line.stderr), rel=1e-12)


@pytest.mark.parametrize("values", [[1.0, 0.0, 1.0, 1.0], [1.0, np.nan, 1.0, 1.0], [1.0, 2.0]])
def test_what_has_none(values):
    with pytest.raises(InitbenchError, match="an exponent needs"):
        exponent(WIDTHS, values)
    with pytest.raises(InitbenchError, match="at least two sizes"):
        exponent([8, 8, 8], [1.0, 2.0, 3.0])


def test_over_seeds_each_has_its_own():
    exponents = [0.5, 0.7, 0.3]
    values = [[2 * width**b for b in exponents] for width in WIDTHS]
    assert exponent_over_seeds(WIDTHS, values) == pytest.approx(mean_estimate(exponents), rel=1e-9)
    for seeds in (values[:1] * 4, [[1.0, 0.0, 1.0]] * 4):
        with pytest.raises(InitbenchError, match="a layer that has not moved has none"):
            exponent_over_seeds([8] * 4 if seeds[0][1] else WIDTHS, seeds)
