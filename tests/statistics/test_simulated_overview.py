"""The leader that the first screen names, in worlds without any difference, and with one.

The slow ones print the table of docs/statistics.md:

    pytest -m slow -s tests/statistics/test_simulated_overview.py
"""

import math
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from simulations import ALPHA, WORLDS, differences, excludes_zero, limit, percent, rank_pvalues, show
from worlds import Setting, frame, null_worlds, table

from initbench.reporting.lead import find_lead
from initbench.reporting.results import CLAIMS
from initbench.statistics.cells import cells
from initbench.statistics.decisions import holm_comparisons
from initbench.statistics.ranks import compare_ranks
from initbench.statistics.seed_variance import SeedVariance, pair_moments, pvalue, suite_variances, variances
from initbench.statistics.verdicts import workload_verdicts

SIZES = [(workloads, treatments) for workloads in (1, 2, 4, 8) for treatments in (2, 4, 10)]
NOISE = {
    "light tails": {},
    "heavy tails": {"heavy": True},
    "seeds in common": {"common": 0.5},
    "unequal variances": {"unequal": True},
    "10% diverged": {"diverged": 0.1},
}
LATTICE = "errors on 360 samples"
"""Normal noise of a few samples, rounded to whole ones: differences are often nearly equal."""


def equal_treatments(kind, workloads, treatments, seeds, number=WORLDS):
    """Return outcomes without any difference between the treatments, (worlds, workloads, treatments, seeds)."""
    setting = Setting(workloads, treatments, seeds, **NOISE.get(kind, {}))
    y = null_worlds(setting, number, seed=100 * workloads + 10 * treatments + seeds, effects=0.0).outcome
    return np.round(6 * y) / 360 if kind == LATTICE else y


def by_ranks(y):
    """Return in which worlds ranks name a leader, at half of the 5 %.

    The difference of the first and the last is the largest of all pairs: Holm's p-value of it is the least.
    """
    medians = np.median(y, axis=-1)
    worlds, n, k = medians.shape
    if n < 2 or k < 3:
        return np.zeros(worlds, dtype=bool)
    means = stats.rankdata(medians, axis=2).mean(axis=1)
    largest = np.ptp(means, axis=1)
    error = math.sqrt(k * (k + 1) / (6 * n))
    holm = 2 * stats.norm.sf(largest / error) * k * (k - 1) / 2
    apart = largest > stats.studentized_range.ppf(1 - ALPHA, k, np.inf) * error / math.sqrt(2)
    with np.errstate(invalid="ignore"):  # where all medians are equal
        return (rank_pvalues(medians)[0] < ALPHA / CLAIMS) & (holm < ALPHA) & apart


def over_two(y):
    """Return in which worlds the mean difference of two treatments over workloads names a leader."""
    if y.shape[1] < 3 or y.shape[2] != 2:
        return np.zeros(len(y), dtype=bool)
    found, _, _ = differences(y)
    return excludes_zero(found.mean(axis=-1), CLAIMS)[:, 0]


def on_one(y):
    """Return in which worlds the best of some workload is found to differ from another treatment there.

    Treatments that diverge at a seed are compared with none; they count among the pairs.
    """
    is_whole = np.isfinite(y).all(axis=-1)
    scores = np.where(is_whole[..., None], y, np.nan)
    found = variances(scores)
    means, squares, seeds = pair_moments(scores)
    of = SeedVariance(*(np.asarray(values)[..., None] for values in found))
    pvalues = pvalue(means, squares, seeds, of)
    claims = CLAIMS if y.shape[1] > 1 else 1
    flat = pvalues.reshape(len(y), -1)
    rejected = np.array([world < ALPHA / holm_comparisons(world, claims) for world in flat]).reshape(pvalues.shape)
    first, second = np.array(list(combinations(range(y.shape[2]), 2))).T
    best = np.where(is_whole, np.median(y, axis=-1), np.inf).argmin(axis=2)
    with_best = (first[:, None] == best[:, None]) | (second[:, None] == best[:, None])
    with_best &= np.moveaxis(is_whole[:, :, first] & is_whole[:, :, second], 2, 1)
    # What is found has to be on the side of the best by its median.
    sign = np.where(first[:, None] == best[:, None], -1, 1)
    on_side = sign * np.moveaxis(means, 2, 1) > 0
    return (np.moveaxis(rejected, 2, 1) & with_best & on_side).any(axis=(1, 2))


def named(y):
    """Return in which worlds the first screen names a leader."""
    return by_ranks(y) | over_two(y) | on_one(y)


def lead_of(world):
    """Return the leader that the report names in one world, (workloads, treatments, seeds)."""
    trials = frame(world)
    judged = cells(trials)
    of, claims = suite_variances(trials, judged), CLAIMS if len(world) > 1 else 1

    def verdicts(*family):
        found = {str(workload): [] for workload in judged["workload"]}
        for verdict in workload_verdicts(judged, trials, of, *family):
            found[verdict.workload].append(verdict)
        return found

    results = SimpleNamespace(
        trials=trials,
        cells=judged,
        judged=judged,
        verdicts=verdicts(),
        suite_verdicts=verdicts("suite", claims),
        terms=SimpleNamespace(metric="error"),
    )
    return find_lead(results, compare_ranks(table(np.median(world, axis=-1))))


# The fast ones.


@pytest.mark.parametrize("kind", [*NOISE, LATTICE])
@pytest.mark.parametrize(("workloads", "treatments"), [(1, 4), (2, 3), (4, 2), (6, 4)])
def test_the_vectorized_leader_is_the_reports(kind, workloads, treatments):
    """In a world without a difference, and in one with."""
    y = equal_treatments(kind, workloads, treatments, 4, number=2)
    scale = 1 / 60 if kind == LATTICE else 1.0
    y[1] += scale * np.arange(treatments)[:, None]
    assert [lead_of(world) is not None for world in y] == list(named(y))


@pytest.mark.parametrize(("workloads", "treatments", "seeds"), [(1, 4, 3), (2, 10, 5), (4, 2, 3), (8, 4, 3)])
def test_equal_treatments_have_a_leader_in_no_more_than_five_percent(workloads, treatments, seeds):
    assert named(equal_treatments("light tails", workloads, treatments, seeds)).mean() <= limit()


@pytest.mark.parametrize(
    ("workloads", "treatments", "seeds", "effect", "reason"),
    [(1, 4, 5, 6.0, on_one), (2, 4, 5, 10.0, on_one), (8, 2, 3, 1.5, over_two), (8, 4, 3, 1.5, by_ranks)],
)
def test_a_planted_difference_is_found(workloads, treatments, seeds, effect, reason):
    """The first treatment is better by so many standard deviations of the seeds."""
    y = equal_treatments("light tails", workloads, treatments, seeds)
    y[:, :, 0] -= 0.5 * effect
    assert reason(y).mean() > 0.8
    leads = [lead_of(world) for world in y[np.flatnonzero(reason(y))[:2]]]
    assert [lead.winner for lead in leads] == ["i0", "i0"]


def test_at_half_the_level_it_does_not_name_one_for_two_reasons_at_once():
    """With both reasons at 5 % it would: what is given away is what the second reason takes."""
    y = equal_treatments("light tails", 8, 2, 3, number=20_000)
    assert over_two(y).mean() == pytest.approx(0.025, abs=3 * math.sqrt(0.025 * 0.975 / 20_000))


# The slow one.


@pytest.mark.slow
def test_the_table_of_equal_treatments():
    rows, shares = [], {}
    for kind in [*NOISE, LATTICE]:
        for workloads, treatments in SIZES:
            row = []
            for seeds in (3, 5, 10):
                y = equal_treatments(kind, workloads, treatments, seeds)
                shares[kind, workloads, treatments, seeds] = named(y).mean()
                row += [named(y).mean(), (by_ranks(y) | over_two(y)).mean(), on_one(y).mean()]
            rows.append([kind, workloads, treatments, *map(percent, row)])
    parts = [f"{seeds} seeds{part}" for seeds in (3, 5, 10) for part in ("", ", over workloads", ", on one")]
    show(
        "Worlds without a difference in which a leader is named, in %",
        ["noise", "workloads", "treatments", *parts],
        rows,
    )
    worst = sorted(shares.items(), key=lambda item: -item[1])[:4]
    print("\nThe worst:", *(f"{key}: {percent(value)}" for key, value in worst), sep="\n")
    assert len(shares) == 216
    assert max(shares.values()) <= limit()
