"""How often initializers that are equally good are told apart, on simulated worlds.

The slow ones print tables of docs/statistics.md:

    pytest -m slow -s tests/statistics
"""

import math

import numpy as np
import pytest
from scipy import stats
from simulations import (
    ALPHA,
    KINDS,
    WORLDS,
    differences,
    excludes_zero,
    limit,
    percent,
    rank_pvalues,
    show,
    sphericities,
)
from worlds import Setting, frame, null_worlds, table

from initbench.statistics.intervals import share_estimate, t_multiplier
from initbench.statistics.paired import compare_paired, probability_of_improvement
from initbench.statistics.ranks import compare_ranks, sphericity

# Name, options of the worlds, effects of initializers. "Interactions": an initializer is better on one workload and
# worse on another, by twice the noise between seeds, and over workloads all are equally good.
EQUAL = [
    *((name, options, 0.0) for name, options in KINDS.items()),
    ("unequal variances, seeds in common", {"unequal": True, "common": 0.5}, 0.0),
    ("interactions", {}, 1.0),
    ("strong interactions", {}, 10.0),
]


def comparisons(initializers):
    return initializers * (initializers - 1) // 2


def observed_best(y):
    """Return the initializer with the least mean rank of each world."""
    return stats.rankdata(np.median(y, axis=-1), axis=2).mean(axis=1).argmin(axis=1)


def improvement(y):
    """Return the probability that i0 improves on i1, by world and workload."""
    first, second = y[:, :, 0, :, None], y[:, :, 1, None, :]
    return np.mean((first < second) + 0.5 * (first == second), axis=(-1, -2))


def shares_exclude_half(p):
    """Whether the interval of `share_estimate` excludes 1/2; p (worlds, n)."""
    n = p.shape[1]
    centre = (p.sum(axis=1) + 0.5) / (n + 1)
    variance = (np.sum(p**2, axis=1) + 0.5) / (n + 1) - centre**2
    return np.abs(centre - 0.5) > t_multiplier(n) * np.sqrt(variance)


# The fast ones.


@pytest.mark.parametrize("diverged", [0.0, 0.05])
def test_the_vectorized_comparisons_are_the_reports(diverged):
    y = null_worlds(Setting(4, 3, 3, diverged=diverged), 20, seed=1).outcome
    found, _, _ = differences(y)
    over, within = excludes_zero(found.mean(axis=-1), 3), excludes_zero(found, 3)
    ranks = stats.rankdata(np.median(y, axis=-1), axis=2)
    for i, world in enumerate(y):
        report = compare_paired(frame(world), "i0", "i1", 3)
        own = report.by_workload
        assert over[i, 0] == (report.difference.low > 0 or report.difference.high < 0)
        assert list(within[i, 0]) == list((own["low"] > 0) | (own["high"] < 0))
        assert improvement(y)[i, 0] == pytest.approx(probability_of_improvement(world[0, 0], world[0, 1]))
        chance = share_estimate(improvement(y)[i])
        assert shares_exclude_half(improvement(y))[i] == (chance.low > 0.5 or chance.high < 0.5)
        assert sphericities(ranks)[i] == pytest.approx(sphericity(ranks[i]))
        assert rank_pvalues(np.median(y, axis=-1))[0][i] == pytest.approx(
            compare_ranks(table(np.median(world, axis=-1))).pvalue
        )


@pytest.mark.parametrize("workloads", [3, 6])
def test_the_best_against_all_others_keeps_its_level_and_plain_intervals_do_not(workloads):
    y = null_worlds(Setting(workloads, 10, 3), WORLDS, seed=20).outcome
    assert best_is_told_apart(y, comparisons(10)) <= limit()
    assert best_is_told_apart(y, 1) > 0.15


def best_is_told_apart(y, number):
    """Return the share of worlds in which any interval of a pair with the observed best excludes 0."""
    found, first, second = differences(y)
    best = observed_best(y)[:, None]
    with_best = (first[None, :] == best) | (second[None, :] == best)
    return float(np.mean((excludes_zero(found.mean(axis=-1), number) & with_best).any(axis=1)))


# The slow ones.


@pytest.mark.slow
def test_paired_differences_over_workloads():
    rows, highest = [], 0.0
    for kind, options, effects in EQUAL:
        for workloads in (3, 6, 12):
            row = [kind, workloads]
            for initializers in (3, 5, 10):
                y = null_worlds(Setting(workloads, initializers, 5, **options), WORLDS, 21, effects=effects).outcome
                named = float(np.mean(excludes_zero(differences(y)[0][:, 0].mean(axis=-1))))
                simultaneous = best_is_told_apart(y, comparisons(initializers))
                highest = max(highest, named, simultaneous)
                row += [percent(rate) for rate in (named, simultaneous, best_is_told_apart(y, 1))]
            rows.append(row)
    names = ("a named pair", "best against all", "best against all, plain intervals")
    head = ["noise", "workloads", *(f"{i} init., {name}" for i in (3, 5, 10) for name in names)]
    show("Paired differences over workloads: % of worlds in which equal initializers are told apart", head, rows)
    assert highest <= limit()


@pytest.mark.slow
def test_the_probability_of_improvement():
    rows, highest = [], 0.0
    for kind, options, effects in EQUAL:
        for workloads in (3, 6, 12):
            row = [kind, workloads]
            for seeds in (3, 5, 10):
                y = null_worlds(Setting(workloads, 2, seeds, **options), WORLDS, 22, effects=effects).outcome
                p = improvement(y)
                rate = float(np.mean(shares_exclude_half(p)))
                highest = max(highest, rate)
                row += [percent(rate), percent(np.mean(excludes_zero(p - 0.5)))]
            rows.append(row)
    head = ["noise", "workloads", *(f"{s} seeds, {test}" for s in (3, 5, 10) for test in ("used", "Student's"))]
    show("Probability of improvement: % of intervals that exclude 1/2", head, rows)
    assert highest <= limit()


@pytest.mark.slow
def test_friedman_and_the_pairs_find_nothing_where_all_are_equal():
    """The correction was chosen by worlds of seed 4; these are others."""
    rows, highest = [], 0.0
    for kind, options, effects in EQUAL:
        for workloads in (3, 6, 12):
            row = [kind, workloads]
            for initializers in (3, 5, 10):
                setting = Setting(workloads, initializers, 5, **options)
                y, _ = null_worlds(setting, WORLDS, seed=104, effects=effects).cells()
                pvalues, uncorrected = rank_pvalues(y)
                rate = float(np.mean(pvalues < ALPHA))
                assert compare_ranks(table(y[0])).pvalue == pytest.approx(pvalues[0])
                # One initializer is better than all: the others' pairs are tested under a partial null.
                y[:, :, 0] -= 100
                some = [i for i, p in enumerate(rank_pvalues(y)[0]) if p < ALPHA]
                wrong = sum(_rejects_others(y[i]) for i in some) / WORLDS
                highest = max(highest, rate, wrong)
                row += [percent(rate), percent(np.mean(uncorrected < ALPHA)), percent(wrong)]
            rows.append(row)
    names = [f"{i} init., {test}" for i in (3, 5, 10) for test in ("Friedman corrected", "uncorrected", "a wrong pair")]
    show("Ranks: % of worlds in which equal initializers are told apart", ["noise", "workloads", *names], rows)
    assert highest <= limit()


def _rejects_others(y):
    """Whether a pair without i0 is rejected; the pairs' z and Holm's procedure as in `compare_ranks`, in numpy."""
    n, k = y.shape
    means = stats.rankdata(y, axis=1).mean(axis=0)
    first, second = np.triu_indices(k, 1)
    p = 2 * stats.norm.sf(np.abs(means[first] - means[second]) / math.sqrt(k * (k + 1) / (6 * n)))
    order = np.argsort(p)
    holm = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return bool(((holm < ALPHA) & (first[order] > 0)).any())
