import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from worlds import table

from initbench.statistics.divergence import predict_divergence

nan = math.nan


def test_on_one_workload_it_is_the_area_of_scikit_learn_and_the_exact_mann_whitney_test():
    x = np.array([1.0, 5, 2, 7, 3, 6])
    y = np.array([0.0, 0, 0, 1, 0, 1])
    result = predict_divergence(table(x[None]), table(y[None]))
    assert result.auroc.value == pytest.approx(roc_auc_score(y, x))
    exact = stats.mannwhitneyu(x[y == 1], x[y == 0], method="exact").pvalue
    assert result.pvalue == pytest.approx(exact)


def test_only_pairs_of_one_workload_count():
    """Where everything diverges and everything is large, nothing is learnt of initializers."""
    x = np.array([[1.0, 2, 3, 4, 5, 6], [101, 102, 103, 104, 105, 106], [3, 3, 1, 2, 3, 4]])
    y = np.array([[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0]])
    result = predict_divergence(table(x), table(y.astype(float)))
    # In the third: 3 is above 1 and 2, ties with two threes, is below 4: (2 + 2 / 2) / 5.
    assert (result.auroc.value, result.pairs) == (pytest.approx(0.6), 5)


def test_counts_of_seeds_are_as_good_as_flags_and_gaps_are_left_out():
    x = table(np.array([[1.0, 2, 3, nan, 5, 6]]))
    counts = table(np.array([[0.0, 0, 2, 3, 3, nan]]))
    result = predict_divergence(x, counts)
    assert (result.auroc.value, result.pairs, result.auroc.n) == (1, 4, 4)


@pytest.mark.parametrize(
    "labels", [np.zeros((1, 5)), np.ones((1, 5))], ids=["no cell diverged", "no cell of the workload did not diverge"]
)
def test_when_there_is_no_area(labels):
    result = predict_divergence(table(np.arange(5.0)[None]), table(labels))
    assert (result.pairs, result.is_testable) == (0, False)
    assert math.isnan(result.auroc.value)


def test_a_probe_that_says_nothing_has_half():
    result = predict_divergence(table(np.ones((2, 5))), table(np.array([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0.0]])))
    assert result.auroc.value == 0.5
    assert result.pvalue == 1
