import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from worlds import table

from initbench.statistics.permutation import label_permutations, permutation_test

nan = math.nan


def mean_rho(x, y):
    return np.mean([stats.spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)])


def test_the_pvalue_is_the_share_of_all_joint_permutations():
    generator = np.random.default_rng(3)
    x, y = generator.standard_normal((3, 5)), generator.standard_normal((3, 5))
    y += x
    observed = mean_rho(x, y)
    every = [mean_rho(x[:, list(order)], y) for order in itertools.permutations(range(5))]
    result = permutation_test(table(x), table(y))
    assert result.statistic == pytest.approx(observed)
    assert result.pvalue == pytest.approx(np.mean(np.abs(every) >= abs(observed) - 1e-9))
    assert (result.treatments, result.workloads) == (5, 3)
    assert label_permutations(np.ones((3, 5), dtype=bool))[1] == len(every)


def test_on_one_workload_it_is_scipys_permutation_test():
    x, y = np.array([1.0, 2, 3, 4, 5, 6]), np.array([2.0, 1, 4, 3, 6, 5])
    expected = stats.permutation_test(
        (x,), lambda a: stats.spearmanr(a, y).statistic, permutation_type="pairings", n_resamples=np.inf
    )
    assert permutation_test(table(x[None]), table(y[None])).pvalue == pytest.approx(expected.pvalue)


def test_drawn_permutations_agree_with_all_of_them():
    generator = np.random.default_rng(5)
    x = generator.standard_normal((2, 8))
    y = x + 1.5 * generator.standard_normal((2, 8))
    drawn = permutation_test(table(x), table(y))
    every = np.array([np.array(order) for order in itertools.permutations(range(8))])
    ranks = [(stats.zscore(stats.rankdata(v, axis=1), axis=1) / math.sqrt(8)) for v in (x, y)]
    products = ranks[0].T @ ranks[1] / 2
    null = products[every, np.arange(8)].sum(axis=1)
    exact = np.mean(np.abs(null) >= abs(drawn.statistic) - 1e-9)
    # Three standard errors of a share of 9,999.
    assert drawn.pvalue == pytest.approx(exact, abs=3 * math.sqrt(exact / 9999))
    assert drawn == permutation_test(table(x), table(y))  # the seed is fixed


@pytest.mark.parametrize(("initializers", "number"), [(3, 6), (4, 24)])
def test_below_five_initializers_nothing_can_be_rejected(initializers, number):
    order = np.tile(np.arange(initializers, dtype=float), (12, 1))
    result = permutation_test(table(order), table(order))
    assert result.statistic == pytest.approx(1)
    assert math.isnan(result.pvalue)
    assert not result.is_testable
    assert label_permutations(np.ones(order.shape, dtype=bool))[1] == number


def test_five_initializers_in_perfect_order_are_rejected():
    order = np.tile(np.arange(5.0), (3, 1))
    assert permutation_test(table(order), table(order)).pvalue == pytest.approx(2 / 120)


def test_workloads_count_by_their_initializers():
    x = np.array([[1.0, 2, 3, 4, 5], [1, 2, 3, nan, nan]])
    y = np.array([[1.0, 2, 3, 4, 5], [3, 2, 1, nan, nan]])
    assert permutation_test(table(x), table(y)).statistic == pytest.approx((4 * 1 + 2 * -1) / 6)


def test_initializers_are_exchanged_only_where_both_have_run():
    present = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]], dtype=bool)
    permutations, number = label_permutations(present)
    assert number == math.factorial(3) * math.factorial(2)  # the last one is nowhere
    assert len({tuple(row) for row in permutations}) == number
    for row in permutations:
        assert (present[:, row] == present).all()


def test_many_permutations_are_drawn_and_respect_the_gaps():
    present = np.ones((3, 10), dtype=bool)
    present[0, 8:] = False
    permutations, number = label_permutations(present, draws=200)
    assert number == math.factorial(8) * 2
    assert permutations.shape == (200, 10)
    assert all((present[:, row] == present).all() for row in permutations)


def test_nothing_varies():
    flat = table(np.ones((3, 6)))
    result = permutation_test(flat, flat)
    assert (result.workloads, result.is_testable) == (0, False)
    assert math.isnan(result.statistic)
    assert permutation_test(pd.DataFrame(), pd.DataFrame()).workloads == 0


def test_the_order_of_workloads_and_initializers_does_not_matter():
    generator = np.random.default_rng(9)
    x, y = table(generator.standard_normal((4, 6))), table(generator.standard_normal((4, 6)))
    mixed = permutation_test(x.iloc[::-1, ::-1], y.iloc[[2, 0, 1, 3], [3, 1, 0, 5, 4, 2]])
    plain = permutation_test(x, y)
    assert mixed.pvalue == pytest.approx(plain.pvalue)
    assert mixed.statistic == pytest.approx(plain.statistic)
