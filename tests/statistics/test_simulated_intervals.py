"""How often intervals hold what they estimate, on simulated worlds with known truth.

The slow ones print tables of docs/statistics.md:

    pytest -m slow -s tests/statistics
"""

import math

import numpy as np
import pytest
from simulations import WORLDS, percent, show
from worlds import Setting, noise, related_worlds, table

from initbench.statistics.association import associations
from initbench.statistics.intervals import mean_estimate
from initbench.statistics.permutation import scores
from initbench.statistics.pooled import crossed, pool

# The fast ones.


def test_the_t_interval_covers_what_it_says_with_light_tails():
    generator = np.random.default_rng(4)
    for n in (3, 10):
        covered = [e.low <= 0 <= e.high for e in map(mean_estimate, generator.standard_normal((WORLDS, n)))]
        assert np.mean(covered) >= 0.93


# The slow ones.


@pytest.mark.slow
def test_coverage_of_intervals_for_means():
    generator = np.random.default_rng(7)
    draws = {
        "normal": generator.standard_normal,
        "Student's t, 3 degrees of freedom": lambda shape: noise(Setting(heavy=True), shape, generator),
        "lognormal": lambda shape: np.exp(generator.standard_normal(shape)) - math.exp(0.5),
    }
    rows = []
    for name, draw in draws.items():
        row = [name]
        for n in (3, 5, 10):
            covered = [e.low <= 0 <= e.high for e in map(mean_estimate, draw((2 * WORLDS, n)))]
            row.append(percent(np.mean(covered)))
        rows.append(row)
    show("Student's 95 % interval: % of 2,000 that hold the mean", ["values", "n = 3", "n = 5", "n = 10"], rows)
    assert min(map(float, rows[0][1:])) >= 93


@pytest.mark.slow
def test_coverage_of_intervals_for_the_pooled_correlation():
    rows, number = [], 200
    for workloads, initializers, strength in ((3, 6, 0), (6, 10, 0), (6, 10, 1), (12, 10, 1)):
        for shared in (0.0, 0.8):
            setting = Setting(workloads, initializers, 3, shared=shared)
            y, x = related_worlds(setting, 2 * WORLDS, 8, strength=strength).cells()
            ranks_x, ranks_y, weights = scores(x, y)
            truth = float(np.einsum("wai,wai,wa->w", ranks_x, ranks_y, weights).mean())
            over, hartung = 0, 0
            for a, b in zip(x[:number], y[:number], strict=True):
                estimate = crossed(table(a), table(b))
                over += estimate.low <= truth <= estimate.high
                own = associations(table(a), table(b))
                pooled = pool(own["rho"], own["n"]).rho
                hartung += pooled.low <= truth <= pooled.high
            rows.append(
                [workloads, initializers, shared, f"{truth:+.2f}", percent(over / number), percent(hartung / number)]
            )
    head = ["workloads", "initializers", "shared", "mean ρ", "over initializers (jackknife)", "over workloads (H.-K.)"]
    show("Intervals for the mean ρ: % of 200 that hold the mean over 2,000 worlds", head, rows)
    # Three standard errors of a share of 200 below 93 %.
    assert min(float(row[4]) for row in rows) >= 100 * (0.93 - 3 * math.sqrt(0.93 * 0.07 / number))
