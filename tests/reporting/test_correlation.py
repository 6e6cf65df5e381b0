from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import PLAIN, WRN, make_record, make_spec
from scipy import stats

from initbench.reporting.comparison import comparable_trials, compare
from initbench.reporting.correlation import correlate
from initbench.reporting.frame import results_frame


def comparison(quotients, errors, saturated=None, group="plain"):
    return pd.DataFrame(
        {
            "group": group,
            "initializer": [f"initializer_{i}" for i in range(len(quotients))],
            "gradient_quotient_median": quotients,
            "gradient_quotient_saturated": saturated or [0] * len(quotients),
            "test_error_median": errors,
        }
    )


def correlation(*arguments):
    table = correlate(comparison(*arguments))
    assert len(table) == 1
    return table.iloc[0]


def test_rho_from_hand_made_ranks():
    # Ranks 1 2 3 4 5 against 2 1 3 5 4: Σd² = 4, ρ = 1 - 6·4 / (5·24) = 0.8. The values are far from linear.
    row = correlation([0.1, 0.2, 5.0, 300.0, 1e9], [0.02, 0.01, 0.3, 0.9, 0.31])
    assert row["rho"] == pytest.approx(0.8, abs=1e-12)
    assert (row["n"], row["saturated"], row["remark"]) == (5, 0, "")


def test_diverged_initializers_share_the_worst_rank():
    # Errors' ranks 1 2 3 4.5 4.5 against 1 2 3 4 5: Pearson's r of the ranks = 9.5 / √(10 · 9.5).
    row = correlation([1, 2, 3, 4, 5], [0.1, 0.2, 0.3, math.inf, math.inf])
    assert row["rho"] == pytest.approx(9.5 / math.sqrt(95), abs=1e-12)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 100), st.sampled_from([0.1, 0.2, 0.3, 0.9, math.inf])), min_size=5, max_size=12
    ).filter(lambda points: all(len(set(values)) > 1 for values in zip(*points, strict=True)))
)
def test_rho_equals_pearsons_r_of_the_midranks(points):
    quotients, errors = zip(*points, strict=True)
    expected = stats.pearsonr(stats.rankdata(quotients), stats.rankdata(errors)).statistic
    assert correlation(quotients, errors)["rho"] == pytest.approx(expected, abs=1e-12)


def test_saturated_initializers_are_left_out_and_counted():
    row = correlation([1, 2, 3, 4, 5, 1.0, 1.0], [0.5, 0.4, 0.3, 0.2, 0.1, 0.9, 0.9], [0, 0, 0, 0, 0, 3, 1])
    assert row["rho"] == pytest.approx(-1)
    assert (row["n"], row["saturated"]) == (5, 2)


def test_below_five_initializers_there_is_no_rho():
    row = correlation([1, 2, 3, 4, 1], [0.1, 0.2, 0.3, 0.4, 0.9], [0, 0, 0, 0, 3])
    assert math.isnan(row["rho"])
    assert row["remark"] == "not enough initializers (n = 4)"


def test_initializers_without_quotient_or_outcome_are_not_counted():
    row = correlation([1, 2, math.nan, 4, 5], [0.1, 0.2, 0.3, 0.4, math.nan])
    assert (row["n"], row["saturated"]) == (3, 0)


def test_constant_values_have_no_rho():
    assert correlation([1, 2, 3, 4, 5], [0.9] * 5)["remark"] == "all values are equal"


def test_groups_are_never_pooled():
    # Within each architecture ρ is -1; pooled it would be positive (Simpson's paradox).
    records = [
        make_record(make_spec({"name": f"init_{i}"}, architecture), level + 0.01 * (5 - i), quotient=scale * (i + 1))
        for architecture, level, scale in ((PLAIN, 0.1, 1.0), (WRN, 0.5, 100.0))
        for i in range(5)
    ]
    table = correlate(compare(comparable_trials(results_frame(records))))
    assert list(table["rho"]) == pytest.approx([-1, -1])


def test_an_initializer_whose_quotient_overflowed_is_the_worst_and_is_not_left_out():
    records = []
    for index, (quotient, error) in enumerate([(0.5, 0.1), (1.0, 0.2), (2.0, 0.3), (4.0, 0.4), (None, 0.9)]):
        records += [
            make_record(make_spec({"name": f"initializer_{index}"}, seed=seed), error, quotient=quotient)
            for seed in range(3)
        ]
    table = compare(comparable_trials(results_frame(records)))
    assert sorted(table["gradient_quotient_median"]) == [0.5, 1.0, 2.0, 4.0, math.inf]
    [row] = correlate(table).to_dict("records")
    assert (row["rho"], row["n"], row["remark"]) == (pytest.approx(1.0), 5, "")
