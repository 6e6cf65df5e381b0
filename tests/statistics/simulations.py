"""What the files of simulations share: sizes, tables to print, and the report's tests on many worlds at once."""

import math

import numpy as np
from scipy import stats

from initbench.statistics.intervals import t_multiplier
from initbench.statistics.permutation import label_permutations, scores

WORLDS = 1000
ALPHA = 0.05
KINDS = {
    "light tails": {},
    "heavy tails": {"heavy": True},
    "unequal variances": {"unequal": True},
    "10% diverged": {"diverged": 0.1},
}


def limit(worlds=WORLDS):
    """Return α and three standard errors of a share of so many worlds: 7.07 % of 1,000."""
    return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / worlds)


def joint_pvalues(x, y, draws=999, exchanged=None):
    """Return the p-value of `permutation_test` for many worlds at once, (worlds, workloads, treatments) each.

    Args:
        x: the probe, NaN where nothing runs, which is the same in all worlds.
        y: the outcome.
        draws: the most permutations.
        exchanged: as from `permutation.units`.
    """
    present = ~np.isnan(x[0])
    ranks_x, ranks_y, weights = scores(x, y)
    products = np.swapaxes(ranks_x * weights[..., None], 1, 2) @ ranks_y
    observed = np.einsum("wii->w", products)
    return label_pvalues(products, observed, draws=draws, present=present, exchanged=exchanged)


def label_pvalues(products, observed, centre=0.0, draws=999, present=None, exchanged=None):
    """Return two-sided p-values of Σᵢ products[π(i), i] over joint permutations π, around `centre`, (worlds,) each."""
    worlds, width, _ = products.shape
    everywhere = np.ones((1, width), dtype=bool) if present is None else present
    permutations, number = label_permutations(everywhere, exchanged, draws=draws)
    chosen = np.zeros((len(permutations), width, width))
    np.put_along_axis(chosen, permutations[:, None, :], 1.0, axis=1)
    permuted = products.reshape(worlds, -1) @ chosen.reshape(len(permutations), -1).T
    extreme = np.abs(permuted - np.reshape(centre, (-1, 1)))
    count = (extreme >= np.abs(observed - centre)[:, None] - 1e-9).sum(axis=1)
    return count / number if number == len(permutations) else (count + 1) / (len(permutations) + 1)


def within_workload_pvalues(x, y):
    """The negative control: labels permuted within each workload by itself. Never used by the report.

    Without ties and gaps its null is the same for all worlds: means of independent ρ of random orders.
    """
    _, workloads, initializers = x.shape
    generator = np.random.default_rng(0)
    order = generator.permuted(np.tile(np.arange(float(initializers)), (9999, workloads, 1)), axis=2)
    centred = np.arange(initializers) - (initializers - 1) / 2
    null = np.abs((order @ centred / np.sum(centred**2)).mean(axis=1))
    ranks_x, ranks_y, weights = scores(x, y)
    observed = np.abs(np.einsum("wai,wai,wa->w", ranks_x, ranks_y, weights))
    return (1 + np.sum(null >= observed[:, None] - 1e-9, axis=1)) / 10_000


def rank_pvalues(y):
    """Return the p-value of `compare_ranks` for many worlds at once, and Friedman's."""
    ranks = stats.rankdata(y, axis=2)
    friedman = stats.friedmanchisquare(*np.moveaxis(ranks, 2, 0), axis=1)
    epsilon = sphericities(ranks)
    corrected = stats.chi2.sf(epsilon * friedman.statistic, epsilon * (y.shape[2] - 1))
    return np.maximum(friedman.pvalue, corrected), friedman.pvalue


def sphericities(ranks):
    """Return `ranks.sphericity` for many worlds at once."""
    _, n, k = ranks.shape
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    covariance = np.swapaxes(centred, 1, 2) @ centred / (n - 1)
    squares = np.sum(covariance**2, axis=(1, 2))
    same = squares < 1e-18  # every workload has the same order
    estimate = np.trace(covariance, axis1=1, axis2=2) ** 2 / ((k - 1) * np.where(same, 1.0, squares))
    left = n - 1 - (k - 1) * estimate
    degenerate = left <= 1e-9
    corrected = (n * (k - 1) * estimate - 2) / ((k - 1) * np.where(degenerate, 1.0, left))
    return np.where(same, 1.0, np.minimum(1, np.maximum(estimate, np.where(degenerate, 1.0, corrected))))


def excludes_zero(values, comparisons=1):
    """Whether the interval of `mean_estimate` excludes 0; values (..., n). Where one is not finite there is none."""
    finite = np.isfinite(values).all(axis=-1)
    known = np.where(finite[..., None], values, 0.0)
    half = t_multiplier(values.shape[-1], comparisons) * np.std(known, axis=-1, ddof=1)
    return finite & (np.abs(known.mean(axis=-1)) > half)


def differences(y):
    """Return the paired differences of all pairs of initializers, (worlds, pairs, workloads, seeds), and the pairs."""
    first, second = np.triu_indices(y.shape[2], 1)
    finite = np.isfinite(y)
    known = np.where(finite, y, 0.0)
    both = finite[:, :, first] & finite[:, :, second]
    found = np.where(both, known[:, :, first] - known[:, :, second], np.nan)
    return np.moveaxis(found, 2, 1), first, second


def areas(x, positive):
    """Return `predict_divergence`'s AUROC, its jackknife over initializers and p-value for many worlds at once.

    Args:
        x: the probe without ties, (worlds, workloads, initializers).
        positive: 1 where diverged, else 0.
    """
    above = positive[..., :, None] * (1 - positive)[..., None, :]
    pairs = above.sum(axis=1)
    won = (above * (x[..., :, None] > x[..., None, :])).sum(axis=1)

    def without(of):
        return of.sum(axis=(1, 2))[:, None] - of.sum(axis=1) - of.sum(axis=2)

    with np.errstate(invalid="ignore", divide="ignore"):
        area = won.sum(axis=(1, 2)) / pairs.sum(axis=(1, 2))
        left_out = without(won) / without(pairs)
    k, number = x.shape[2], pairs.sum(axis=(1, 2))
    half = t_multiplier(k) * np.std(k * area[:, None] - (k - 1) * left_out, axis=1, ddof=1)
    ranks = stats.rankdata(x, axis=2)
    m = positive.sum(axis=2)
    constant = (m * (m + 1) / 2).sum(axis=1)
    pvalues = label_pvalues(np.swapaxes(ranks, 1, 2) @ positive, area * number + constant, constant + number / 2)
    return area, half, np.where(number > 0, pvalues, np.nan)


def percent(share):
    return f"{100 * share:.1f}"


def show(title, head, rows):
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
