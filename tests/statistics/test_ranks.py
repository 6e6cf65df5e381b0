import math

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats
from worlds import table

from initbench.statistics.decisions import adjust
from initbench.statistics.ranks import compare_ranks, sphericity

inf = math.inf


def random_table(workloads, initializers, seed=0):
    generator = np.random.default_rng(seed)
    return table(generator.standard_normal((workloads, initializers)) + np.arange(initializers) / 2)


def test_friedman_is_pingouins():
    outcomes = random_table(8, 4)
    long = outcomes.reset_index(names="w").melt(id_vars="w", var_name="i", value_name="y")
    expected = pingouin.friedman(long, dv="y", within="i", subject="w").iloc[0]
    result = compare_ranks(outcomes)
    pvalue = next(value for name, value in expected.items() if str(name).startswith("p"))
    assert result.statistic == pytest.approx(expected["Q"])
    assert stats.chi2.sf(result.statistic, 3) == pytest.approx(pvalue)
    assert result.pvalue >= pvalue - 1e-12  # corrected for unequal spreads
    assert list(result.mean_ranks) == sorted(stats.rankdata(outcomes, axis=1).mean(axis=0))


def test_sphericity_is_pingouins():
    values = random_table(9, 4).rank(axis=1)
    expected = min(1, pingouin.epsilon(values, correction="hf"))
    assert sphericity(values.to_numpy()) == pytest.approx(expected, rel=1e-3)
    # ε of a covariance of one direction alone is its least, 1 / (k - 1).
    line = np.outer([1.0, -1, 1, -1, 1, -1], [1, -1, 0, 0])
    assert sphericity(line) == pytest.approx(max(1 / 3, (6 * 1 - 2) / (3 * (5 - 1))))
    assert sphericity(np.ones((4, 3))) == 1


def test_initializers_that_vary_more_make_the_pvalue_larger():
    generator = np.random.default_rng(0)
    alike = generator.standard_normal((12, 5))
    unlike = alike * np.array([10, 10, 0.1, 0.1, 0.1])
    for outcomes in (alike, unlike):
        result = compare_ranks(table(outcomes))
        ranks = stats.rankdata(outcomes, axis=1)
        epsilon = sphericity(ranks)
        corrected = stats.chi2.sf(epsilon * result.statistic, 4 * epsilon)
        assert result.pvalue == pytest.approx(max(corrected, stats.friedmanchisquare(*ranks.T).pvalue))
    assert sphericity(stats.rankdata(unlike, axis=1)) < 0.9


def test_pairs_are_holm_corrected_z_of_mean_ranks():
    outcomes = random_table(10, 4)
    result = compare_ranks(outcomes)
    means = stats.rankdata(outcomes, axis=1).mean(axis=0)
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    z = [abs(means[i] - means[j]) / math.sqrt(4 * 5 / 60) for i, j in pairs]
    # Holm by hand: the r-th least of m is multiplied by m - r + 1, and never below the one before it.
    raw = 2 * stats.norm.sf(z)
    order = np.argsort(raw)
    holm = np.minimum(np.maximum.accumulate(raw[order] * np.arange(6, 0, -1)), 1)
    expected = {frozenset(f"i{n}" for n in pairs[o]): p for o, p in zip(order, holm, strict=True)}
    found = {frozenset([r["first"], r["second"]]): r["pvalue"] for r in result.pairs.to_dict("records")}
    assert found == {pair: pytest.approx(p) for pair, p in expected.items()}
    assert (result.pairs["difference"] >= 0).all()  # the better one stands first
    # Demšar (2006), table 5(a): q₀.₀₅ = 2.569 for 4.
    half = 2.569 * math.sqrt(4 * 5 / 60)
    assert list(result.pairs["difference"] - result.pairs["low"]) == pytest.approx([half] * 6, abs=1e-3)
    assert list(result.pairs["high"] - result.pairs["difference"]) == pytest.approx([half] * 6, abs=1e-3)


def test_critical_difference_of_demsars_table():
    # Demšar (2006), table 5(a): q₀.₀₅ = 2.728 for 5 classifiers; with 14 data sets CD = q √(5 · 6 / (6 · 14)).
    result = compare_ranks(random_table(14, 5))
    assert result.critical_difference == pytest.approx(2.728 * math.sqrt(30 / 84), abs=1e-3)
    assert result.reason == ""


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((4, 5), "4 workloads; a critical difference is given from 5 on"),
        ((1, 5), "1 workload; ranks are compared over several"),
        ((6, 2), "2 treatments are compared by their paired differences"),
        ((6, 1), "1 treatment to compare"),
        ((0, 3), "no complete table"),
    ],
)
def test_why_there_is_no_critical_difference(shape, reason):
    result = compare_ranks(table(np.random.default_rng(1).standard_normal(shape)))
    assert math.isnan(result.critical_difference)
    assert result.reason == reason


def test_diverged_cells_share_the_worst_rank():
    outcomes = table(np.array([[0.1, inf, inf], [0.2, 0.1, inf], [0.1, 0.3, inf]]))
    assert dict(compare_ranks(outcomes).mean_ranks) == pytest.approx({"i0": 4 / 3, "i1": 5.5 / 3, "i2": 8.5 / 3})


def test_ties_everywhere_are_no_difference():
    result = compare_ranks(table(np.full((6, 4), inf)))
    assert (result.pvalue, len(result.pairs), result.reason) == (1, 0, "all outcomes are equal")


def test_gaps_are_refused():
    with pytest.raises(ValueError, match="no gaps"):
        compare_ranks(pd.DataFrame([[1.0, math.nan]]))


def test_corrections_by_hand_and_missing_ones_not_counted():
    p = [0.01, math.nan, 0.04, 0.03]
    assert adjust(p, "holm") == pytest.approx([0.03, math.nan, 0.06, 0.06], nan_ok=True)
    assert adjust(p, "benjamini-hochberg") == pytest.approx([0.03, math.nan, 0.04, 0.04], nan_ok=True)
    assert np.isnan(adjust([math.nan], "holm")).all()


def test_corrections_are_pingouins():
    p = np.random.default_rng(1).uniform(size=12) ** 3
    for ours, theirs in (("holm", "holm"), ("benjamini-hochberg", "fdr_bh")):
        assert adjust(p, ours) == pytest.approx(pingouin.multicomp(p, method=theirs)[1])
    assert adjust(p, "benjamini-hochberg") == pytest.approx(stats.false_discovery_control(p))
