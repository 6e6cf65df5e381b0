"""Exponents of power laws: an exact law, the formula of another library, and what has none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from initbench.errors import InitbenchError
from initbench.statistics.exponents import exponent_over_seeds
from initbench.statistics.intervals import mean_estimate

WIDTHS = [32, 64, 128, 256]


def test_an_exact_law():
    values = [[3 * width**-0.5] for width in WIDTHS]
    assert exponent_over_seeds(WIDTHS, values).value == pytest.approx(-0.5, abs=1e-12)


def test_each_seed_has_the_slope_of_a_line():
    values = np.exp(np.random.default_rng(0).normal(size=(4, 3)))
    slopes = [stats.linregress(np.log2(WIDTHS), np.log2(of_seed)).slope for of_seed in values.T]
    assert exponent_over_seeds(WIDTHS, values) == pytest.approx(mean_estimate(slopes), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_what_has_none(value):
    with pytest.raises(InitbenchError, match="an exponent needs"):
        exponent_over_seeds(WIDTHS, [[1.0], [value], [1.0], [1.0]])
    with pytest.raises(InitbenchError, match="an exponent needs two sizes"):
        exponent_over_seeds([8, 8, 8], [[1.0], [2.0], [3.0]])


def test_over_seeds_each_has_its_own():
    exponents = [0.5, 0.7, 0.3]
    values = [[2 * width**b for b in exponents] for width in WIDTHS]
    assert exponent_over_seeds(WIDTHS, values) == pytest.approx(mean_estimate(exponents), rel=1e-9)
    for seeds in (values[:1] * 4, [[1.0, 0.0, 1.0]] * 4):
        with pytest.raises(InitbenchError, match="a layer that has not moved has none"):
            exponent_over_seeds([8] * 4 if seeds[0][1] else WIDTHS, seeds)
