import itertools
import math

import numpy as np
import pytest
from worlds import Setting, null_worlds, related_worlds, table

from initbench.statistics.selection import selection

inf, nan = math.inf, math.nan


def test_by_hand():
    probe = table(np.array([[1.0, 2, 3, 4], [4, 3, 2, 1], [1, 2, 3, 4]]))
    outcome = table(np.array([[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [0.3, 0.1, inf, 0.2]]))
    first = selection(probe, outcome)
    assert list(first.by_workload["regret"]) == pytest.approx([0, 0.3, 0.2])
    assert list(first.by_workload["precision"]) == [1, 0, 0]
    assert list(first.by_workload["regret_at_random"]) == pytest.approx([0.15, 0.15, inf])
    assert first.regret.value == pytest.approx(0.5 / 3)
    assert first.regret_at_random.value == inf
    two = selection(probe, outcome, k=2)
    assert list(two.by_workload["regret"]) == pytest.approx([0, 0.2, 0])
    assert list(two.by_workload["precision"]) == [1, 0, 0.5]
    high = selection(probe, outcome, lower_is_better=False)
    assert list(high.by_workload["regret"]) == pytest.approx([0.3, 0, 0.1])


def test_the_direction_is_learned_on_the_other_workloads():
    up, down = [1.0, 2, 3, 4], [4.0, 3, 2, 1]
    outcome = table(np.array([[0.1, 0.2, 0.3, 0.4]] * 3))
    # The others of w0 say +1 and -1: nothing. Those of w1 say +1 + -1 too, those of w2 +2: low values are taken there.
    found = selection(table(np.array([up, up, down])), outcome, lower_is_better=None)
    assert found.learned
    assert list(found.by_workload["workload"]) == ["w2"]
    assert list(found.by_workload["lower_is_better"]) == [True]
    assert list(found.by_workload["regret"]) == pytest.approx([0.3])
    turned = selection(table(np.array([down, down, down])), outcome, lower_is_better=None)
    assert list(turned.by_workload["lower_is_better"]) == [False] * 3
    assert turned.regret.value == 0
    assert not selection(outcome, outcome).learned


def test_a_workload_of_the_same_architecture_teaches_no_direction():
    up, down = [1.0, 2, 3, 4], [4.0, 3, 2, 1]
    outcome = table(np.array([[0.1, 0.2, 0.3, 0.4]] * 3))
    probe = table(np.array([up, down, down]))
    # By itself, w1 learns +1 and -1: nothing. As w2 is of its architecture, it learns from w0 alone.
    assert list(selection(probe, outcome, lower_is_better=None).by_workload["workload"]) == ["w0"]
    found = selection(probe, outcome, lower_is_better=None, architectures={"w1": "a", "w2": "a"}).by_workload
    assert dict(zip(found["workload"], found["lower_is_better"], strict=True)) == {"w0": False, "w1": True, "w2": True}


def test_one_workload_teaches_no_direction():
    values = table(np.arange(5.0)[None])
    assert selection(values, values, lower_is_better=None).regret.n == 0
    flat = table(np.array([[1.0, 1, 1, 1, 1], [1.0, 2, 3, 4, 5]]))
    outcome = table(np.arange(10.0).reshape(2, 5))
    # The second has a first that says nothing; the first has the second.
    assert list(selection(flat, outcome, lower_is_better=None).by_workload["workload"]) == ["w0"]


def test_workloads_count_by_their_initializers_in_the_direction():
    probe = table(np.array([[1.0, 2, 3, 4, 5], [3, 2, 1, nan, nan], [1, 2, 3, 4, 5]]))
    outcome = table(np.array([[1.0, 2, 3, 4, 5]] * 3))
    # For w2: 4 · 1 - 2 · 1 > 0.
    found = selection(probe, outcome, lower_is_better=None).by_workload
    assert list(found["lower_is_better"]) == [True, True, True]


@pytest.mark.parametrize("strength", [4.0, -4.0])
def test_a_learned_direction_does_as_well_as_the_true_one(strength):
    worlds = related_worlds(Setting(6, 6, 5), 200, seed=1, strength=strength)
    y, x = worlds.cells()
    for kind in (None, strength > 0):
        found = [selection(table(a), table(b), lower_is_better=kind) for a, b in zip(x, y, strict=True)]
        precision = np.mean([f.precision.value for f in found])
        assert precision > 0.6
        assert np.mean([f.regret.value for f in found]) < 0.3
        assert all((f.by_workload["lower_is_better"] == (strength > 0)).all() for f in found)


def test_where_workloads_share_nothing_a_direction_learned_by_chance_is_a_random_choice():
    y, x = null_worlds(Setting(6, 6, 5), 300, seed=2).cells()
    found = [selection(table(a), table(b), lower_is_better=None) for a, b in zip(x, y, strict=True)]
    excess = [f.regret.value - f.regret_at_random.value for f in found]
    assert abs(np.mean(excess)) < 3 * np.std(excess) / np.sqrt(300)


def test_ties_of_the_probe_are_averaged_over_all_ways_to_break_them():
    outcome = np.array([[0.4, 0.1, 0.3, 0.2]])
    [row] = selection(table(np.array([[1.0, 1, 1, 2]])), table(outcome), k=2).by_workload.to_dict("records")
    sets = list(itertools.combinations(range(3), 2))
    assert row["regret"] == pytest.approx(np.mean([outcome[0, list(s)].min() for s in sets]) - 0.1)
    assert row["precision"] == pytest.approx(np.mean([len({1, 3} & set(s)) / 2 for s in sets]))


def test_a_constant_probe_is_a_random_choice():
    outcome = table(np.random.default_rng(0).uniform(size=(4, 6)))
    found = selection(table(np.ones((4, 6))), outcome, k=2).by_workload
    assert list(found["regret"]) == pytest.approx(list(found["regret_at_random"]))
    assert list(found["precision"]) == pytest.approx(list(found["precision_at_random"]))


def test_the_outcome_itself_has_no_regret_and_full_precision():
    outcome = table(np.array([[0.2, 0.1, inf], [inf, 0.4, 0.4]]))
    found = selection(outcome, outcome)
    assert list(found.by_workload["regret"]) == [0, 0]
    assert found.by_workload["precision"][0] == 1
    assert found.by_workload["precision"][1] == 0.5  # two share the best: each way to break the tie is as good


def test_workloads_without_a_choice_are_left_out():
    outcome = table(np.array([[inf, inf, inf], [0.1, nan, nan], [0.1, 0.2, nan]]))
    found = selection(table(np.ones((3, 3))), outcome)
    assert list(found.by_workload["workload"]) == ["w2"]
    assert math.isnan(selection(table(np.ones((1, 2))), table(np.full((1, 2), inf))).regret.value)


def test_k_is_at_least_one():
    with pytest.raises(ValueError, match="at least 1"):
        selection(table(np.ones((1, 2))), table(np.ones((1, 2))), k=0)
