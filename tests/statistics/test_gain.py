import math

import numpy as np
import pytest
from scipy import stats
from worlds import table

from initbench.statistics.gain import gain


def unit(values):
    return (stats.rankdata(values) - 1) / (values.size - 1)


@pytest.mark.parametrize("architectures", [None, {"w1": "a", "w2": "a"}])
def test_the_gain_is_that_of_two_plain_regressions(architectures):
    folds = np.array([0, 1, 2, 3] if architectures is None else [0, 1, 1, 3])
    generator = np.random.default_rng(0)
    x, z = generator.standard_normal((4, 6)), generator.standard_normal((4, 6))
    y = x + z + 0.5 * generator.standard_normal((4, 6))
    result = gain(table(x), table(y), {"z": table(z)}, architectures=architectures, permutations=19)
    ranks = [unit(v).reshape(4, 6) for v in (x, y, z)]
    errors = []
    for predictors in ([ranks[2]], [ranks[2], ranks[0]]):
        own = []
        for fold in np.unique(folds):
            train, test = folds != fold, folds == fold
            design = [
                np.column_stack([np.ones(6 * m.sum()), *(p[m].ravel() for p in predictors)]) for m in (train, test)
            ]
            coefficients, *_ = np.linalg.lstsq(design[0], ranks[1][train].ravel())
            own.append(np.abs(np.clip(design[1] @ coefficients, 0, 1) - ranks[1][test].ravel()).mean())
        errors.append(own)
    assert (result.without, result.without - result.gain.value) == pytest.approx(tuple(np.mean(errors, axis=1)))
    assert result.gain.value == pytest.approx(np.mean(np.subtract(*errors)))
    interval = stats.ttest_1samp(np.subtract(*errors), 0).confidence_interval(0.95)
    assert (result.gain.low, result.gain.high) == pytest.approx((interval.low, interval.high))
    assert (result.predictors, result.gain.n) == (["z"], len(np.unique(folds)))


def test_a_probe_that_knows_the_outcome_gains_and_its_copy_of_a_predictor_does_not():
    generator = np.random.default_rng(1)
    y, z = generator.standard_normal((5, 6)), generator.standard_normal((5, 6))
    useful = gain(table(y), table(y), {"z": table(z)})
    assert useful.pvalue < 0.01
    assert useful.without - useful.gain.value < 0.05
    assert useful.without > 0.2
    copy = gain(table(np.exp(z)), table(y + z), {"z": table(z)})  # the same ranks
    assert copy.gain.value == pytest.approx(0, abs=1e-9)
    assert copy.pvalue == 1


def test_predictors_that_do_not_vary_are_left_out():
    generator = np.random.default_rng(2)
    x, y, z = (table(generator.standard_normal((3, 6))) for _ in range(3))
    result = gain(x, y, {"depth": table(np.ones((3, 6))), "z": z}, permutations=9)
    assert result.predictors == ["z"]


def test_missing_and_infinite_values():
    generator = np.random.default_rng(3)
    x, y = generator.standard_normal((4, 6)), generator.standard_normal((4, 6))
    x[0, 0], x[1, 1], y[2, 2] = math.nan, math.inf, math.inf
    result = gain(table(x), table(y), {}, permutations=9)
    y[0, 0] = 100  # a cell without the probe is left out
    assert result == gain(table(x), table(y), {}, permutations=9)
    assert math.isfinite(result.gain.value)


@pytest.mark.parametrize(
    ("shape", "is_known", "has_too_few_architectures"),
    [
        ((2, 9), False, True),
        ((3, 2), False, False),  # 4 cells to fit 3 coefficients to; 6 would do
        ((6, 3), True, False),  # 6 permutations of the labels: nothing can be rejected at 5 %
    ],
)
def test_when_there_is_no_gain_or_test(shape, is_known, has_too_few_architectures):
    generator = np.random.default_rng(4)
    x, y, z = (table(generator.standard_normal(shape)) for _ in range(3))
    result = gain(x, y, {"z": z})
    assert (result.is_known, result.has_too_few_architectures) == (is_known, has_too_few_architectures)
    assert not result.is_testable
