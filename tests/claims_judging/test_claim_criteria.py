"""Criteria on groups, crossed grids, layers, rates and factors, each against values worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from claimed import REGRESSION, claim_of, judged, results_of, trial, verdict_of
from tuned import curved, tuned_records, tuned_results

from initbench.claims.judge import judge_claims
from initbench.reporting.questions.claims import evidence_of

A, B = {"initializer": "a"}, {"initializer": "b"}


def cell(name, outcomes, **fields):
    return [trial(name, seed, outcome=outcome, **fields) for seed, outcome in enumerate(outcomes)]


def failed(record):
    return replace(record, status="failed", task={}, metrics={}, history=[], initialization={}, probes=[])


def overflowed(record, reason="inf"):
    """Return a record whose gradient quotient is missing for a reason."""
    lost = {"value": None, "value_reason": reason}
    return replace(record, probes=[one | lost if one["name"] == "gradient_quotient" else one for one in record.probes])


# `a` is below 0.5 at so many of five seeds.
BELOW = {"judge": "within", "of": A, "at_most": 0.5}


@pytest.mark.parametrize(
    ("held_at", "refuted_at", "met", "expected"),
    [
        (1.0, 0.5, 5, "held"),
        (1.0, 0.8, 4, "undecided"),
        (0.8, 0.8, 4, "held"),
        (0.8, 0.8, 3, "undecided"),
        (0.8, 0.8, 2, "undecided"),
        (0.8, 0.8, 1, "did not hold"),
        ("any", 0.8, 1, "held"),
        ("any", 0.8, 0, "did not hold"),
    ],
)
def test_a_criterion_is_held_at_the_share_of_seeds_that_it_asks_for(held_at, refuted_at, met, expected):
    records = cell("a", [0.1] * met + [0.7] * (5 - met))
    assert judged(records, **BELOW, held_at=held_at, refuted_at=refuted_at).status == expected


@pytest.mark.parametrize(("ties", "expected"), [(0, "did not hold"), (1, "did not hold"), (2, "undecided")])
def test_what_holds_at_no_seed_is_refuted_by_those_that_speak_against_it_alone(ties, expected):
    records = cell("a", [0.2] * 5) + cell("b", [0.2] * ties + [0.1] * (5 - ties))
    assert judged(records, judge="ordering", lower=A, higher=B, held_at="any").status == expected


def test_two_seeds_do_not_show_that_it_happens_at_one():
    assert judged(cell("a", [0.1, 0.7]), seeds=2, **BELOW, held_at="any").status == "undecided"


@pytest.mark.parametrize(("half", "expected"), [(5, "held"), (4, "undecided"), (3, "undecided"), (2, "did not hold")])
def test_a_value_is_bounded_by_that_of_another_treatment_at_the_same_seed(half, expected):
    values = [0.1, 0.2, 0.3, 0.4, 0.5]
    other = [value * (2.0 if seed < half else 1.9) for seed, value in enumerate(values)]
    records = cell("a", values) + cell("b", other)
    verdict = judged(records, judge="within", of=B, against=A, at_least=1.99, refuted_at=0.6)
    assert verdict.status == expected
    assert verdict.groups[0].estimate.value == pytest.approx((2.0 * half + 1.9 * (5 - half)) / 5)


def test_what_is_at_chance_does_not_train_however_lenient_the_bound():
    records = cell("a", [0.1, 0.1, 0.1, 0.1, 0.89])
    assert judged(records, judge="trains", of=A, at_most=0.95).status == "undecided"
    assert judged(records, judge="trains", of=A, at_most=0.95, held_at=0.8).status == "held"
    assert judged(records, judge="at_chance", of=A, held_at="any").status == "held"


@pytest.mark.parametrize(("near", "expected"), [(5, "held"), (4, "undecided"), (3, "undecided"), (2, "did not hold")])
def test_the_ratio_to_another_side_may_be_judged(near, expected):
    records = cell("a", [0.6] * 5) + cell("b", [0.3] * near + [0.2] * (5 - near))  # 2 times, else 3 times
    asked = {"judge": "within", "of": A, "against": B, "at_least": 1.9, "at_most": 2.1}
    assert judged(records, **asked).status == expected


UP, DOWN, OPEN = [0.1] * 5, [0.7] * 5, [0.1, 0.1, 0.1, 0.7, 0.7]


@pytest.mark.parametrize(
    ("outcomes", "groups", "expected"),
    [
        ([UP, UP, DOWN, OPEN], 2, "held"),
        ([UP, UP, DOWN, OPEN], 3, "undecided"),
        ([UP, UP, DOWN, OPEN], 4, "did not hold"),
        ([UP, UP, DOWN, OPEN], None, "did not hold"),
        ([UP, UP, DOWN, DOWN], 3, "did not hold"),
        ([UP, UP, UP, OPEN], None, "undecided"),
        ([UP, UP, UP, UP], None, "held"),
    ],
)
def test_a_criterion_may_ask_for_some_of_the_groups(outcomes, groups, expected):
    records = [record for depth, own in enumerate(outcomes) for record in cell("a", own, depth=10 + depth)]
    assert judged(records, **BELOW, each=["depth"], groups=groups).status == expected


@pytest.mark.parametrize(("seeds", "expected"), [(3, "held"), (4, "undecided")])
def test_of_sides_with_more_seeds_than_the_suite_those_that_all_have_are_judged(seeds, expected):
    records = cell("a", [0.1] * 4) + cell("b", [0.2] * 3)
    found = judged(records, seeds=seeds, judge="ordering", lower=A, higher=B)
    assert (found.status, found.lacks) == (expected, "" if expected == "held" else "3 of 4 seeds have a result")
    assert found.groups[0].estimate.n == 3


def test_more_seeds_on_both_sides_do_not_hide_one_that_lacks_all():
    records = cell("a", [0.1] * 5) + cell("a", [0.1] * 5, depth=10) + cell("b", [0.2] * 5)
    found = judged(records, seeds=3, judge="ordering", lower=A, higher=B, each=["depth"])
    assert (found.status, found.lacks) == ("undecided", "0 of 3 seeds have a result")


QUOTIENT = {"measure": "probe.gradient_quotient"}


@pytest.mark.parametrize(("reason", "expected"), [("inf", "held"), ("-inf", "did not hold"), ("nan", "not run")])
@pytest.mark.parametrize("outcome", [0.1, None])
def test_a_scalar_that_overflowed_is_infinite(reason, expected, outcome):
    records = cell("a", [0.1] * 5) + [overflowed(record, reason) for record in cell("b", [outcome] * 5)]
    found = judged(records, judge="ordering", lower=A, higher=B, **QUOTIENT)
    assert found.status == expected
    assert not any(any(group.diverged) for group in found.groups)  # the start overflowed, and not the training


# In a report of two ledgers, one of errors and one of R², where higher is better.
ERRORS = cell("c", [0.1] * 5)
FITS = cell("a", [0.9] * 5, task=REGRESSION) + cell("b", [0.5] * 5, task=REGRESSION)


@pytest.mark.parametrize("others", [[], ERRORS])
@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        ({"judge": "not_worse", "of": A, "than": B, "within": 0.01}, "held"),
        ({"judge": "not_worse", "of": B, "than": A, "within": 0.01}, "did not hold"),
        ({"judge": "at_chance", "of": A, "unless_below": 0.8}, "did not hold"),
        ({"judge": "at_chance", "of": B, "unless_below": 0.8}, "undecided"),
    ],
)
def test_what_is_better_does_not_depend_on_other_trials_of_the_report(others, criterion, expected):
    found = judged(FITS + others, **criterion)
    assert found.status == expected
    assert found.metric.name == "test_r_squared"


def test_each_group_has_its_own_outcome_and_different_ones_are_not_compared():
    fits, errors = (cell("b", [0.5] * 5, depth=depth, **task) for depth, task in ((10, {"task": REGRESSION}), (20, {})))
    records = cell("a", [0.9] * 5, depth=10, task=REGRESSION) + cell("a", [0.1] * 5, depth=20) + fits + errors
    found = judged(records, judge="not_worse", of=A, than=B, within=0.01, each=["depth"])
    assert (found.status, found.metric) == ("held", None)
    mixed = judged(FITS + ERRORS, judge="ordering", lower={"initializer": "c"}, higher=A)
    assert (mixed.status, mixed.lacks) == ("undecided", "compares different outcomes: test_error and test_r_squared")


def test_an_upper_bound_says_nothing_of_training_if_higher_is_better():
    found = judged(cell("a", [0.3] * 5, task=REGRESSION), judge="trains", of=A, at_most=0.45)
    assert (found.status, found.lacks) == (
        "undecided",
        "at_most is for measures where lower is better; use within, with at_least",
    )


# Each side at the rate that is best on the validation split, whatever the test split says.
BEST = {**BELOW, "best_over": "recipe.lr", "at_most": 0.25, "at_least": 0.15}


def grid(*rates, seeds=5, **fields):
    return [
        trial("a", seed, lr=lr, outcome=test, validation=validation, **fields)
        for seed in range(seeds)
        for lr, validation, test in rates
    ]


def test_the_validation_value_chooses():
    found = judged(grid((0.01, 0.3, 0.05), (0.1, 0.1, 0.2), (1.0, 0.2, 0.01)), **BEST)
    assert found.status == "held"
    assert found.groups[0].estimate.value == pytest.approx(0.2)


def test_of_equals_the_smaller_rate_is_chosen():
    assert judged(grid((1.0, 0.1, 0.9), (0.1, 0.1, 0.2)), **BEST).status == "held"
    assert judged(grid((10.0, 0.1, 0.9), (9.0, 0.1, 0.2)), **BEST).status == "held"


def test_the_best_is_the_highest_where_higher_is_better():
    rates = (0.01, 0.3, 0.05), (0.1, 0.9, 0.2), (1.0, 0.2, 0.01)
    assert judged(grid(*rates, task=REGRESSION), **BEST).status == "held"


def test_a_rate_at_which_it_diverges_is_the_worst():
    assert judged(grid((0.1, 0.8, 0.2), (1.0, None, None)), **BEST).status == "held"


def test_where_every_rate_diverges_the_treatment_does():
    found = judged(grid((0.1, None, None), (1.0, None, None)), **BEST)
    assert found.status == "did not hold"
    assert found.groups[0].diverged == ((37,) * 5,)


def test_a_seed_that_lacks_a_rate_is_not_judged():
    records = grid((0.1, 0.1, 0.2), (1.0, 0.2, 0.01))
    missing = [r for r in records if not (r.spec["seed"] == 4 and r.spec["recipe"]["lr"] == 0.1)]
    assert judged(records, **BEST).status == "held"
    found = judged(missing, **BEST)
    assert (found.status, found.lacks) == ("undecided", "4 of 5 seeds have a result")


def test_trials_that_differ_in_more_are_refused():
    other = [trial("a", seed, lr=1.0, batch_size=8) for seed in range(5)]
    found = judged(grid((0.1, 0.1, 0.2)) + other, **BEST)
    assert found.status == "undecided"
    assert found.lacks.startswith("selects several trials at seed 0, which differ in recipe.batch_size (")


def test_each_side_has_a_best_rate_of_its_own():
    records = [
        trial(name, seed, lr=lr, outcome=outcome)
        for seed in range(5)
        for name, lr, outcome in (("a", 0.1, 0.3), ("a", 1.0, 0.6), ("b", 0.1, 0.5), ("b", 1.0, 0.4))
    ]
    found = judged(records, judge="ordering", lower=A, higher=B, best_over="recipe.lr")
    assert found.groups[0].estimate.value == pytest.approx(0.1)


def layered(name, *seeds):
    """Return a trial for each seed, whose layers have the values given."""
    return [
        trial(name, seed, layers={f"conv{i}.weight": value for i, value in enumerate(values)} | {"fc.bias": 99.0})
        for seed, values in enumerate(seeds)
    ]


# Values of layers between two bounds, at so many seeds.
LAYERS = {"judge": "layers", "of": A, "measure": "probe.norms", "layers": "conv", "at_least": 1.0, "at_most": 2.0}


@pytest.mark.parametrize(
    ("outside", "options", "expected"),
    [
        (0, {}, "held"),
        (1, {}, "undecided"),
        (3, {}, "undecided"),
        (4, {}, "did not hold"),
        (1, {"held_at": 0.8}, "held"),
        (2, {"held_at": 0.8}, "undecided"),
        (3, {"refuted_at": 0.6}, "did not hold"),
        (4, {"share": 0.75}, "held"),  # three of the four layers lie within
        (4, {"share": 0.76}, "did not hold"),
        (4, {"held_at": "any"}, "held"),
        (5, {"held_at": "any"}, "did not hold"),
    ],
)
def test_every_layer_lies_between_the_bounds(outside, options, expected):
    seeds = [[1.0, 1.5, 1.7, 2.5]] * outside + [[1.0, 1.5, 1.7, 2.0]] * (5 - outside)
    assert judged(layered("a", *seeds), **LAYERS | options).status == expected


def test_the_interval_of_a_share_of_layers_ends_at_0_and_1():
    seeds = [[1.5] * inside + [9.0] * (4 - inside) for inside in (1, 3, 4)]
    (group,) = judged(layered("a", *seeds), **LAYERS).groups
    assert group.estimate.value == pytest.approx(2 / 3)
    assert (group.estimate.low, group.estimate.high) == (0.0, 1.0)


def test_layers_are_those_in_whose_name_the_pattern_is_found():
    records = layered("a", *[[1.0, 1.5]] * 5)
    assert judged(records, **LAYERS | {"layers": r"^conv\d"}).status == "held"
    assert judged(records, **LAYERS | {"layers": "bias$"}).status == "did not hold"
    assert judged(records, **LAYERS | {"layers": ".*", "share": 2 / 3}).status == "held"
    found = judged(records, **LAYERS | {"layers": "norm"})
    assert (found.status, found.lacks) == ("undecided", "no layer name matches 'norm'")


def test_a_value_may_be_judged_against_that_of_another_side():
    records = layered("a", *[[3.0, 8.0]] * 5) + layered("b", *[[2.0, 4.0]] * 4, [2.0, 3.9])
    fields = LAYERS | {"against": B}
    assert judged(records, **fields, held_at=0.8).status == "held"  # 1.5 and 2, at one seed 2.05
    found = judged(records, **fields)
    assert (found.status, found.groups[0].agreeing) == ("undecided", 4)
    assert found.groups[0].ends == pytest.approx((1.5, 8 / 3.9))


def test_what_overflowed_is_large_and_what_is_no_number_lies_nowhere():
    large = {"at_most": None, "at_least": 1e6}
    assert judged(layered("a", *[[math.inf, 1e7]] * 5), **LAYERS | large).status == "held"
    assert judged(layered("a", *[[math.nan, 1e7]] * 5), **LAYERS | large).status == "did not hold"


def test_by_what_a_tuner_scaled_each_tensor():
    records = [trial("a", seed, factors={"conv.weight": 1.5, "fc.weight": 0.5}) for seed in range(5)]
    scale = LAYERS | {"measure": "initialization.scale"}
    assert judged(records, **scale).status == "held"
    assert judged(records, **scale | {"layers": ".*"}).status == "did not hold"
    found = judged(cell("a", [0.1] * 5), **scale)
    assert (found.status, found.lacks) == ("undecided", "no trial has initialization.scale for each layer")


def test_a_seed_without_values_is_not_judged():
    records = [*layered("a", [1.5], [1.5], [1.5], [1.5]), trial("a", 4)]
    assert judged(records, **LAYERS).lacks == "4 of 5 seeds have a result"


# The mean of |ln ratio| over layers: of the factors e^0.2 and e^-0.4 it is 0.3.
DISTANCE = {"judge": "layer_distance", "of": A, "reference": B, "measure": "probe.norms", "at_most": 0.21}
NEAR, FAR = [2 * math.exp(0.2), 3 * math.exp(-0.4)], [2 * math.exp(0.5), 3 * math.exp(-1)]  # 0.2 and 0.5


def distance(far, **options):
    seeds = [FAR] * far + [NEAR] * (5 - far)
    records = layered("a", *seeds) + layered("b", *[[2.0, 3.0]] * 5)  # and a bias, which is equal
    return judged(records, **DISTANCE | options)


@pytest.mark.parametrize(
    ("far", "options", "expected"),
    [
        (0, {}, "held"),
        (1, {}, "undecided"),
        (2, {}, "undecided"),
        (3, {}, "did not hold"),
        (3, {"refuted_above": 0.49}, "did not hold"),
        (5, {"refuted_above": 0.51}, "undecided"),
        (1, {"held_at": 0.8}, "held"),
        (3, {"refuted_at": 0.8}, "undecided"),
        (0, {"at_most": 0.19}, "did not hold"),
    ],
)
def test_the_mean_over_layers_is_small(far, options, expected):
    assert distance(far, **options).status == expected


def test_the_distance_is_the_mean_of_the_logarithms():
    assert distance(0).groups[0].estimate.value == pytest.approx((0.2 + 0.4 + 0) / 3)


def test_layers_that_are_zero_in_both_say_nothing_and_one_zero_is_infinitely_far():
    both = layered("a", *[[0.0, 2 * math.exp(0.3)]] * 5) + layered("b", *[[0.0, 2.0]] * 5)
    assert judged(both, **DISTANCE).groups[0].estimate.value == pytest.approx((0.3 + 0) / 2)
    zeros = layered("b", *[[0.0, 2.0]] * 5)
    assert judged(layered("a", *[[0.0, 2.0]] * 5) + zeros, **DISTANCE).status == "held"
    found = judged(layered("a", *[[1e-9, 2.0]] * 5) + zeros, **DISTANCE)
    assert (found.status, found.groups[0].estimate.value) == ("did not hold", math.inf)


def test_the_distance_is_over_the_layers_that_are_named():
    assert distance(0, layers="conv").groups[0].estimate.value == pytest.approx((0.2 + 0.4) / 2)
    assert distance(0, layers="conv0").groups[0].estimate.value == pytest.approx(0.2)


def test_layers_that_one_side_alone_has_are_left_out():
    records = layered("a", *[[2.0, 3.0, 7.0]] * 5) + layered("b", *[[2.0, 3.0]] * 5)
    assert judged(records, **DISTANCE).groups[0].estimate.value == 0.0


def rates(seed, best, stable, *, batch_size=64, name="a"):
    """Return the trials of a seed at four rates; the best and the largest stable one are given, and above it diverges.

    On the test split every rate but the best is better.
    """
    return [
        trial(
            name,
            seed,
            lr=lr,
            batch_size=batch_size,
            outcome=None if lr > stable else 0.3 if lr == best else 0.1,
            validation=0.2 if lr == best else 0.4,
        )
        for lr in (0.01, 0.1, 1.0, 10.0)
    ]


# The best rate divided by the largest stable one.
RATIO = {"judge": "rate_ratio", "of": A, "at_most": 0.1}


@pytest.mark.parametrize(
    ("near", "options", "expected"),
    [
        (0, {}, "held"),
        (1, {}, "undecided"),
        (3, {}, "undecided"),
        (4, {}, "did not hold"),
        (1, {"held_at": 0.8}, "held"),
        (3, {"refuted_at": 0.6}, "did not hold"),
        (5, {"at_most": None, "at_least": 1.0}, "held"),
        (4, {"at_most": None, "at_least": 1.0}, "undecided"),
    ],
)
def test_the_ratio_lies_between_bounds(near, options, expected):
    records = [r for seed in range(5) for r in rates(seed, 1.0 if seed < near else 0.1, 1.0)]
    assert judged(records, **RATIO | options).status == expected


def test_the_ratio_at_each_seed():
    records = [*rates(0, 0.1, 10.0), *rates(1, 0.1, 1.0), *rates(2, 0.1, 0.1)]
    found = judged(records, **RATIO, seeds=3)
    assert found.groups[0].estimate.value == pytest.approx((0.01 + 0.1 + 1) / 3)
    assert found.groups[0].agreeing == 2


def test_a_rate_at_chance_is_not_stable():
    # 0.9 - 2.576 · 0.016 = 0.859: what is above is no better than guessing.
    def seeds(validation):
        return [
            trial("a", seed, lr=lr, outcome=0.3, validation=value)
            for seed in range(5)
            for lr, value in ((0.1, 0.2), (1.0, 0.4), (10.0, validation))
        ]

    assert judged(seeds(0.855), **RATIO).groups[0].estimate.value == pytest.approx(0.01)
    assert judged(seeds(0.865), **RATIO).groups[0].estimate.value == pytest.approx(0.1)


def test_a_seed_at_which_no_rate_is_stable_counts_for_neither():
    records = [r for seed in range(4) for r in rates(seed, 0.1, 1.0)]
    records += [trial("a", 4, lr=lr, outcome=None) for lr in (0.01, 0.1, 1.0, 10.0)]
    assert judged(records, **RATIO).status == "undecided"
    assert judged(records, **RATIO, held_at=0.8).status == "held"
    records = rates(0, 0.1, 1.0)
    records += [trial("a", seed, lr=lr, outcome=None) for seed in range(1, 5) for lr in (0.01, 0.1, 1.0, 10.0)]
    assert judged(records, **RATIO).status == "undecided"


@pytest.mark.parametrize("points", [None, lambda seed: [0.001 * (1 + seed), 0.1, 0.3, 0.6 + 0.1 * seed]])
def test_the_rates_of_a_suite_that_tunes_them_are_those_of_its_searches(points):
    outcome = curved(0.1, limit=0.5)
    records = tuned_records(lambda at: outcome(at.rate), ["plain"], ["a"], seeds=5, points=points)
    (verdict,) = judge_claims(evidence_of(tuned_results(records)), [claim_of(RATIO | {"at_most": 0.4})], 5)
    assert verdict.status == "held"
    assert verdict.criteria[0].groups[0].estimate.value == pytest.approx(0.1 / (0.316 if points is None else 0.3))


@pytest.mark.parametrize(
    ("others", "options", "expected"),
    [
        # The best rate of a is a tenth of its limit at every seed; that of b is a tenth of its limit, or the limit.
        ((0.1,) * 5, {"at_least": 0.5, "at_most": 2.0}, "held"),
        ((1.0,) * 5, {"at_least": 0.5, "at_most": 2.0}, "did not hold"),
        ((1.0,) * 5, {"at_least": 0.09, "at_most": 0.11}, "held"),
        ((0.1, 0.1, 0.1, 0.1, 1.0), {"at_least": 0.5, "at_most": 2.0}, "undecided"),
        ((0.1, 0.1, 0.1, 0.1), {"at_least": 0.5, "at_most": 2.0}, "undecided"),  # a seed is missing
        ((), {"at_least": 0.5, "at_most": 2.0}, "not run"),
    ],
)
def test_the_ratio_is_bounded_by_that_of_other_trials_at_the_same_seed(others, options, expected):
    records = [r for seed in range(5) for r in rates(seed, 1.0, 10.0)]
    records += [r for seed, best in enumerate(others) for r in rates(seed, best, 1.0, name="b")]
    assert judged(records, judge="rate_ratio", of=A, against=B, **options).status == expected


RISES = {"judge": "rate_ratio", "of": A, "rises_with": "recipe.batch_size"}


@pytest.mark.parametrize(
    ("best", "options", "expected"),
    [
        ((0.01, 0.1, 1.0, 10.0), {}, "held"),
        ((0.01, 1.0, 0.1, 10.0), {}, "held"),  # ρ = 0.8
        ((0.01, 1.0, 0.1, 10.0), {"correlation": 0.81}, "undecided"),
        ((0.1, 0.01, 10.0, 1.0), {}, "undecided"),  # ρ = 0.6
        ((1.0, 10.0, 0.01, 0.1), {}, "did not hold"),  # ρ = -0.6
        ((0.1, 10.0, 0.01, 1.0), {}, "did not hold"),  # ρ = 0
        ((0.1, 0.1, 0.1, 0.1), {}, "undecided"),  # no ranks
    ],
)
def test_the_ratio_rises_with_a_property(best, options, expected):
    records = [
        r
        for seed in range(5)
        for batch_size, own in zip((8, 16, 64, 1024), best, strict=True)
        for r in rates(seed, own, 10.0, batch_size=batch_size)
    ]
    assert judged(records, **RISES | options).status == expected


def test_equal_ratios_of_different_rates_have_no_ranks():
    # In floating point 0.01 / 0.1 is less than 0.1 / 1.0.
    records = [
        r
        for seed in range(5)
        for batch_size, best, stable in ((8, 0.01, 0.1), (16, 0.1, 1.0), (64, 1.0, 10.0))
        for r in rates(seed, best, stable, batch_size=batch_size)
    ]
    found = judged(records, **RISES)
    assert found.status == "undecided"
    assert math.isnan(found.groups[0].estimate.value)


def test_ratios_are_averaged_geometrically_as_in_the_report():
    # The geometric means rise, 0.004, 0.01 and 0.1; the arithmetic ones would not, 0.2, 0.01 and 0.1.
    best = {8: [10.0] + [0.01] * 4, 16: [0.1] * 5, 64: [1.0] * 5}
    records = [
        r for size, own in best.items() for seed, lr in enumerate(own) for r in rates(seed, lr, 10.0, batch_size=size)
    ]
    assert judged(records, **RISES).groups[0].estimate.value == pytest.approx(1)


def test_two_values_tell_no_correlation():
    records = [r for seed in range(5) for size in (8, 16) for r in rates(seed, 0.1 * size, 10.0, batch_size=size)]
    found = judged(records, **RISES)
    assert (found.status, found.lacks) == (
        "undecided",
        "at least 3 values of recipe.batch_size are needed",
    )


# Effects of two factors: rows differ in the initializer, columns in the depth.
CONTRAST = {
    "judge": "contrast",
    "cells": [[A | {"depth": 10}, A | {"depth": 20}], [B | {"depth": 10}, B | {"depth": 20}]],
}


def contrast(*seeds, **options):
    """Judge the four cells of each seed, row by row."""
    records = [
        trial(name, seed, depth=depth, outcome=outcome)
        for seed, cells in enumerate(seeds)
        for (name, depth), outcome in zip([("a", 10), ("a", 20), ("b", 10), ("b", 20)], cells, strict=True)
    ]
    return judged(records, **CONTRAST | options)


FIRST = (0.1, 0.2, 0.4, 0.5)  # main effects 0.3 and 0.1
SECOND = (0.1, 0.4, 0.2, 0.5)  # 0.1 and 0.3
FALLING = (0.5, 0.6, 0.1, 0.2)  # 0.4, of the other sign, and 0.1


@pytest.mark.parametrize(
    ("seeds", "options", "expected"),
    [
        ([FIRST] * 5, {}, "held"),
        ([FIRST] * 4 + [SECOND], {}, "undecided"),
        ([FIRST] * 4 + [SECOND], {"held_at": 0.8}, "held"),
        ([FIRST] * 2 + [SECOND] * 3, {}, "undecided"),
        ([FIRST] + [SECOND] * 4, {}, "did not hold"),
        ([FALLING] * 5, {"factor": 3.9}, "held"),
        ([FIRST] * 5, {"factor": 2.9}, "held"),
        ([FIRST] * 5, {"factor": 3.1}, "undecided"),
    ],
)
def test_the_first_effect_exceeds_the_second(seeds, options, expected):
    assert contrast(*seeds, **options).status == expected


def test_both_effects_are_told():
    (group,) = contrast(*[FIRST] * 5).groups
    assert (group.estimate.value, group.against.value) == pytest.approx((0.3, 0.1))


def test_a_row_that_diverges_is_infinitely_far_and_does_not_tell_columns_apart():
    assert contrast(*[(0.1, 0.2, None, None)] * 5).status == "held"
    assert contrast(*[(0.1, 0.2, 0.3, None)] * 5).status == "undecided"


# A measurement against the outcome, with and without treatments at chance.
CORRELATION = {"judge": "correlation", "of": {"architecture": "plain"}, "each": ["depth"], "at_least": 0.5}


def starts(seeds=3, of_c=(0.9, 0.9, 0.9)):
    """Return three starts that train, in the order of their quotients, and one at chance with the smallest.

    Those of c may be another at each depth.
    """
    starts = {"a": (0.2, 0.1), "b": (0.5, 0.2), "c": (None, 0.3), "d": (0.1, 0.88)}
    return [
        trial(name, seed, depth=depth, outcome=outcome + 0.001 * seed, quotient=quotient or own)
        for depth, own in zip((10, 20, 30), of_c, strict=True)
        for name, (quotient, outcome) in starts.items()
        for seed in range(seeds)
    ]


def correlated(records, seeds, **options):
    """Judge whether the quotient predicts the outcome of the starts that train."""
    return judged(records, seeds=seeds, **CORRELATION | QUOTIENT | {"trained_only": True} | options)


@pytest.mark.parametrize(
    ("run", "of", "expected", "lacks"),
    [
        (3, 3, "held", ""),
        (5, 3, "held", ""),
        (1, 5, "undecided", "1 of 5 seeds have a result"),
        (4, 5, "undecided", "4 of 5 seeds have a result"),
        (2, 2, "undecided", "at least 3 seeds are needed"),
    ],
)
def test_a_correlation_is_judged_at_the_suites_seeds(run, of, expected, lacks):
    # ρ = 1, 1 and 0.5: an interval of 0.12 to 1.
    found = correlated(starts(run, of_c=(0.9, 0.9, 0.3)), of, at_least=0.1)
    assert (found.status, found.lacks) == (expected, lacks)


def test_a_failed_trial_leaves_its_treatment_in_the_correlation():
    records = starts(4, of_c=(0.9, 0.9, 0.3))
    lost = next(i for i, r in enumerate(records) if r.spec["architecture"]["arguments"]["depth"] == 30)
    records[lost] = failed(records[lost])
    found = correlated(records, 3, at_least=0.1)
    assert (found.status, found.lacks) == ("held", "")
    assert found.groups[0].estimate.value == pytest.approx((1 + 1 + 0.5) / 3)
    assert correlated(records, 4, at_least=0.1).lacks == "3 of 4 seeds have a result"


def test_a_treatment_without_any_result_leaves_a_correlation_open():
    records = [failed(r) if r.spec["initializer"]["name"] == "c" else r for r in starts()]
    assert correlated(records, 3).lacks == "0 of 3 seeds have a result"
    found = correlated([failed(r) for r in starts()], 3)
    assert (found.status, found.lacks) == ("undecided", "no trial has probe.gradient_quotient")


def test_a_start_whose_quotient_overflowed_has_the_largest():
    records = [overflowed(r) if r.spec["initializer"]["name"] == "a" else r for r in starts()]
    # The outcomes rise from a to c, the quotients from b and c to a.
    assert correlated(records, 3).groups[0].estimate.value == pytest.approx(-0.5)


@pytest.mark.parametrize("trained_only", [False, True])
def test_two_treatments_tell_no_correlation(trained_only):
    names = {True: "abd", False: "ab"}[trained_only]  # d is at chance
    found = correlated([r for r in starts() if r.spec["initializer"]["name"] in names], 3, trained_only=trained_only)
    assert (found.status, found.groups) == ("undecided", ())
    assert found.lacks == "at least 3 workloads with 3 treatments each are needed"


@pytest.mark.parametrize(("trained_only", "value"), [(True, 1.0), (False, -0.2)])
def test_treatments_at_chance_may_be_left_out(trained_only, value):
    found = correlated(starts(), 3, trained_only=trained_only)
    assert found.groups[0].estimate.value == pytest.approx(value)


def test_it_may_be_over_the_best_of_a_grid():
    # At the other rate the order of the starts is the reverse, and all are worse.
    worse = [
        trial(name, seed, depth=depth, outcome=outcome, quotient=quotient, lr=1.0)
        for depth in (10, 20, 30)
        for name, quotient, outcome in (("a", 0.2, 0.7), ("b", 0.5, 0.6), ("c", 0.9, 0.5), ("d", 0.1, 0.89))
        for seed in range(3)
    ]
    found = correlated(starts() + worse, 3, best_over="recipe.lr")
    assert found.groups[0].estimate.value == pytest.approx(1.0)


def test_claims_of_another_list_are_judged_by_the_same_trials():
    evidence = evidence_of(results_of(cell("a", [0.1] * 5)))
    elsewhere = [claim_of(BELOW, name="of-them"), claim_of(BELOW | {"of": B}, name="of-others")]
    assert [one.status for one in judge_claims(evidence, elsewhere, 5)] == ["held", "not run"]


# What refutes a claim, apart from what upholds it.
UPHELD = {"judge": "within", "of": A, "at_most": 0.2}
REFUTED = {"judge": "within", "of": A, "at_least": 0.4}


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [([0.1] * 5, "held"), ([0.1] * 4 + [0.3], "undecided"), ([0.3] * 5, "undecided"), ([0.5] * 5, "did not hold")],
)
def test_what_is_not_upheld_is_not_refuted(outcomes, expected):
    assert verdict_of(cell("a", outcomes), claim_of(UPHELD, refuted_by=[REFUTED])).status == expected


def test_one_of_several_refutes():
    claim = claim_of(UPHELD, refuted_by=[REFUTED | {"at_least": 0.6}, REFUTED])
    verdict = verdict_of(cell("a", [0.5] * 5), claim)
    assert verdict.status == "did not hold"
    assert [one.status for one in verdict.refutations] == ["did not hold", "held"]


def test_criteria_that_contradict_each_other_decide_nothing():
    verdict = verdict_of(cell("a", [0.1] * 5), claim_of(UPHELD, refuted_by=[UPHELD | {"at_most": 0.3}]))
    assert verdict.status == "undecided"
    assert verdict.lacks == "criteria and refuted_by contradict each other: both are met"


def test_a_refutation_that_is_not_run_leaves_it_open():
    verdict = verdict_of(cell("a", [0.1] * 5), claim_of(UPHELD, refuted_by=[REFUTED | {"of": B}]))
    assert (verdict.status, verdict.lacks) == ("undecided", "what would refute it has not been judged")


def test_a_criterion_that_is_not_run_does_not_hide_a_refutation():
    claim = claim_of(UPHELD | {"of": B}, refuted_by=[REFUTED])
    assert verdict_of(cell("a", [0.5] * 5), claim).status == "did not hold"
    assert verdict_of(cell("a", [0.3] * 5), claim).status == "not run"
