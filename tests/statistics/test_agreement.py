import math

import numpy as np
import pytest
from scipy import stats
from worlds import frame

from initbench.statistics.agreement import batch_spread, seed_agreement
from initbench.statistics.intervals import mean_estimate


def trials(values):
    return frame(np.zeros(values.shape), **{"probe.p": values})


def test_agreement_is_kendalls_concordance():
    values = np.random.default_rng(0).standard_normal((2, 6, 4)) + np.arange(6)[None, :, None]
    expected = []
    for workload in values:
        ranks = stats.rankdata(workload, axis=0).sum(axis=1)
        w = 12 * np.sum((ranks - ranks.mean()) ** 2) / (4**2 * (6**3 - 6))
        expected.append((4 * w - 1) / 3)
        alone = seed_agreement(trials(workload[None]), "probe.p")
        assert (alone.value, alone.n) == (pytest.approx(expected[-1]), 1)
    found = seed_agreement(trials(values), "probe.p")
    assert found == pytest.approx(mean_estimate(expected).clipped(-1, 1), nan_ok=True)


def test_the_same_order_at_every_seed_agrees_wholly():
    values = np.tile(np.arange(5.0)[None, :, None], (3, 1, 3)) + np.arange(3)
    estimate = seed_agreement(trials(values), "probe.p")
    assert (estimate.value, estimate.n) == (pytest.approx(1), 3)
    assert not estimate.has_interval  # three equal values have no spread: a point would claim too much


def test_initializers_without_the_probe_at_some_seed_are_left_out():
    values = np.tile(np.arange(5.0)[None, :, None], (1, 1, 3))
    values[0, 4] = [-1, math.nan, 2]  # the others have the same order at every seed
    assert seed_agreement(trials(values), "probe.p").value == pytest.approx(1)
    assert seed_agreement(trials(values[:, :, :1]), "probe.p").n == 0
    assert seed_agreement(trials(values[:, :2]), "probe.p").n == 0


def test_a_seed_without_an_order_has_no_agreement():
    values = np.ones((1, 4, 2))
    values[0, :, 0] = np.arange(4)
    found = seed_agreement(trials(values), "probe.p")
    assert (math.isnan(found.value), found.n) == (True, 0)


def test_batch_spread_is_the_median_coefficient_of_variation():
    per_batch = [[1.0, 3.0], [-10.0, -10.0, -10.0], [2.0, 2.2], [5.0], [1.0, math.inf], [-1.0, 1.0]]
    expected = np.median([math.sqrt(2) / 2, 0, math.sqrt(0.02) / 2.1])
    assert batch_spread(per_batch).value == pytest.approx(expected)
    assert batch_spread(per_batch).n == 3
    assert math.isnan(batch_spread([]).value)
