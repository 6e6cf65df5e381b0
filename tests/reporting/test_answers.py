"""What the analyses answer on ledgers whose truth is known: who is better, who diverges, and what that costs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, make_record, make_spec
from reports import figure_of, knowing_chance, results_of, sentences_of, table_of
from scipy import stats

from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.cost import cost, initialization_costs
from initbench.reporting.questions.divergence import divergence
from initbench.statistics.cost import Spending, spent
from initbench.statistics.profiles import fastest

SEEDS = range(3)
DEPTHS = (10, 16, 22, 28, 34)
XAVIER, ORTHOGONAL = {"name": "xavier"}, {"name": "orthogonal"}
FIVE = (KAIMING, DELTA_1, DELTA_2, XAVIER, ORTHOGONAL)
NAMES = ["kaiming", "delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]", "xavier", "orthogonal"]
TUNED = "metainit(delta_orthogonal)"


def world(outcome, initializers=FIVE, depths=DEPTHS):
    """Return a record for each depth, initializer and seed; `outcome` takes their indices and the seed."""
    records = []
    for a, depth in enumerate(depths):
        for i, initializer in enumerate(initializers):
            for seed in SEEDS:
                error = outcome(a, i, seed)
                status = "finished" if error is not None else "diverged"
                records.append(
                    make_record(make_spec(initializer, PLAIN | {"depth": depth}, seed), error, status=status)
                )
    return records


def comparison_of(records):
    return compare(results_of(records))


def ordered(a, i, seed):
    """The i-th initializer is worse by 2 points than the one before it, but for noise of .1 points."""
    return 0.1 + 0.02 * i + 0.01 * a + 0.001 * float(np.random.default_rng((a, i, seed)).standard_normal())


def test_an_order_that_is_the_same_everywhere_is_found():
    found = comparison_of(world(ordered))
    ranks = found.facts.ranking.ranks
    assert dict(ranks.mean_ranks) == dict(zip(NAMES, (1, 2, 3, 4, 5), strict=True))
    assert ranks.workloads == 5
    assert ranks.statistic == pytest.approx(20)  # n (k - 1), the most that Friedman's χ² can be
    assert ranks.is_told
    assert ranks.leaders == ["kaiming"]
    assert list(ranks.behind["second"]) == ["xavier", "orthogonal"]
    [(_, against)] = found.facts.against
    second = against["delta_orthogonal[gain=1]"]
    assert 0 < second.difference.low < 0.02 < second.difference.high
    assert second.side == 1
    assert (second.comparisons, second.difference.n) == (10, 5)
    over = sentences_of(found, "")
    assert len(over) == 2
    assert over[0].startswith("kaiming ranks first over 5 networks, ahead of xavier by 3.00 ranks ")
    assert over[1].startswith("kaiming beats delta_orthogonal (gain 1) over 5 networks by ")


def test_the_table_of_differences_is_that_of_paired_t_tests():
    frame = table_of(comparison_of(world(ordered)), "differences").frame.set_index("treatment")
    for i, name in enumerate(NAMES):
        means = [np.mean([ordered(a, i, s) - ordered(a, 0, s) for s in SEEDS]) for a in range(5)]
        row = frame.loc[name]
        if i == 0:
            assert math.isnan(row["difference"])
            continue
        interval = stats.ttest_1samp(means, 0).confidence_interval(1 - 0.05 / 10)
        expected = (np.mean(means), interval.low, interval.high)
        assert (row["difference"], row["difference_low"], row["difference_high"]) == pytest.approx(expected)
        assert row["improvement"] == 0  # it never has the lower error


def test_the_critical_difference_is_drawn_where_there_are_enough_workloads():
    found = comparison_of(world(ordered))
    nemenyi = stats.studentized_range.ppf(0.95, 5, np.inf) * math.sqrt(5 * 6 / (12 * 5))
    assert found.facts.ranking.ranks.critical_difference == pytest.approx(nemenyi)
    assert figure_of(found, "mean-ranks").note.startswith("Critical difference 2.73 (Nemenyi")
    few = comparison_of(world(ordered, depths=(10, 16)))
    assert math.isnan(few.facts.ranking.ranks.critical_difference)
    assert "mean-ranks" not in {figure.name for figure in few.figures}
    assert few.remarks == [
        "There is no critical-difference diagram: 2 workloads; a critical difference is given from 5 on.",
        "There is no performance profile: 2 networks; one is drawn from 8 on.",
    ]


def test_divergence_is_counted_by_workload():
    """kaiming diverges at one seed of two workloads, delta_orthogonal[gain=1] at every seed of one."""
    bad = {(0, 0, 0), (1, 0, 2), (2, 1, 0), (2, 1, 1), (2, 1, 2)}
    found = divergence(results_of(world(lambda a, i, s: None if (a, i, s) in bad else ordered(a, i, s))))
    rates = found.facts.set_index("treatment")
    counted = {name: tuple(rates.loc[name, ["rate", "workloads", "trials_diverged", "trials"]]) for name in NAMES}
    assert counted == dict.fromkeys(NAMES, (0, 5, 0, 15)) | {
        "kaiming": (0.4, 5, 2, 15),
        "delta_orthogonal[gain=1]": (0.2, 5, 3, 15),
    }
    # Wilson's interval over workloads, which holds for all five at once.
    wilson = stats.binomtest(2, 5).proportion_ci(1 - 0.05 / 5, "wilson")
    assert tuple(rates.loc["kaiming", ["rate_low", "rate_high"]]) == pytest.approx((wilson.low, wilson.high))
    first, second = sentences_of(found)
    assert first.startswith("kaiming diverges on 2 of 5 networks")
    assert second.startswith("delta_orthogonal (gain 1) diverges on 1 of 5 networks")
    none = divergence(results_of(world(ordered)))
    assert not none.facts["trials_diverged"].any()
    assert none.tables == []
    assert sentences_of(none) == ["Not one of 75 trials diverged."]


def test_a_network_is_the_only_one_of_an_initializer_or_of_the_report():
    def outcome(a, i, s):
        return None if (a, i, s) == (0, 1, 0) else ordered(a, i, s)

    one = world(outcome, FIVE[:2], DEPTHS[:1])
    assert sentences_of(divergence(results_of(one))) == [
        "delta_orthogonal diverges in 1 of 3 trials on the only network."
    ]
    assert sentences_of(divergence(results_of([*one, *world(ordered, FIVE[:1], DEPTHS[1:2])]))) == [
        "delta_orthogonal diverges in 1 of 3 trials on the only network on which it has a result."
    ]


def test_what_did_not_run_everywhere_is_named_and_compared_on_the_workloads_that_it_has():
    """It is as good as kaiming on the two workloads that it has, which say nothing of the others."""
    records = world(ordered) + world(ordered, (METAINIT,), DEPTHS[:2])
    found, without = comparison_of(records), comparison_of(world(ordered))
    assert found.facts.ranking.whole.treatments == [TUNED]
    assert found.facts.ranking.whole.workloads == []
    assert any("metainit" in text for text in found.remarks)
    table = table_of(found, "differences").frame.set_index("treatment")
    assert list(table["mean_rank"])[:5] == [1, 2, 3, 4, 5]
    row = table.loc[TUNED]
    assert math.isnan(row["mean_rank"])
    assert (row["difference"], row["improvement"], row["workloads"]) == (0, 0.5, 2)
    [(_, further)] = found.facts.further
    assert list(further) == [TUNED]
    assert (further[TUNED].workloads, further[TUNED].is_told) == (2, False)
    assert further[TUNED].comparisons == 15  # all pairs of six
    last = found.sentences[-1]
    assert last.is_open
    assert last.text.startswith("No difference was found between metainit and kaiming over both networks")
    # The others are ranked and compared as they were without it.
    assert dict(found.facts.ranking.ranks.mean_ranks) == dict(without.facts.ranking.ranks.mean_ranks)
    assert found.facts.ranking.ranks.pairs.equals(without.facts.ranking.ranks.pairs)
    [(_, ours)], [(_, theirs)] = found.facts.against, without.facts.against
    assert list(ours) == list(theirs)
    for name in ours:
        ends = ["low", "high"]  # another treatment says more of how much seeds vary
        assert ours[name].by_workload.drop(columns=ends).equals(theirs[name].by_workload.drop(columns=ends))
        assert ours[name][1:] == theirs[name][1:]
    assert sentences_of(found, "")[:-1] == sentences_of(without, "")
    ranked = table.drop(index=TUNED).drop(columns=["rate_low", "rate_high"])
    before = table_of(without, "differences").frame.set_index("treatment").drop(columns=["rate_low", "rate_high"])
    assert ranked.equals(before)


@pytest.mark.parametrize("depths", [(10,), DEPTHS])
def test_every_pair_with_the_best_stands_in_the_table_by_workload(depths):
    frame = table_of(comparison_of(world(ordered, depths=depths)), "paired_differences").frame
    assert len(frame) == 4 * len(depths)
    row = frame[frame["treatment"] == "xavier"].iloc[0]
    differences = [ordered(0, 3, s) - ordered(0, 0, s) for s in SEEDS]
    assert (row["difference"], row["seeds"]) == pytest.approx((np.mean(differences), 3))


def curve(record, errors, passes):
    history = [{"step": 21 * (e + 1), "epoch": e + 1, "test_error": error} for e, error in enumerate(errors)]
    forward, backward = passes
    return replace(record, history=history, initialization={"cost": {"forward": forward, "backward": backward}})


def test_the_cost_to_a_target_counts_what_the_initializer_spent():
    """MetaInit's 10 steps of half a batch, 9 gradients each, are 45 training steps."""
    records = []
    for depth in (10, 16):
        for seed in SEEDS:
            for own, error, errors, passes in (
                (METAINIT, 0.1, [0.15, 0.1], (10, 30)),
                (KAIMING, 0.2, [0.3, 0.15], (0, 0)),
                (XAVIER, 0.3, [0.4, 0.3], (0, 0)),
            ):
                made = make_record(make_spec(own, PLAIN | {"depth": depth}, seed), error)
                records.append(curve(made, errors, passes))
    found = cost(results_of(records))
    [of], nothing, unknown = spent(found.facts.spent)
    assert of == Spending(TUNED, 45, 45, pytest.approx(45 / 168), pytest.approx(45 / 168))
    assert (sorted(nothing), unknown) == (["kaiming", "xavier"], [])
    assert set(found.facts.spent["training_steps"]) == {168}
    # The target is .2, the middle one of the three: kaiming is there after 42 steps, MetaInit after 45 and 21.
    assert list(found.facts.targets) == [0.2, 0.2]
    frame = table_of(found, "costs").frame.set_index(["workload", "treatment"])["steps_to_target"]
    assert set(frame.xs("kaiming", level=1)) == {42}
    assert set(frame.xs(TUNED, level=1)) == {66}
    assert set(frame.xs("xavier", level=1)) == {math.inf}
    first = fastest(found.facts.whole.table)
    assert (first.names, first.wins, first.share.n) == (["kaiming"], 2, 2)
    wilson = stats.binomtest(2, 2).proportion_ci(1 - 0.05 / 3, "wilson")  # it was picked from three
    assert first.share[:3] == pytest.approx((1, wilson.low, wilson.high))
    said = sentences_of(found)
    assert said[0].startswith("metainit costs 45 steps")
    assert said[1].startswith("kaiming reaches the target with the least compute, its own passes included, on 2 of 2")


def test_an_unknown_cost_is_said():
    results = results_of(world(ordered))
    assert initialization_costs(results)["initialization_steps"].isna().all()
    [sentence, *_] = cost(results).sentences
    assert sentence.text == "Not known: the records do not say what initializers spent."
    assert sentence.is_open


def test_an_initializer_of_unknown_cost_is_not_said_to_have_run_nowhere():
    records = []
    for depth in (10, 16):
        for own, passes in ((METAINIT, (10, 30)), (KAIMING, (0, 0)), (XAVIER, None)):
            for seed in SEEDS:
                made = make_record(make_spec(own, PLAIN | {"depth": depth}, seed), 0.1)
                record = curve(made, [0.1], passes or (0, 0))
                records.append(record if passes else replace(record, initialization={}))
    found = cost(results_of(records))
    assert (found.facts.whole.workloads, found.facts.whole.treatments) == ([], ["xavier"])
    assert spent(found.facts.spent).unknown == ["xavier"]
    [remark] = found.remarks
    assert remark.endswith(", because not every initializer ran everywhere with a recorded cost: xavier.")


def test_a_network_on_which_nothing_trains_has_no_target():
    records = [
        curve(make_record(make_spec(own, PLAIN | {"depth": depth}, seed), error), [error], (0, 0))
        for depth, error in ((10, 0.1), (16, 0.9))
        for own in (METAINIT, KAIMING)
        for seed in SEEDS
    ]
    assert "No target on plain-16: nothing trains there." in cost(results_of(knowing_chance(records))).remarks


def test_one_step_is_no_steps():
    records = []
    for own, at, passes in ((METAINIT, 1, (1, 0)), (KAIMING, 2, (0, 0)), (XAVIER, 9, (1, 0))):
        for seed in SEEDS:
            made = make_record(make_spec(own, PLAIN, seed), 0.1 if own is not XAVIER else 0.3)
            entry = {"step": at, "epoch": 1, "test_error": 0.1 if own is not XAVIER else 0.3}
            spent_before = {"cost": {"forward": passes[0], "backward": passes[1]}}
            records.append(replace(made, history=[entry], initialization=spent_before))
    [figure] = cost(results_of(records)).figures
    assert "metainit: 1 step, including less than 1 before training" in figure.alt
    assert "xavier: target not met, less than 1 step before training" in figure.alt
