"""Suites of equally good treatments, and the pairs that `seed_variance` wrongly tells apart in them, many at once.

Run as a script, it prints the tables of docs/statistics.md:

    python tests/statistics/seed_worlds.py
"""

import itertools
import math

import numpy as np
from scipy import stats
from simulations import ALPHA, limit, percent, show

from initbench.statistics.seed_variance import SeedVariance, conditions, pair_moments, pvalue, variances

CHANCE = 100.0
"""The score of chance, in standard deviations of the noise above a trained network's."""


def _scaled_treatments(generator, shape):
    return _normal(generator, shape) * np.geomspace(1, 16, shape[2])[:, None]


def _scaled_workloads(generator, shape):
    return _normal(generator, shape) * np.geomspace(1, 16, shape[1])[:, None, None]


def _scaled_cells(freedom):
    def draw(generator, shape):
        return _normal(generator, shape) * np.sqrt(freedom / generator.chisquare(freedom, (*shape[:3], 1)))

    return draw


def _one_treatment(scale):
    def draw(generator, shape):
        scales = np.where(np.arange(shape[2]) == 0, scale, 1.0)
        return _normal(generator, shape) * scales[:, None]

    return draw


def _lognormal(deviation):
    return lambda generator, shape: generator.lognormal(0, deviation, shape)


def _students_t(freedom):
    return lambda generator, shape: generator.standard_t(freedom, shape)


def _common_seeds(generator, shape):
    own, common = _normal(generator, shape), _normal(generator, (*shape[:2], 1, shape[3]))
    return math.sqrt(0.5) * (own + common)


def _scaled_with_the_mean(generator, shape):
    return generator.lognormal(0, 1, (*shape[:2], 1, 1)) * (1 + 0.1 * _normal(generator, shape))


def _whole_errors(generator, shape):
    return np.round(20 + 3 * _normal(generator, shape))


def _some_seeds(share, other, workloads=None):
    """Return normal scores, but those of `other` for a share of the seeds of the first workloads, or of all."""

    def draw(generator, shape):
        is_other = generator.random(shape) < share
        if workloads is not None:
            is_other[:, workloads:] = False
        return np.where(is_other, other(generator, shape), _normal(generator, shape))

    return draw


def _normal(generator, shape):
    return generator.standard_normal(shape)


def _at_chance(generator, shape):
    return np.full(shape, CHANCE)


def _near_chance(generator, shape):
    return CHANCE + _normal(generator, shape)


def _halfway(generator, shape):
    return CHANCE / 2 + 5 * _normal(generator, shape)


def _diverged_or_near_chance(generator, shape):
    outcome = np.where(generator.random(shape) < 0.5, math.inf, _near_chance(generator, shape))
    return np.fmin(outcome, CHANCE)  # as `seed_variance.scores` does


WORLDS = {
    "normal": _normal,
    "×16 by treatment": _scaled_treatments,
    "×16 by workload": _scaled_workloads,
    **{f"cells' variances inverse χ², {freedom} d.f.": _scaled_cells(freedom) for freedom in (5, 2, 1)},
    "one treatment ×10": _one_treatment(10),
    "one treatment ×1/10": _one_treatment(0.1),
    "lognormal, 0.6": _lognormal(0.6),
    "lognormal, 1": _lognormal(1.0),
    "Student's t, 3 d.f.": _students_t(3),
    "Student's t, 2 d.f.": _students_t(2),
    "seeds in common": _common_seeds,
    "scaled with the mean": _scaled_with_the_mean,
    "whole errors on 360 samples": _whole_errors,
    **{f"{share:.0%} of seeds at chance": _some_seeds(share, _at_chance) for share in (0.1, 0.25, 0.5)},
    **{f"{share:.0%} of seeds near chance": _some_seeds(share, _near_chance) for share in (0.1, 0.25, 0.5)},
    **{f"{share:.0%} of seeds stop halfway": _some_seeds(share, _halfway) for share in (0.25, 0.5)},
    "25% of seeds diverge, 25% fail": _some_seeds(0.5, _diverged_or_near_chance),
    "50% of seeds near chance, on one workload": _some_seeds(0.5, _near_chance, workloads=1),
}
"""Functions of a generator and a shape (suites, workloads, treatments, seeds): scores of equally good treatments."""

SIZES = [
    *itertools.product((1, 4, 12), (2, 3, 4, 5, 12), (3, 4, 5, 10)),
    *itertools.product((12,), (2, 3, 5, 10), (6, 7, 8)),
]
"""Workloads, treatments, seeds."""


def pvalues(x, largest=1.0):
    """Return the p-value of every pair, (suites, workloads, pairs); those above `largest` may be 1.

    Student's quantiles are larger than the normal distribution's, which therefore rules out most pairs at little cost.
    """
    mean, variance, seeds = pair_moments(x)
    of = SeedVariance(*(np.broadcast_to(field[..., None], mean.shape) for field in variances(x)))
    possible = mean != 0
    for s2, _ in conditions(variance, seeds, of):
        possible &= ~(s2 > 0) | (np.abs(mean) * np.sqrt(seeds) >= stats.norm.isf(largest / 2) * np.sqrt(s2))
    p = np.ones(mean.shape)
    chosen = SeedVariance(*(field[possible] for field in of))
    p[possible] = pvalue(mean[possible], variance[possible], seeds[possible], chosen)
    return p


def false_claims(world, size, number=1000, seed=1, at_once=200):
    """Return in which share of workloads, and of suites, Holm's procedure claims a difference between equal treatments.

    Args:
        world: a key of `WORLDS`.
        size: workloads, treatments, seeds.
        number: of suites.
        seed: of their scores.
        at_once: suites in memory.
    """
    generator = np.random.default_rng([seed, *size])
    pairs = math.comb(size[1], 2)
    counted = slice(1) if "on one workload" in world else slice(None)
    of_workloads, of_suites = [], []
    for start in range(0, number, at_once):
        x = WORLDS[world](generator, (min(at_once, number - start), *size))
        corrected = pairs * pvalues(x, ALPHA / pairs).min(axis=2)
        of_workloads.append((corrected[:, counted] <= ALPHA).ravel())
        of_suites.append((corrected * size[0] <= ALPHA).any(axis=1))
    return float(np.concatenate(of_workloads).mean()), float(np.concatenate(of_suites).mean())


def power(world, size, difference, number=2000, seed=2):
    """Return which share of the true differences is found, by the family of the workload and of the suite.

    On the first workload the first treatment is better than the others by `difference`. The first two shares are those
    of `seed_variance` with Holm's procedure, the other two those of Student's paired t with Bonferroni's correction.

    Args:
        world, size, number, seed: as for `false_claims`.
        difference: in standard deviations of the noise.
    """
    x = WORLDS[world](np.random.default_rng([seed, *size]), (number, *size))
    x[:, 0, 0] -= difference
    p, plain = pvalues(x, ALPHA), pvalue(*pair_moments(x))
    true = np.s_[:, : size[1] - 1]  # the first pairs are those of the first treatment
    return [
        float(rejected[true].mean())
        for rejected in (
            holm(p[:, 0]),
            holm(p.reshape(number, -1)),
            plain[:, 0] * p.shape[2] <= ALPHA,
            plain[:, 0] * p[0].size <= ALPHA,
        )
    ]


def holm(p):
    """Return which of the p-values of the last axis Holm's procedure rejects at 5 %."""
    order = np.argsort(p, axis=-1)
    accepted = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1) > ALPHA
    rejected = np.empty(p.shape, dtype=bool)
    np.put_along_axis(rejected, order, ~np.logical_or.accumulate(accepted, axis=-1), -1)
    return rejected


def show_false_claims(number=1000):
    """Print the highest rates of each world over all sizes, and the highest of all."""
    rates = {(world, size): false_claims(world, size, number) for world in WORLDS for size in SIZES}
    columns = {"3 seeds": (3,), "4 seeds": (4,), "5 seeds": (5,), "6 to 8 seeds": (6, 7, 8), "10 seeds": (10,)}
    rows = []
    for world in WORLDS:
        row = [world]
        for seeds in columns.values():
            both = np.array([rates[world, size] for size in SIZES if size[2] in seeds])
            row.append(" / ".join(map(percent, both.max(axis=0))))
        rows.append(row)
    show("Any false claim on a workload / in a suite, %, at the worst size", ["world", *columns], rows)
    worst = sorted(rates, key=lambda case: -max(rates[case]))[:10]
    head = ["world", "workloads", "treatments", "seeds", "on a workload", "in a suite"]
    show("The worst cases", head, [[case[0], *case[1], *map(percent, rates[case])] for case in worst])
    print(f"\n{len(rates)} cases, limit {percent(limit(number))} %")


def show_power():
    """Print the share of true differences found, beside Student's paired t."""
    differences, rows = (1, 2, 3, 5), []
    for world in ("normal", "seeds in common", "×16 by treatment", "cells' variances inverse χ², 2 d.f."):
        for seeds in (3, 5, 10):
            shares = [power(world, (4, 5, seeds), difference) for difference in differences]
            new = [" / ".join(map(percent, share[:2])) for share in shares]
            old = [" / ".join(map(percent, share[2:])) for share in shares]
            rows.append([world, seeds, *(text for both in zip(new, old, strict=True) for text in both)])
    head = [f"{difference} SD, {name}" for difference in differences for name in ("used", "paired t")]
    show("True differences found in the family of the workload / of the suite, %", ["world", "seeds", *head], rows)


if __name__ == "__main__":
    show_power()
    show_false_claims()
