"""False claims of `seed_variance` among equally good treatments, and what it finds of true differences.

`python tests/statistics/seed_worlds.py` prints the tables of docs/statistics.md; here are their hardest cases.
"""

import itertools
import math

import numpy as np
import pytest
from seed_worlds import WORLDS, false_claims, holm, power, pvalues
from simulations import ALPHA, limit

from initbench.statistics.decisions import adjust
from initbench.statistics.seed_variance import SeedVariance, difference_estimate, variances

HARDEST = [
    ("one treatment ×1/10", (12, 3, 5)),
    ("one treatment ×1/10", (12, 4, 5)),
    ("one treatment ×10", (12, 4, 3)),
    ("×16 by treatment", (12, 3, 4)),
    ("cells' variances inverse χ², 2 d.f.", (12, 4, 3)),
    ("50% of seeds near chance", (4, 5, 3)),
    ("50% of seeds near chance", (12, 2, 3)),
    ("50% of seeds near chance, on one workload", (4, 5, 3)),
    ("50% of seeds stop halfway", (12, 5, 4)),
    ("25% of seeds at chance", (12, 5, 7)),
    ("whole errors on 360 samples", (4, 5, 3)),
]


@pytest.mark.parametrize(("world", "size"), HARDEST, ids=str)
def test_equal_treatments_differ_in_no_more_than_five_percent(world, size):
    """300 suites: at most 8.8 %, which is 5 % and three standard errors."""
    assert max(false_claims(world, size, number=300)) <= limit(300)


def test_the_paired_t_alone_breaks_the_limit_where_seeds_fail():
    """The reason for the method: three seeds that fail against three that do not differ with little variance."""
    x = WORLDS["50% of seeds near chance"](np.random.default_rng(1), (300, 4, 5, 3))
    first, second = np.triu_indices(5, 1)
    differences = x[:, :, first] - x[:, :, second]
    with np.errstate(divide="ignore"):
        t = np.abs(differences.mean(axis=-1)) / np.std(differences, axis=-1, ddof=1) * math.sqrt(3)
    p = 1 - t / np.sqrt(t**2 + 2)  # Student's t with 2 degrees of freedom, two-sided
    assert (p.min(axis=(1, 2)) * 40 <= ALPHA).mean() > 0.3


@pytest.mark.parametrize(("difference", "least"), [(3, 0.40), (5, 0.86)])
def test_three_seeds_find_large_differences(difference, least):
    """Of four workloads with five treatments; the paired t with Bonferroni's correction finds 8 and 20 %."""
    found, _, old, _ = power("normal", (4, 5, 3), difference, number=2000)
    assert found >= least
    assert old <= 0.25


@pytest.mark.parametrize("size", [(2, 4, 3), (3, 2, 3), (2, 3, 6), (1, 3, 8)])
@pytest.mark.parametrize("world", ["×16 by treatment", "50% of seeds at chance"])
def test_the_vectorized_pvalues_are_those_of_the_intervals(world, size):
    """The interval of a pair excludes 0 if and only if its p-value is below the corrected 5 %."""
    m = 7
    x = WORLDS[world](np.random.default_rng(3), (10, *size))
    x[:5, :, 0] += 1000
    p = pvalues(x)
    assert np.minimum(p, ALPHA / m) == pytest.approx(np.minimum(pvalues(x, ALPHA / m), ALPHA / m), rel=1e-12)
    excluded = 0
    for i, suite in enumerate(x):
        of = variances(suite)
        for w, scores in enumerate(suite):
            on_workload = SeedVariance(*(field[w] for field in of))
            for pair, (a, b) in enumerate(itertools.combinations(scores, 2)):
                estimate = difference_estimate(a - b, on_workload, m)
                excluded += estimate.side() != 0
                assert (estimate.side() != 0) == (p[i, w, pair] < ALPHA / m)
    assert excluded > 0


def test_holm_is_the_reports():
    p = np.random.default_rng(0).uniform(size=(50, 6)) ** 3
    assert np.array_equal(holm(p), np.array([adjust(row, "holm") <= ALPHA for row in p]))
