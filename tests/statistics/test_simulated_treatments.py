"""Null worlds whose treatments are an initializer and a norm, some of which cannot run everywhere.

The slow ones print tables of docs/statistics.md:

    pytest -m slow -s tests/statistics
"""

import numpy as np
import pytest
from reports import results_from
from simulations import ALPHA, WORLDS, differences, excludes_zero, joint_pvalues, limit, percent, rank_pvalues, show
from worlds import Setting, frame, table, two_factor_worlds

from initbench.reporting.questions.comparison import rank
from initbench.statistics.cells import complete
from initbench.statistics.divergence import predict_divergence
from initbench.statistics.gain import gain
from initbench.statistics.paired import compare_paired
from initbench.statistics.permutation import permutation_test, units
from initbench.statistics.pooled import crossed

TWO = {"norms": 2, "gaps": True}
# Nothing is better than anything else: without effects of treatments, or with effects that no two workloads share.
EQUAL = [("equal treatments", 0.0, 0.0), ("interactions", 1.0, 0.0)]


def ranked(setting):
    """Return which workloads and treatments `complete` keeps, the same in all worlds."""
    kept = complete(table(np.where(setting.runs, 1.0, np.nan), setting.treatments)).table
    rows = [int(name.removeprefix("w")) for name in kept.index]
    return rows, [setting.treatments.index(name) for name in kept.columns]


def any_told_apart(y, setting):
    """Return the share of worlds in which the report tells the best from any other treatment.

    Of those that are ranked the intervals hold for all their pairs; of those that the ranking leaves out, on the
    workloads that they have, for all pairs of all treatments.
    """
    rows, columns = ranked(setting)
    inside = y[:, rows][:, :, columns]
    found, first, second = differences(inside)
    means = np.median(inside, axis=-1).argsort(axis=2).argsort(axis=2).mean(axis=1)
    best = means.argmin(axis=1)
    with_best = (first[None] == best[:, None]) | (second[None] == best[:, None])
    told = (excludes_zero(found.mean(axis=-1), pairs(len(columns))) & with_best).any(axis=1)
    every = setting.runs.shape[1]
    reference = np.take_along_axis(y, np.array(columns)[best][:, None, None, None], axis=2)[:, :, 0]
    for i in set(range(every)) - set(columns):
        where = setting.runs[:, i]
        gap = (y[:, :, i] - reference).mean(axis=-1)
        for world in np.flatnonzero(~told):
            both = where & ~np.isnan(gap[world])
            told[world] = both.sum() >= 3 and excludes_zero(gap[world, both], pairs(every))
    return float(np.mean(told))


def pairs(count):
    return count * (count - 1) // 2


# The fast ones.


def test_the_vectorized_test_of_units_is_the_reports():
    setting = Setting(4, 7, 3, shared=0.5, **TWO)
    y, x = two_factor_worlds(setting, 5, seed=2).cells()
    exchanged = units(setting.treatments, setting.parts)
    expected = [
        permutation_test(table(a, setting.treatments), table(b, setting.treatments), parts=setting.parts).pvalue
        for a, b in zip(x, y, strict=True)
    ]
    assert joint_pvalues(x, y, exchanged=exchanged) == pytest.approx(expected)


def test_what_the_ranking_keeps_and_leaves_out():
    """On 6 workloads of 5 initializers × 2 norms, two treatments run nowhere and one on half of the workloads."""
    setting = Setting(6, 5, 3, **TWO)
    world = two_factor_worlds(setting, 1, seed=0).outcome[0]
    whole = rank(results_from(frame(world, setting.treatments))).whole
    assert whole.table.shape == (6, 7)
    assert whole.treatments == ["i4, norm=0"]
    assert [setting.treatments[i] for i in ranked(setting)[1]] == list(whole.table.columns)
    paired = compare_paired(frame(world, setting.treatments), "i4, norm=0", "i0, norm=1")
    assert list(paired.by_workload["workload"]) == ["w3", "w4", "w5"]


@pytest.mark.parametrize("workloads", [3, 12])
@pytest.mark.parametrize("gaps", [False, True], ids=["", "gaps"])
def test_exchanging_initializers_keeps_its_level_and_exchanging_treatments_does_not(workloads, gaps):
    setting = Setting(workloads, 7, 3, shared=0.5, norms=2, gaps=gaps)
    y, x = two_factor_worlds(setting, WORLDS, seed=workloads).cells()
    exchanged = units(setting.treatments, setting.parts)
    assert np.mean(joint_pvalues(x, y, exchanged=exchanged) <= ALPHA) <= limit()
    assert np.mean(joint_pvalues(x, y) <= ALPHA) > 0.12


@pytest.mark.parametrize(("effects", "norm"), [kind[1:] for kind in EQUAL], ids=[kind[0] for kind in EQUAL])
def test_equal_treatments_are_not_told_apart(effects, norm):
    setting = Setting(6, 5, 3, **TWO)
    y = two_factor_worlds(setting, WORLDS, seed=30, effects=effects, norm=norm).outcome
    assert any_told_apart(y, setting) <= limit()
    rows, columns = ranked(setting)
    inside = np.median(y[:, rows][:, :, columns], axis=-1)
    assert np.mean(rank_pvalues(inside)[0] < ALPHA) <= limit()


def test_a_planted_treatment_is_found_though_it_is_left_out_of_the_ranking():
    setting = Setting(12, 5, 5, **TWO)
    world = two_factor_worlds(setting, 1, seed=3, effects=0.1, norm=0.0).outcome[0]
    world[:, setting.treatments.index("i4, norm=0")] -= 3.0
    trials = frame(world, setting.treatments)
    best = str(rank(results_from(trials)).ranks.mean_ranks.index[0])
    found = compare_paired(trials, "i4, norm=0", best, comparisons=pairs(8))
    assert best != "i4, norm=0"
    assert found.difference.high < -1
    assert found.difference.n == 6


def test_the_jackknife_leaves_out_an_initializer_with_all_its_norms():
    setting = Setting(4, 6, 3, norms=2)
    y, x = two_factor_worlds(setting, 1, seed=4).cells()
    probe, outcome = table(x[0], setting.treatments), table(y[0], setting.treatments)
    by_unit, by_treatment = crossed(probe, outcome, setting.parts), crossed(probe, outcome)
    assert by_unit.value == pytest.approx(by_treatment.value)
    assert by_unit.low != pytest.approx(by_treatment.low)
    # Fewer than five initializers make no jackknife: Fisher's interval of so few is as wide as it gets.
    few = Setting(4, 4, 3, norms=2)
    y, x = two_factor_worlds(few, 1, seed=4).cells()
    interval = crossed(table(x[0], few.treatments), table(y[0], few.treatments), few.parts)
    assert interval.high - interval.low > 1.5


# The slow ones.


@pytest.mark.slow
def test_no_relation_is_found_where_there_is_none():
    rows, highest = [], 0.0
    for workloads in (3, 6, 12):
        for norm in (0.0, 1.0, 2.0):
            row = [workloads, norm]
            for initializers in (5, 7):
                for gaps in (False, True):
                    setting = Setting(workloads, initializers, 3, shared=0.5, norms=2, gaps=gaps)
                    if gaps and initializers == 5:
                        continue
                    y, x = two_factor_worlds(setting, WORLDS, seed=31, norm=norm).cells()
                    rate = np.mean(joint_pvalues(x, y, exchanged=units(setting.treatments, setting.parts)) <= ALPHA)
                    highest = max(highest, float(rate))
                    row += [percent(rate), percent(np.mean(joint_pvalues(x, y) <= ALPHA))]
            rows.append(row)
    names = [
        f"{size}, {what}"
        for size in ("5 init.", "7 init.", "7 init. with gaps")
        for what in ("initializers", "treatments")
    ]
    head = ["workloads", "effect of the norm", *names]
    show("Initializer × norm: % of null worlds with p ≤ 5 %, by what is exchanged", head, rows)
    assert highest <= limit()


@pytest.mark.slow
def test_neither_gain_nor_divergence_is_found_where_there_is_none():
    setting = Setting(6, 7, 3, shared=0.5, **TWO)
    number = 300
    y, x = two_factor_worlds(setting, number, seed=32).cells()
    generator = np.random.default_rng(33)
    prone = generator.uniform(0, 0.6, (number, 1, 7, 1)) * generator.uniform(0.2, 1, (number, 1, 1, 2))
    positive = generator.uniform(size=y.shape) < np.broadcast_to(prone, (number, 6, 7, 2)).reshape(y.shape)
    names, parts = setting.treatments, setting.parts
    gained = foretold = 0
    for a, b, diverged in zip(x, y, positive, strict=True):
        gained += gain(table(a, names), table(b, names), {}, parts=parts, permutations=199).pvalue <= ALPHA
        where = np.where(setting.runs, diverged, np.nan)
        foretold += predict_divergence(table(a, names), table(where, names), parts=parts).pvalue <= ALPHA
    show(
        "Initializer × norm with gaps",
        ["gain, p ≤ 5 %", "AUROC, p ≤ 5 %"],
        [[percent(gained / number), percent(foretold / number)]],
    )
    assert max(gained, foretold) / number <= limit(number)


@pytest.mark.slow
def test_equal_treatments_are_not_told_apart_at_any_size():
    rows, highest = [], 0.0
    for name, effects, norm in EQUAL:
        for workloads in (4, 6, 12):
            row = [name, workloads]
            for initializers in (4, 7):
                setting = Setting(workloads, initializers, 3, **TWO)
                y = two_factor_worlds(setting, WORLDS, seed=34, effects=effects, norm=norm).outcome
                rate = any_told_apart(y, setting)
                highest = max(highest, rate)
                row.append(percent(rate))
            rows.append(row)
    head = ["noise", "workloads", "4 init. × 2 norms", "7 init. × 2 norms"]
    show("Best against all, with those that the ranking leaves out: % of worlds", head, rows)
    assert highest <= limit()
