import math
from dataclasses import replace

import numpy as np
import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec
from reports import compared, knowing_chance

from initbench.statistics.cost import cost_to_target, costs_to_target
from initbench.statistics.profiles import performance_profiles


def record(initializer=METAINIT, cost=None, errors=(0.5, 0.2, 0.1), architecture=PLAIN, seed=0, status="finished"):
    """Return a record with a test error every 10 steps, the last of them its result."""
    spec = make_spec(initializer, architecture, seed, recipe={"batch_size": 64})
    made = make_record(spec, errors[-1], status=status)
    history = [{"step": 10 * (i + 1), "epoch": i + 1, "test_error": e} for i, e in enumerate(errors)]
    return replace(made, initialization={"cost": cost} if cost else {}, history=history)


def costs_of(records):
    found = compared(records)
    return costs_to_target(found.trials, {made.id: made for made in records}, found.by_workload)


def test_an_initializers_steps_are_those_of_the_report():
    # 100 steps of MetaInit, 1 forward and 3 backward passes each, are 900 gradients, each of 32 in place of 64 samples.
    own = record(cost={"forward": 100, "backward": 300})
    assert cost_to_target(own, 0.5) == pytest.approx(450 + 10)
    assert math.isnan(cost_to_target(record(KAIMING), 0.5))


def test_cost_to_a_target_counts_both():
    own = record(KAIMING, {"forward": 2, "backward": 2}, errors=(0.5, None, 0.2, 0.1))
    assert cost_to_target(own, 0.2) == 2 + 30
    assert cost_to_target(own, 0.05) == math.inf
    assert cost_to_target(record(KAIMING, {"forward": 0, "backward": 0}), 0.5) == 10


def test_the_table_of_costs_by_hand():
    free, tuned = {"forward": 0, "backward": 0}, {"forward": 10, "backward": 10}
    records = [
        # On plain the medians at the end are 0.1, 0.2 and 0.3; the target is 0.2, which one misses at 2 of 3 seeds.
        *(record(KAIMING, free, (0.2, 0.1), seed=seed) for seed in (0, 1)),
        record(KAIMING, free, (0.3, 0.2), seed=2),
        *(record(DELTA_1, tuned, (0.4, 0.3), seed=seed) for seed in (0, 1)),
        record(DELTA_1, tuned, (0.2, 0.2), seed=2),
        *(record(DELTA_2, free, (0.5, 0.4, 0.2), seed=seed) for seed in (0, 1, 2)),
        # On wrn the first diverged: the target is the second's own 0.5, and the median of 10 + 10 and 10 + 20 steps.
        *(record(KAIMING, free, (0.9, 0.9), WRN, seed, "diverged") for seed in (0, 1)),
        record(DELTA_1, tuned, (0.5, 0.5), WRN, 0),
        record(DELTA_1, tuned, (0.6, 0.5), WRN, 1),
    ]
    costs, targets = costs_of(records)
    assert list(targets) == pytest.approx([0.2, 0.5])
    assert list(costs.index) == list(targets.index)
    first, second = "delta_orthogonal[gain=1]", "delta_orthogonal[gain=2]"
    assert dict(costs.iloc[0]) == {"kaiming": 10, first: math.inf, second: 30}
    assert dict(costs.iloc[1].dropna()) == {"kaiming": math.inf, first: 25}
    profiles = performance_profiles(costs)
    assert list(profiles.index) == [1, 3]
    assert list(profiles["kaiming"]) == [0.5, 0.5]
    assert list(profiles[second]) == [0, 0.5]


@pytest.mark.parametrize(
    ("errors", "target"),
    [
        ([(0.03, 0.04, 0.05, 0.06), (0.07, 0.08, 0.09, 0.10)], 0.05),
        ([(0.03, 0.03, 0.9, 0.9)], 0.9),  # not the midpoint of two camps
    ],
)
def test_of_two_middle_seeds_the_worse_sets_the_target_which_its_cell_reaches(errors, target):
    starts, free = (KAIMING, DELTA_1), {"forward": 0, "backward": 0}
    records = [
        record(start, free, (1.0, error), seed=seed)
        for start, seeds in zip(starts, errors, strict=False)
        for seed, error in enumerate(seeds)
    ]
    costs, targets = costs_of(records)
    assert list(targets) == [target]
    assert costs.iloc[0]["kaiming"] == 20
    assert "delta_orthogonal" not in costs or costs.iloc[0]["delta_orthogonal"] == math.inf


def test_the_target_is_no_outcome_of_a_seed_that_learned_nothing():
    """Of the only cell whose median is better than guessing, half of the seeds guess, and so does its rival."""
    free = {"forward": 0, "backward": 0}
    records = [record(KAIMING, free, (1.0, error), seed=seed) for seed, error in enumerate((0.03, 0.03, 0.9, 0.9))]
    records += [record(DELTA_1, free, (0.9, 0.9), seed=seed) for seed in range(4)]
    costs, targets = costs_of(knowing_chance(records))
    assert math.isnan(targets.iloc[0])
    assert np.isinf(costs.iloc[0]).all()


def at_the_end(*errors, diverged=0):
    """Return records of one seed of each error, of a split whose chance level is 0.9, and of some that diverged."""
    free = {"forward": 0, "backward": 0}
    names = [{"name": "kaiming", "gain": float(i + 1)} for i in range(len(errors) + diverged)]
    made = [record(own, free, (0.95, error)) for own, error in zip(names, errors, strict=False)]
    made += [record(own, free, (0.95, 0.95), status="diverged") for own in names[len(errors) :]]
    return knowing_chance(made)


@pytest.mark.parametrize(
    ("errors", "diverged", "target"),
    [
        ((0.1, 0.2, 0.3), 0, 0.2),  # that of the middle one
        ((0.1, 0.2, 0.3, 0.4), 0, 0.2),  # of two middle ones the better, and no value between two that none has
        ((0.03, 0.04, 0.9, 0.89), 0, 0.04),  # two camps: both that train are at it or beyond
        ((0.03, 0.9, 0.9), 0, 0.03),  # the middle one does not train
        ((0.03, 0.3, 0.9, 0.9, 0.9), 0, 0.3),  # all that train are at it or beyond
        ((0.1, 0.2, 0.3), 4, 0.2),  # those that diverged have no part in it
    ],
)
def test_the_target_is_an_outcome_that_a_trained_cell_reached(errors, diverged, target):
    costs, targets = costs_of(at_the_end(*errors, diverged=diverged))
    assert list(targets) == [target]
    assert np.isfinite(costs.to_numpy()).sum() == sum(error <= target for error in errors)


def test_a_workload_where_nothing_trains_has_no_target_and_all_miss():
    costs, targets = costs_of(at_the_end(0.9, 0.89, diverged=1))
    assert math.isnan(targets.iloc[0])
    assert costs.to_numpy().tolist() == [[math.inf] * 3]


def test_a_workload_where_all_diverge_has_no_target_and_all_miss():
    records = [record(KAIMING, {"forward": 0, "backward": 0}, (0.5, 0.5), status="diverged")]
    costs, targets = costs_of(records)
    assert math.isnan(targets.iloc[0])
    assert costs.to_numpy().tolist() == [[math.inf]]


def test_a_cell_that_was_not_run_and_a_cost_that_is_not_known_are_missing():
    records = [record(KAIMING, None, (0.5, 0.5)), record(DELTA_1, {"forward": 0, "backward": 0}, (0.5, 0.5), WRN)]
    costs, _ = costs_of(records)
    assert costs.isna().to_numpy().sum() == 3
