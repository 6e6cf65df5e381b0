import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from worlds import table

from initbench.statistics.association import associations, standardized_ranks, unit_clipped

inf, nan = math.inf, math.nan


def one(x, y):
    [row] = associations(table(np.array([x], float)), table(np.array([y], float))).to_dict("records")
    return row


def test_tau_b_with_ties_by_hand():
    # Of 10 pairs x ties the second with the third, y the fourth with the fifth. Of the other 8 only the first with the
    # second is discordant: (7 - 1) / √((10 - 1) (10 - 1)).
    row = one([1, 2, 2, 3, 4], [0.2, 0.1, 0.3, inf, inf])
    assert row["tau"] == pytest.approx(6 / 9)


def test_rho_and_its_interval():
    row = one([1, 2, 3, 4, 5, 6], [0.2, 0.1, 0.3, 0.6, 0.4, inf])
    # Σd² = 1 + 1 + 0 + 1 + 1 + 0 = 4: ρ = 1 - 24 / 210.
    rho = 1 - 24 / 210
    assert row["rho"] == pytest.approx(rho)
    half = stats.norm.ppf(0.975) * math.sqrt(1.06 / 3)
    expected = [math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)]
    assert [row["rho_low"], row["rho_high"]] == pytest.approx(expected)


def test_a_perfect_order_has_an_interval_too():
    row = one([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    assert row["rho"] == pytest.approx(1)
    assert -1 < row["rho_low"] < 1
    assert unit_clipped(1.0, 5) == 1 - 6 / 120


@pytest.mark.parametrize(
    ("x", "y", "remark"),
    [
        ([1, 2, 3, 4, nan], [1, 2, 3, 4, 5], "not enough treatments (n = 4)"),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], "all values are equal"),
        ([1, 2, 3, 4, 5], [inf] * 5, "all values are equal"),
    ],
)
def test_why_there_is_no_coefficient(x, y, remark):
    row = one(x, y)
    assert row["remark"] == remark
    assert math.isnan(row["rho"])


def test_a_workload_without_the_probe_is_named():
    outcome = pd.DataFrame([[1, 2, 3, 4, 5.0]] * 2, index=["a", "b"])
    rows = associations(outcome.loc[["a"]], outcome)
    assert list(rows["n"]) == [5, 0]


def test_standardized_ranks_multiply_to_spearmans_rho():
    generator = np.random.default_rng(0)
    x, y = (generator.integers(0, 6, (20, 9)).astype(float) for _ in range(2))
    x[x == 5] = inf
    products = np.sum(standardized_ranks(x) * standardized_ranks(y), axis=1)
    assert products == pytest.approx([stats.spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)])


def test_standardized_ranks_leave_missing_values_out():
    row = standardized_ranks(np.array([[3.0, nan, 1.0, inf]]))
    assert row == pytest.approx(np.array([[0, 0, -1, 1]]) / math.sqrt(2))
    assert (standardized_ranks(np.array([[nan, nan], [2.0, 2.0]])) == 0).all()
