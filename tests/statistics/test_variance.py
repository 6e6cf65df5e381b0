import math

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.formula.api import ols
from worlds import frame

from initbench.statistics.variance import split_variance, variance_components


def test_components_are_those_of_statsmodels_mean_squares():
    generator = np.random.default_rng(0)
    values = generator.standard_normal((4, 5, 3)) + 3 * generator.standard_normal((1, 5, 1))
    trials = frame(values)
    anova = sm.stats.anova_lm(ols("outcome ~ C(workload) * C(treatment)", trials).fit())
    ms = anova["mean_sq"]
    pair, seed = ms["C(workload):C(treatment)"], ms["Residual"]
    expected = [
        max((ms["C(treatment)"] - pair) / 12, 0),
        max((ms["C(workload)"] - pair) / 15, 0),
        max((pair - seed) / 3, 0),
        seed,
    ]
    assert variance_components(values) == pytest.approx(expected)
    split = split_variance(trials)
    assert split[:4] == pytest.approx(np.array(expected) / sum(expected))
    assert (split.of_ranks, split.shape) == (False, (4, 5, 3))


@pytest.mark.parametrize("part", range(4))
def test_each_kind_of_variation_is_found_where_it_is(part):
    shapes = [(1, 12, 1), (12, 1, 1), (12, 12, 1), (12, 12, 4)]
    values = np.zeros((12, 12, 4)) + np.random.default_rng(part).standard_normal(shapes[part])
    split = split_variance(frame(values))
    # Moments of 12 × 12 cells of noise: what is left of one kind for another is about 1/12.
    assert split[part] > 0.85


def test_divergence_is_split_by_ranks():
    values = np.random.default_rng(1).standard_normal((3, 4, 3))
    values[:, 2] = math.inf
    split = split_variance(frame(values))
    assert split.of_ranks
    assert sum(split[:4]) == pytest.approx(1)
    assert split.treatment == max(split[:4])


def test_gaps_are_left_out():
    trials = frame(np.random.default_rng(2).standard_normal((3, 4, 3)))
    without = trials[~((trials["treatment"] == "i0") & (trials["workload"] == "w1"))]
    assert split_variance(without).shape == (3, 3, 3)  # a third of i0 is missing, a fourth of w1
    fewer = trials[~((trials["treatment"] == "i0") & (trials["seed"] == 1))]
    assert split_variance(fewer).shape == (3, 4, 2)


@pytest.mark.parametrize("shape", [(1, 4, 3), (3, 1, 3), (3, 4, 1)])
def test_when_there_is_no_split(shape):
    split = split_variance(frame(np.random.default_rng(3).standard_normal(shape)))
    assert (split.is_known, split.is_too_small, split.shape) == (False, True, shape)
    equal = split_variance(frame(np.ones((2, 2, 2))))
    assert (equal.is_known, equal.is_too_small) == (False, False)
