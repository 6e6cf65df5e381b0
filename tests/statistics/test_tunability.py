"""What so many tries come to, and how wide good and stable ranges are, against enumeration and by hand."""

import itertools
import math

import numpy as np
import pytest

from initbench.statistics.rates import (
    best_of_subset,
    expected_best,
    geometric_estimate,
    good_range,
    stable_rate,
    tunability,
)


@pytest.mark.parametrize("tries", [1, 2, 3, 4, 5])
def test_the_probability_of_being_the_best_is_that_of_all_subsets(tries):
    subsets = list(itertools.combinations(range(5), tries))
    counted = [sum(min(subset) == point for subset in subsets) / len(subsets) for point in range(5)]
    assert best_of_subset(5, tries) == pytest.approx(counted, abs=1e-15)


@pytest.mark.parametrize(("points", "tries"), [(7, 0), (7, 8)])
def test_there_are_as_many_tries_as_points_at_the_most(points, tries):
    with pytest.raises(ValueError, match=r"tries must be from 1 to 7"):
        best_of_subset(points, tries)


def test_the_expected_value_is_the_mean_over_all_orders():
    generator = np.random.default_rng(0)
    chooser, shown = generator.standard_normal((2, 5))
    chooser[1] = chooser[3]  # of equals the first is chosen
    orders = np.array(list(itertools.permutations(range(5))))
    by_hand = []
    for k in range(1, 6):
        best = [min(order[:k], key=lambda point: (chooser[point], point)) for order in orders]
        by_hand.append(shown[best].mean())
    assert expected_best(chooser, shown) == pytest.approx(by_hand, abs=1e-12)
    assert expected_best(chooser, shown)[0] == pytest.approx(shown.mean())
    assert expected_best([np.inf, 0.3, np.inf], [0.9, 0.4, 0.9])[-1] == 0.4


def test_what_one_seed_chooses_is_shown_by_the_others():
    """By its own value the choice among equal points would look better than any of them is."""
    noise = np.random.default_rng(1).standard_normal((400, 3, 7))
    shown = np.mean([tunability(world) for world in noise], axis=(0, 1))
    assert shown == pytest.approx(np.zeros(7), abs=4 / math.sqrt(400 * 3))
    cursed = np.mean([expected_best(world[0], world[0])[-1] for world in noise])
    assert cursed < -1  # the mean of the least of seven normal values is -1.35
    values = np.array([[3.0, 1.0], [4.0, 2.0], [5.0, 0.0]])
    assert tunability(values)[:, 1] == pytest.approx([1.0, 0.5, 1.5])
    with pytest.raises(ValueError, match="two seeds"):
        tunability(values[:1])


def test_a_good_rate_loses_a_tenth_of_the_gain_over_chance_at_the_most():
    rates = [1.0, 0.001, 0.01, 0.1]
    # The best gains 0.8, so that 0.18 is good and 0.19 is not.
    found = good_range(rates, [math.inf, 0.19, 0.18, 0.1], 0.9)
    assert (found.best, found.low, found.high, found.is_open) == (0.1, 0.01, 0.1, False)
    assert found.factor == pytest.approx(10.0)
    whole = good_range(rates, [0.12, 0.11, 0.1, 0.1], 0.9)
    assert (whole.best, whole.low, whole.high) == (0.01, 0.001, 1.0)
    assert whole.is_open_below
    assert whole.is_open_above
    # A good rate behind a bad one is another range.
    assert good_range([1, 2, 3], [0.1, 0.5, 0.1], 0.9)[:3] == (1, 1, 1)


@pytest.mark.parametrize(("outcomes", "chance"), [([0.9, 0.95], 0.9), ([0.1, 0.2], math.nan), ([math.inf] * 2, 0.9)])
def test_without_a_gain_over_chance_there_is_no_good_range(outcomes, chance):
    assert good_range([0.1, 1.0], outcomes, chance) is None


def test_the_largest_stable_rate_is_the_last_before_the_first_failure_above_the_best():
    rates, outcomes = [1.0, 0.3, 0.1, 0.03, 0.01], [0.5, math.inf, 0.2, 0.1, 0.9]
    found = stable_rate(rates, outcomes, [True, False, True, True, False])
    assert (found.best, found.stable, found.is_open) == (0.03, 0.1, False)
    assert found.ratio == pytest.approx(10 / 3)
    open_above = stable_rate(rates, [0.5, 0.4, 0.2, 0.1, 0.9], [True] * 5)
    assert (open_above.stable, open_above.is_open) == (1.0, True)
    assert stable_rate(rates, outcomes, [False] * 5) is None


def test_ratios_are_averaged_by_their_logarithms():
    found = geometric_estimate([1.0, 10.0, 100.0])
    half = 4.302652729911275 * math.log(10) / math.sqrt(3)  # Student's t of 2 degrees of freedom
    assert found.value == pytest.approx(10.0)
    assert (found.low, found.high) == pytest.approx((10 / math.exp(half), 10 * math.exp(half)))
    assert not geometric_estimate([3.0, 3.0, 3.0]).has_interval
