"""Whether a network has learned anything, by closed form at both thresholds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import BITS, ERROR, R_SQUARED
from planted import NO_CHANCE, planted, results_of, task_with_chance
from scipy import stats

from initbench.comparing.chance import SHARE, STANDARD_ERRORS, is_trained

nan, inf = math.nan, math.inf
TINY = 1e-9


def judged(outcome, chance, error, best):
    return float(is_trained(outcome, chance, error, best))


def test_the_thresholds_are_those_of_the_definition():
    assert pytest.approx(stats.norm.isf(0.005), abs=1e-3) == STANDARD_ERRORS
    assert SHARE == 0.02


@pytest.mark.parametrize("error", [0.016, 0.03])
def test_better_than_chance_by_more_than_its_standard_errors(error):
    """With a standard error above 2 % of 0.9 / 2.576 = 0.007 it is the standard errors that decide."""
    edge = 0.9 - 2.576 * error
    assert judged(edge - TINY, 0.9, error, 0.0) == 1
    assert judged(edge + TINY, 0.9, error, 0.0) == 0
    assert judged(0.9, 0.9, error, 0.0) == 0
    assert judged(0.95, 0.9, error, 0.0) == 0


@pytest.mark.parametrize("error", [0.0, 0.001, 0.0069])
def test_and_by_more_than_two_percent_of_the_way_to_the_best(error):
    edge = 0.9 - 0.02 * 0.9
    assert judged(edge - TINY, 0.9, error, 0.0) == 1
    assert judged(edge + TINY, 0.9, error, 0.0) == 0


def test_without_a_best_value_the_standard_errors_decide_alone_and_the_reverse():
    assert judged(4.0 - 0.0257, 4.0, 0.01, nan) == 0
    assert judged(4.0 - 0.0258, 4.0, 0.01, nan) == 1
    assert judged(0.9 - 0.0179, 0.9, nan, 0.0) == 0
    assert judged(0.9 - 0.0181, 0.9, nan, 0.0) == 1


def test_what_is_not_known_is_not_called_untrained():
    assert math.isnan(judged(0.9, 0.9, nan, nan))
    assert math.isnan(judged(0.9, nan, 0.016, 0.0))
    assert math.isnan(judged(nan, 0.9, 0.016, 0.0))


def test_a_chance_level_that_nothing_can_beat_tells_nothing():
    """1 % of 300 samples are of the rare class: a perfect network's error is not 2.576 standard errors below 1 %."""
    error = math.sqrt(4 / 302 * 298 / 302 / 300)
    assert math.isnan(judged(0.0, 0.01, error, 0.0))
    assert math.isnan(judged(0.01, 0.01, error, 0.0))
    assert judged(0.0, 0.05, error, 0.0) == 1


def test_a_diverged_trial_is_not_trained():
    assert judged(inf, 0.9, 0.016, 0.0) == 0
    assert judged(inf, 0.9, nan, 0.0) == 0
    assert math.isnan(judged(inf, nan, nan, 0.0))


def test_several_at_once():
    found = is_trained([0.5, 0.9, inf, nan], 0.9, 0.016, [0.0, 0.0, 0.0, 0.0])
    assert found == pytest.approx([1, 0, 0, nan], nan_ok=True)


@given(
    outcome=st.floats(-10, 10),
    chance=st.floats(-10, 10),
    error=st.floats(0, 1) | st.just(nan),
    best=st.floats(-10, 10) | st.just(nan),
)
def test_a_better_outcome_is_never_less_trained_and_scale_does_not_matter(outcome, chance, error, best):
    own = judged(outcome, chance, error, best)
    better = judged(outcome - 1, chance, error, best)
    assert math.isnan(own) == math.isnan(better)
    assert math.isnan(own) or better >= own
    # A power of two scales without rounding.
    assert np.array_equal(own, judged(4 * outcome, 4 * chance, 4 * error, 4 * best), equal_nan=True)


@pytest.mark.parametrize(
    ("metric", "chance", "error", "edge"),
    [
        (ERROR, 0.9, 0.016, 0.9 - 2.576 * 0.016),
        (R_SQUARED, 0.0, 0.01, 2.576 * 0.01),  # higher is better
        (R_SQUARED, 0.0, 0.001, 0.02),  # of the way from 0 to 1
        (BITS, 4.0, 0.01, 4.0 - 2.576 * 0.01),  # no best value is known
        (ERROR, 0.9, None, 0.882),
    ],
    ids=str,
)
def test_records_are_judged_by_the_chance_level_that_they_hold(metric, chance, error, edge):
    better = -1e-6 if metric.better == "lower" else 1e-6
    task = task_with_chance(metric, chance, error)
    trials = results_of(planted({"net": {"a": [edge + better, edge - better, None]}}, task)).trials
    assert list(trials.sort_values("seed")["is_trained"]) == [1, 0, 0]


def test_without_a_chance_level_nothing_is_said():
    trials = results_of(planted({"net": {"a": [0.1, 0.9, None]}}, NO_CHANCE)).trials
    assert trials["is_trained"].isna().all()
