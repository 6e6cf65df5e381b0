import math

import numpy as np
import pandas as pd
import pytest

from initbench.statistics.profiles import performance_profiles, performance_ratios

inf, nan = math.inf, math.nan
# By hand: ratios a 1 1.5 ∞, b 2 1 ∞ on the first three; on w3 all miss; on w4 the least is 0.
COSTS = pd.DataFrame(
    {"a": [1.0, 3.0, inf, inf, 0.0], "b": [2.0, 2.0, nan, inf, 0.5], "c": [4.0, inf, 7.0, nan, 0.0]},
    index=["w0", "w1", "w2", "w3", "w4"],
)


def test_ratios_of_a_hand_made_table():
    expected = [[1, 2, 4], [1.5, 1, inf], [inf, inf, 1], [inf, inf, inf], [1, inf, 1]]
    assert performance_ratios(COSTS).to_numpy() == pytest.approx(np.array(expected))


def test_profiles_of_a_hand_made_table():
    profiles = performance_profiles(COSTS)
    assert list(profiles.index) == [1, 1.5, 2, 4]
    expected = {"a": [0.4, 0.6, 0.6, 0.6], "b": [0.2, 0.2, 0.4, 0.4], "c": [0.4, 0.4, 0.4, 0.6]}
    assert profiles.to_dict("list") == {name: pytest.approx(values) for name, values in expected.items()}


def test_profiles_do_not_depend_on_the_unit_of_a_workload():
    scaled = COSTS.mul([1, 10, 0.5, 3, 7], axis="index")
    pd.testing.assert_frame_equal(performance_profiles(scaled), performance_profiles(COSTS))


def test_where_all_miss_nobody_is_ever_within_a_factor():
    assert performance_profiles(pd.DataFrame([[inf, nan]])).to_numpy().tolist() == [[0, 0]]


def test_a_negative_cost_is_refused():
    with pytest.raises(ValueError, match="negative"):
        performance_ratios(-COSTS)
