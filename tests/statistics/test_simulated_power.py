"""How often the test of a pair on a workload finds a difference in simulated suites, and how often `power` says so.

The slow ones print the tables of docs/statistics.md:

    pytest -m slow -s tests/statistics/test_simulated_power.py
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from simulations import ALPHA, percent, show
from worlds import Setting, null_worlds

from initbench.statistics.power import (
    detectable_difference,
    few_seeds_needed,
    planning_spread,
    power,
    resolution,
    seeds_needed,
)
from initbench.statistics.seed_variance import SeedVariance, pair_moments, pvalue, variances

SPREAD = 0.5 * math.sqrt(2)  # of the worlds' light tails


def pairs(setting):
    return setting.initializers * (setting.initializers - 1) // 2


def share_found(setting, difference, comparisons, number):
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
        assert share_found(setting, difference, comparisons, number) == pytest.approx(0.8, abs=0.05)
        weaker = share_found(setting, 0.6 * difference, comparisons, number)
        assert weaker == pytest.approx(promised(setting, 0.6 * difference, comparisons), abs=0.05)


@pytest.mark.parametrize("size", [0.4, 1.0, 2.0])
def test_the_seeds_needed_find_the_difference_and_fewer_do_not(size):
    setting = Setting(workloads=4, initializers=5)
    suite = (pairs(setting), setting.initializers, setting.workloads)

    def share(seeds):
        return share_found(replace(setting, seeds=seeds), size, suite[0], 500)

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
    for workloads, initializers in ((1, 2), (12, 2), (1, 5), (4, 5), (12, 10)):
        comparisons, number = initializers * (initializers - 1) // 2, 4000 // workloads
        difference = detectable_difference(SPREAD, 5, comparisons, initializers, workloads)
        for seeds in (3, 4, 5, 6, 7, 8, 10):
            setting = Setting(workloads, initializers, seeds)
            sure = promised(setting, difference, comparisons)
            light = share_found(setting, difference, comparisons, number)
            # Noise of 3 degrees of freedom has √3 times the deviation: the difference grows with it.
            heavy = share_found(replace(setting, heavy=True), difference * math.sqrt(3), comparisons, number)
            rows.append([workloads, initializers, seeds, *map(percent, (sure, light, heavy))])
            worst = max(worst, abs(light - sure))
    head = ["workloads", "initializers", "seeds", "promised, %", "found, light tails, %", "found, heavy tails, %"]
    show("Power for a pair on a workload, at 5 % / all pairs of the workload", head, rows)
    assert worst <= 0.05


@pytest.mark.slow
def test_a_plan_from_the_seeds_of_one_workload_keeps_its_promise():
    rows, shares = [], []
    for workloads, initializers, seeds in ((1, 2, 3), (1, 2, 5), (1, 5, 3), (4, 5, 3), (4, 5, 5), (12, 10, 3)):
        setting = Setting(workloads, initializers, seeds)
        comparisons = initializers * (initializers - 1) // 2
        of = variances(null_worlds(setting, 300, seed=9).outcome)
        plans = [SeedVariance(*(array[i, 0] for array in of)) for i in range(300)]
        differences = [resolution(plan, seeds, initializers, workloads, comparisons) for plan in plans]
        share = np.mean([promised(setting, difference, comparisons) for difference in differences])
        factor = planning_spread(1.0, float(of.freedom[0, 0]), comparisons)
        plain = np.mean([promised(setting, difference / factor, comparisons) for difference in differences])
        rows.append([workloads, initializers, seeds, int(of.freedom[0, 0]), percent(share), percent(plain)])
        shares.append(share)
    head = ["workloads", "initializers", "seeds", "degrees of freedom", "found, %", "found if ŝ were certain, %"]
    show("Power for the difference that the seeds of a workload resolve", head, rows)
    assert np.max(np.abs(np.array(shares) - 0.8)) <= 0.05
