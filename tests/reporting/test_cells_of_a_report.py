"""Cells: the one place where seeds become a cell, its state, and what ranks are made of."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import CHANCE, FAILED, MEASURED, NO_CHANCE, REGRESSION, TEN_CLASSES, planted, results_of
from statsmodels.stats.proportion import proportion_confint

from initbench.reporting.frame import GQ
from initbench.reporting.questions.comparison import rank
from initbench.reporting.questions.workloads import comparison_frame
from initbench.statistics.cells import cells, spread, table

nan, inf = math.nan, math.inf


def of(outcomes, task=TEN_CLASSES, **options):
    """Return treatment → cell, of one workload."""
    found = results_of(planted({"net": outcomes}, task, **options)).cells
    return {row["treatment"]: row for row in found.to_dict("records")}


@pytest.mark.parametrize(
    ("seeds", "state", "outcome", "trained"),
    [
        ([0.1, 0.3, 0.2], "trained", 0.2, 3),
        ([0.1, 0.3, None], "trained", 0.3, 2),
        ([0.1, 0.9, 0.2], "trained", 0.2, 2),
        ([0.1, 0.9, 0.9], "untrained", 0.9, 1),
        ([0.1, 0.9, None], "untrained", 0.9, 1),
        ([0.1, 0.1, None, None], "diverged", inf, 2),
        ([0.1, None, None], "diverged", inf, 1),
        ([0.9, 0.9, FAILED], "untrained", 0.9, 0),
        ([0.1, 0.3], "trained", 0.2, 2),
        ([FAILED, FAILED], "failed", nan, nan),
        ([MEASURED], "measured", nan, nan),
    ],
    ids=str,
)
def test_a_cell_is_the_median_of_its_seeds_and_is_judged_by_it(seeds, state, outcome, trained):
    row = of({"a": seeds})["a"]
    assert row["state"] == state
    assert row["outcome"] == pytest.approx(outcome, nan_ok=True)
    assert row["trained"] == pytest.approx(trained, nan_ok=True)
    assert row["seeds"] == sum(value != FAILED for value in seeds)
    assert row["diverged"] == seeds.count(None)
    assert row["failed"] == seeds.count(FAILED)
    assert row["chance"] == (CHANCE if state not in {"failed", "measured"} else pytest.approx(nan, nan_ok=True))


def test_without_a_chance_level_a_cell_counts_as_trained_and_its_seeds_are_not_judged():
    row = of({"a": [0.9, 0.9, 0.9]}, NO_CHANCE)["a"]
    assert row["state"] == "trained"
    assert row["ranked"] == row["outcome"] == 0.9
    assert math.isnan(row["trained"])
    assert math.isnan(row["chance"])


def test_the_share_of_seeds_that_train_has_wilsons_interval():
    """Half of the way from chance to the best median, 0.1, is 0.5; of 2 of 3 the interval is that of statsmodels."""
    frame = comparison_frame(results_of(planted({"net": {"a": [0.1, 0.1, 0.1], "b": [0.2, 0.49, 0.6]}})))
    rate = frame.set_index("treatment")[["train_rate", "train_rate_low", "train_rate_high"]]
    assert rate.loc["a", "train_rate"] == 1
    low, high = proportion_confint(2, 3, method="wilson")
    assert list(rate.loc["b"]) == pytest.approx([2 / 3, low, high])
    unknown = comparison_frame(results_of(planted({"net": {"a": [0.1, 0.1, 0.1]}}, NO_CHANCE)))
    assert unknown["train_rate"].isna().all()


def test_higher_is_better_turns_outcome_and_chance():
    rows = of({"a": [0.8, 0.7, 0.9], "b": [0.01, -0.2, 0.02], "c": [None, None, 0.9]}, REGRESSION)
    assert [rows[name]["outcome"] for name in "abc"] == [-0.8, -0.01, inf]
    assert [rows[name]["state"] for name in "abc"] == ["trained", "untrained", "diverged"]
    assert rows["a"]["chance"] == 0
    assert rows["a"]["metric"] == "test_r_squared"


def test_untrained_cells_are_tied_above_all_that_trained_and_below_those_that_diverged():
    """0.97 is nearer to 0.87 than this is to 0.85, and only the last has learned anything."""
    rows = of({"a": [0.03] * 3, "b": [0.85] * 3, "c": [0.87] * 3, "d": [0.97] * 3, "e": [None] * 3, "f": [None] * 3})
    a, b, c, d, e, f = (rows[name]["ranked"] for name in "abcdef")
    assert (a, b) == (0.03, 0.85)
    assert b < c == d < e == f == inf


outcome = st.sampled_from([None, 0.05, 0.1, 0.4, 0.84, 0.88, 0.9, 0.95, FAILED])


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(outcome, min_size=1, max_size=4), min_size=1))
def test_ranked_has_the_order_of_states_and_within_trained_that_of_outcomes(outcomes):
    found = results_of(planted({"net": outcomes})).cells
    judged = found[found["outcome"].notna()]
    place = judged["state"].map({"trained": 0, "untrained": 1, "diverged": 2}).to_numpy()
    ranked, medians = judged["ranked"].to_numpy(), judged["outcome"].to_numpy()
    for i, j in np.ndindex(len(judged), len(judged)):
        if place[i] != place[j]:
            assert (ranked[i] < ranked[j]) == (place[i] < place[j])
        elif place[i] == 0:
            assert (ranked[i] < ranked[j]) == (medians[i] < medians[j])
        else:
            assert ranked[i] == ranked[j]
    assert set(found[found["outcome"].isna()]["state"]) <= {"failed"}


def test_ranks_share_the_place_of_those_that_did_not_train():
    """Where two of three do not train, which of them is nearer to chance gives no rank."""
    outcomes = {f"net{i}": {"a": [0.05], "b": [0.9 + 0.001 * i], "c": [0.9 - 0.001 * i]} for i in range(4)}
    assert dict(rank(results_of(planted(outcomes))).ranks.mean_ranks) == {"a": 1.0, "b": 2.5, "c": 2.5}


def test_the_table_and_the_order_of_cells_are_natural_and_leave_out_what_has_no_outcome():
    outcomes = {"net10": {"b": [0.1], "a": [0.2]}, "net9": {"b": [0.3], "a": [FAILED]}}
    found = results_of(planted(outcomes)).cells
    assert list(found["workload"] + found["treatment"]) == ["net9a", "net9b", "net10a", "net10b"]
    wide = table(found)
    assert list(wide.index) == ["net9", "net10"]
    assert wide.to_numpy() == pytest.approx(np.array([[nan, 0.3], [0.2, 0.1]]), nan_ok=True)


def test_a_probe_is_the_median_of_all_seeds_and_missing_where_one_has_none():
    records = planted({"net": {"a": [0.1, 0.2, 0.3]}}, quotients={("net", "a"): 0.25})
    [row] = cells(results_of(records).trials, [GQ]).to_dict("records")
    assert row[GQ] == 0.25
    assert row[f"{GQ}.saturated"] == 0
    trials = results_of(records).trials
    [row] = cells(trials.assign(**{GQ: [0.1, 0.2, nan]}).drop(columns=f"{GQ}.saturated"), [GQ]).to_dict("records")
    assert math.isnan(row[GQ])


def test_the_spread_of_seeds_in_the_metrics_own_direction():
    own = spread([0.1, 0.2, inf])
    assert own == (0.2, 0.1, inf)
    from ledgers import R_SQUARED

    assert spread([-0.9, -0.7, -0.8]).in_direction(R_SQUARED) == (0.8, 0.7, 0.9)
    assert all(math.isnan(value) for value in spread([]))
