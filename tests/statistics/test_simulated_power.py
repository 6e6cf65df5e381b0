"""How often the test of a pair on a workload finds a difference in simulated suites, and how often `power` says so.

The slow one prints the table of docs/statistics.md:

    pytest -m slow -s tests/statistics/test_simulated_power.py
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from simulations import ALPHA, percent, show
from worlds import Setting, frame, null_worlds

from initbench.statistics.power import detectable_difference, few_seeds_needed, pilot_spread, power, seeds_needed
from initbench.statistics.seed_variance import SeedVariance, pair_moments, pvalue, variances

SPREAD = 0.5 * math.sqrt(2)  # of the worlds' light tails


def pairs(setting):
    return setting.initializers * (setting.initializers - 1) // 2


def found(setting, difference, comparisons, number):
    """Return how often the first initializer, worse by `difference`, is told from each other one on each workload."""
    x = null_worlds(setting, number, seed=10 + setting.seeds, effects=0.0).outcome
    x[:, :, 0] += difference
    mean, variance, seeds = (moment[..., : setting.initializers - 1] for moment in pair_moments(x))
    of = SeedVariance(*(array[..., None] for array in variances(x)))
    return float(np.mean(pvalue(mean, variance, seeds, of) < ALPHA / comparisons))


def promised(setting, difference, comparisons, spread=SPREAD):
    return power(difference, spread, setting.seeds, comparisons, setting.initializers, setting.workloads)


@pytest.mark.parametrize(("workloads", "initializers"), [(1, 2), (6, 2), (1, 4), (4, 5)])
@pytest.mark.parametrize("seeds", [3, 5, 6, 8])
def test_power_is_what_was_promised(workloads, initializers, seeds):
    setting = Setting(workloads, initializers, seeds)
    for comparisons in {1, pairs(setting)}:
        difference = detectable_difference(SPREAD, seeds, comparisons, initializers, workloads)
        assert promised(setting, difference, comparisons) == pytest.approx(0.8, abs=1e-6)
        number = 2000 // workloads
        assert found(setting, difference, comparisons, number) == pytest.approx(0.8, abs=0.05)
        weaker = found(setting, 0.6 * difference, comparisons, number)
        assert weaker == pytest.approx(promised(setting, 0.6 * difference, comparisons), abs=0.05)


@pytest.mark.parametrize("size", [0.4, 1.0, 2.0])
def test_the_seeds_needed_find_the_difference_and_fewer_do_not(size):
    setting = Setting(workloads=4, initializers=5)
    suite = (pairs(setting), setting.initializers, setting.workloads)

    def share(seeds):
        return found(replace(setting, seeds=seeds), size, suite[0], 500)

    needed, few = seeds_needed(size, SPREAD, *suite), few_seeds_needed(size, SPREAD, *suite)
    assert share(needed) > 0.75
    assert share(needed + 1) > 0.75
    assert share(needed - 1) < 0.85
    if few is not None:
        assert all(share(seeds) > 0.75 for seeds in range(few, 6))


# The slow ones.


@pytest.mark.slow
def test_power_grows_with_seeds_as_promised():
    rows, worst = [], 0.0
    pilots = [pilot_spread(frame(outcome)).difference for outcome in null_worlds(Setting(4, 4, 3), 50, seed=9).outcome]
    for workloads, initializers in ((1, 2), (12, 2), (1, 5), (4, 5), (12, 10)):
        comparisons, number = initializers * (initializers - 1) // 2, max(100, 4000 // workloads)
        difference = detectable_difference(SPREAD, 5, comparisons, initializers, workloads)
        for seeds in (3, 4, 5, 6, 7, 8, 10):
            setting = Setting(workloads, initializers, seeds)
            sure = promised(setting, difference, comparisons)
            from_pilots = float(np.mean([promised(setting, difference, comparisons, spread) for spread in pilots]))
            light = found(setting, difference, comparisons, number)
            # Noise of 3 degrees of freedom has √3 times the deviation: the difference grows with it.
            heavy = found(replace(setting, heavy=True), difference * math.sqrt(3), comparisons, number)
            rows.append([workloads, initializers, seeds, *map(percent, (sure, from_pilots, light, heavy))])
            worst = max(worst, abs(light - sure))
    head = ["workloads", "initializers", "seeds", "promised, %", "promised by pilots of 4 × 4 × 3, %"]
    head += ["found, light tails, %", "found, heavy tails, %"]
    show("Power for a pair on a workload, at α / all pairs of the workload", head, rows)
    assert worst <= 0.05
