import math

import numpy as np
import pandas as pd
import pytest
from ledgers import KAIMING, make_measured, make_record, make_spec, quickstart_records
from reports import compared, comparison

from initbench.reporting.frame import GQ
from initbench.statistics.cells import cells, complete, table

nan, inf = math.nan, math.inf


def trials(records):
    return compared(records).trials


def test_cells_are_those_of_the_comparison():
    own = trials(quickstart_records())
    found = cells(own, [GQ]).set_index(["workload", "treatment"])
    expected = comparison(quickstart_records()).set_index(["workload", "treatment"]).loc[found.index]
    assert list(found["outcome"]) == list(expected["outcome_median"])
    assert list(found["diverged"]) == list(expected["diverged"])
    assert list(found[GQ]) == list(expected["gradient_quotient_median"])
    assert list(found[f"{GQ}.saturated"]) == list(expected["gradient_quotient_saturated"])


def test_a_diverged_seed_is_the_worst_and_a_failed_one_is_nothing():
    records = [
        make_record(make_spec(KAIMING, seed=0), 0.1),
        make_record(make_spec(KAIMING, seed=1), None, status="diverged"),
        make_record(make_spec(KAIMING, seed=2), 0.3),
        make_record(make_spec(KAIMING, seed=3), status="failed"),
    ]
    [row] = cells(trials(records)).to_dict("records")
    assert (row["outcome"], row["seeds"], row["diverged"]) == (0.3, 3, 1)
    [row] = cells(trials(records[:2])).to_dict("records")
    assert row["outcome"] == inf  # the median of 0.1 and +∞


def test_a_column_that_no_trial_has_is_missing():
    found = cells(trials(quickstart_records()), ["probe.other"])
    assert found["probe.other"].isna().all()


def test_a_cell_whose_trials_all_failed_is_counted_and_in_no_table():
    none = cells(trials([make_record(make_spec(KAIMING), status="failed")]), [GQ])
    [row] = none.to_dict("records")
    assert (row["state"], row["seeds"], row["failed"]) == ("failed", 0, 1)
    assert none[["outcome", "ranked", "trained", GQ]].isna().all(axis=None)
    assert table(none).empty


def test_a_cell_that_was_measured_alone_has_no_outcome():
    measured = cells(trials([make_measured(make_spec(KAIMING), quotient=0.7)]), [GQ])
    [row] = measured.to_dict("records")
    assert (row["state"], row["seeds"]) == ("measured", 1)
    assert measured[["outcome", "ranked"]].isna().all(axis=None)
    assert table(measured).empty


def test_the_table_has_gaps_where_nothing_ran():
    own = cells(trials(quickstart_records())[:-3])
    wide = table(own)
    assert wide.shape == (2, 4)
    assert int(wide.isna().to_numpy().sum()) == 1


def test_complete_leaves_out_the_workload_that_only_one_initializer_runs_on():
    wide = pd.DataFrame(
        [[1, 2, 3, nan], [4, 5, inf, nan], [7, 8, 9, nan], [nan, nan, nan, 1]],
        index=["a", "b", "c", "fixup"],
        columns=["w", "x", "y", "z"],
    )
    kept, workloads, initializers = complete(wide)
    assert (workloads, initializers) == (["fixup"], ["z"])
    assert kept.to_numpy() == pytest.approx(np.array([[1, 2, 3], [4, 5, inf], [7, 8, 9]]))


def test_complete_leaves_a_whole_table_alone_and_empties_a_hopeless_one():
    whole = pd.DataFrame([[1.0, 2.0], [inf, inf]])
    assert complete(whole).table.equals(whole)
    assert complete(pd.DataFrame([[nan, 1.0], [1.0, nan]])).table.size == 1
    assert complete(pd.DataFrame([[nan]])).table.empty
