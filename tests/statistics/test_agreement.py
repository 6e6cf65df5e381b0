import math

import numpy as np
import pytest
from scipy import stats
from worlds import frame

from initbench.statistics.agreement import batch_spread, mean_seed_agreement, seed_agreement


def trials(values):
    return frame(np.zeros(values.shape), **{"probe.p": values})


def test_agreement_is_kendalls_concordance():
    values = np.random.default_rng(0).standard_normal((2, 6, 4)) + np.arange(6)[None, :, None]
    found = seed_agreement(trials(values), "probe.p")
    for workload, row in zip(values, found.to_dict("records"), strict=True):
        ranks = stats.rankdata(workload, axis=0).sum(axis=1)
        w = 12 * np.sum((ranks - ranks.mean()) ** 2) / (4**2 * (6**3 - 6))
        assert row["agreement"] == pytest.approx((4 * w - 1) / 3)
        assert (row["seeds"], row["treatments"]) == (4, 6)


def test_the_same_order_at_every_seed_agrees_wholly():
    values = np.tile(np.arange(5.0)[None, :, None], (3, 1, 3)) + np.arange(3)
    estimate = mean_seed_agreement(seed_agreement(trials(values), "probe.p"))
    assert (estimate.value, estimate.n) == (pytest.approx(1), 3)
    assert not estimate.has_interval  # three equal values have no spread: a point would claim too much


def test_initializers_without_the_probe_at_some_seed_are_left_out():
    values = np.tile(np.arange(5.0)[None, :, None], (1, 1, 3))
    values[0, 4, 1] = math.nan
    [row] = seed_agreement(trials(values), "probe.p").to_dict("records")
    assert row["treatments"] == 4
    assert len(seed_agreement(trials(values[:, :, :1]), "probe.p")) == 0
    assert len(seed_agreement(trials(values), "probe.none")) == 0


def test_a_seed_without_an_order_has_no_agreement():
    values = np.ones((1, 4, 2))
    assert math.isnan(seed_agreement(trials(values), "probe.p")["agreement"][0])


def test_batch_spread_is_the_median_coefficient_of_variation():
    per_batch = [[1.0, 3.0], [-10.0, -10.0, -10.0], [2.0, 2.2], [5.0], [1.0, math.inf], [-1.0, 1.0]]
    expected = np.median([math.sqrt(2) / 2, 0, math.sqrt(0.02) / 2.1])
    assert batch_spread(per_batch).value == pytest.approx(expected)
    assert batch_spread(per_batch).n == 3
    assert math.isnan(batch_spread([]).value)
