"""Claims: criteria against cases judged by hand, how often their tests hold what is false, and what the page says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from claimed import claim_of, trial
from ledgers import R_SQUARED
from planted import planted
from pydantic import TypeAdapter

from initbench.claims.claim import Published
from initbench.claims.criteria import AnyCriterion
from initbench.claims.evidence import Group
from initbench.claims.judge import judge, judge_claims, judge_correlations
from initbench.reporting.questions.claims import claims, evidence_of
from initbench.reporting.questions.published import published
from initbench.reporting.resolved import Stated
from initbench.reporting.results import Results
from initbench.reporting.source import Source

A, B = {"initializer": "metainit"}, {"initializer": "kaiming"}
DIVERGED = math.inf
ORDERING = {"judge": "ordering", "lower": A, "higher": B}
EQUALITY = {"judge": "equality", "between": [A, B], "within": 0.02}
FACTOR = {"judge": "equality", "between": [A, B]}
DIFFERENCE = {"judge": "difference", "between": [A, B], "by": 0.02}
LEAD = {"judge": "lead", "lower": A, "higher": B}
NOT_WORSE = {"judge": "not_worse", "of": A, "than": B, "within": 0.01}
TRAINS = {"judge": "trains", "of": A, "at_most": 0.45}
AT_CHANCE = {"judge": "at_chance", "of": A}
WITHIN = {"judge": "within", "of": A, "at_least": 0.995, "at_most": 1.005}


def criterion(**fields):
    return TypeAdapter(AnyCriterion).validate_python(fields)


def group(*sides, chance=None, metric=None):
    values = tuple(np.array(side, dtype=float) for side in sides)
    at_chance = tuple(np.zeros(len(side)) for side in sides) if chance is None else (np.array(chance, dtype=float),)
    seeds = tuple(range(len(sides[0])))
    return Group(label="", seeds=seeds, sides=values, at_chance=at_chance, metric=metric)


def status(fields, *sides, chance=None, metric=None):
    return judge(criterion(**fields), group(*sides, chance=chance, metric=metric)).status


# What was measured at five seeds, and what that comes to by the rules that the criteria state.
CASES = [
    ("lower at 5 of 5", ORDERING, [[0.1] * 5, [0.2, 0.2, 0.2, 0.2, 0.11]], "held"),
    ("lower at 4 of 5", ORDERING, [[0.1] * 5, [0.2, 0.2, 0.2, 0.2, 0.1]], "undecided"),
    ("higher at 3 of 5", ORDERING, [[0.3, 0.3, 0.3, 0.1, 0.1], [0.2] * 5], "undecided"),
    ("higher at 4 of 5", ORDERING, [[0.3, 0.3, 0.3, 0.3, 0.1], [0.2] * 5], "did not hold"),
    ("the other diverged", ORDERING, [[0.9] * 5, [DIVERGED] * 5], "held"),
    ("both diverged at one seed", ORDERING, [[0.1] * 4 + [DIVERGED], [0.2] * 4 + [DIVERGED]], "undecided"),
    ("by 15 points, as asked", ORDERING | {"by": 0.15}, [[0.1] * 5, [0.26] * 5], "held"),
    ("by 15 points at one of 5", ORDERING | {"by": 0.15}, [[0.1] * 5, [0.26, 0.2, 0.2, 0.2, 0.2]], "did not hold"),
    ("five times as large", ORDERING | {"factor": 5.0}, [[1.0] * 5, [5.1] * 5], "held"),
    ("twice as large", ORDERING | {"factor": 5.0}, [[1.0] * 5, [2.0] * 5], "did not hold"),
    # Differences 0.05, 0.06, 0.07: mean 0.06, s 0.01, t(2, 97.5 %) = 4.303: ± 0.0248.
    ("a lead above 0.03", LEAD | {"by": 0.03}, [[0.0] * 3, [0.05, 0.06, 0.07]], "held"),
    ("a lead not told from 0.04", LEAD | {"by": 0.04}, [[0.0] * 3, [0.05, 0.06, 0.07]], "undecided"),
    ("a lead below 0.09", LEAD | {"by": 0.09}, [[0.0] * 3, [0.05, 0.06, 0.07]], "did not hold"),
    # Where both diverged the difference is unknown and not 0, which would lower the mean.
    (
        "a lead, both diverged at one seed",
        LEAD,
        [[0.0] * 4 + [DIVERGED], [0.05, 0.06, 0.07, 0.06, DIVERGED]],
        "undecided",
    ),
    # 90 % interval of these: t(2, 95 %) = 2.920, 0.06 ± 0.0169.
    ("equal within 0.08", EQUALITY | {"within": 0.08}, [[0.0] * 3, [0.05, 0.06, 0.07]], "held"),
    ("equal within 0.07", EQUALITY | {"within": 0.07}, [[0.0] * 3, [0.05, 0.06, 0.07]], "undecided"),
    ("not within 0.03", EQUALITY | {"within": 0.03}, [[0.0] * 3, [0.05, 0.06, 0.07]], "did not hold"),
    ("bitwise equal", EQUALITY, [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]], "held"),
    # Of logarithms: ln 1.05, ln 1.06 and ln 1.07 are 0.0583 ± 0.0159 (90 %) and ± 0.0235 (95 %).
    ("equal within a factor of 1.1", FACTOR | {"within_factor": 1.1}, [[1.05, 1.06, 1.07], [1.0] * 3], "held"),
    ("equal within a factor of 1.07", FACTOR | {"within_factor": 1.07}, [[1.05, 1.06, 1.07], [1.0] * 3], "undecided"),
    ("not within a factor of 1.02", FACTOR | {"within_factor": 1.02}, [[1.05, 1.06, 1.07], [1.0] * 3], "did not hold"),
    ("different by more than 0.02", DIFFERENCE, [[0.0] * 3, [0.05, 0.06, 0.07]], "held"),
    ("and in the other direction", DIFFERENCE, [[0.05, 0.06, 0.07], [0.0] * 3], "held"),
    ("different by 0.06 or so", DIFFERENCE | {"by": 0.06}, [[0.0] * 3, [0.05, 0.06, 0.07]], "undecided"),
    ("different by less than 0.08", DIFFERENCE | {"by": 0.08}, [[0.0] * 3, [0.05, 0.06, 0.07]], "did not hold"),
    ("not different", DIFFERENCE, [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]], "did not hold"),
    ("one diverged, so that nothing is known", DIFFERENCE, [[0.1, 0.2, DIVERGED], [0.1, 0.2, 0.3]], "undecided"),
    ("one diverged", EQUALITY, [[0.1, 0.2, DIVERGED], [0.1, 0.2, 0.3]], "undecided"),
    ("equal, both diverged at one seed", EQUALITY, [[0.1, 0.2, 0.3, DIVERGED]] * 2, "undecided"),
    ("not different, both diverged at one seed", DIFFERENCE, [[0.1, 0.2, 0.3, DIVERGED]] * 2, "undecided"),
    (
        "no worse, both diverged at one seed",
        NOT_WORSE,
        [[0.1, 0.2, 0.3, DIVERGED], [0.15, 0.27, 0.36, DIVERGED]],
        "undecided",
    ),
    ("worse by 0.06 ± 0.017", NOT_WORSE | {"within": 0.08}, [[0.05, 0.06, 0.07], [0.0] * 3], "held"),
    ("worse than allowed", NOT_WORSE | {"within": 0.03}, [[0.05, 0.06, 0.07], [0.0] * 3], "did not hold"),
    ("much better", NOT_WORSE, [[0.0] * 3, [0.05, 0.06, 0.07]], "held"),
    ("bitwise equal, so no worse", NOT_WORSE, [[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]], "held"),
    ("better by the same at every seed", NOT_WORSE, [[0.0] * 3, [0.5] * 3], "held"),
    ("worse by the same at every seed", NOT_WORSE, [[0.5] * 3, [0.0] * 3], "did not hold"),
    ("outside at 2 of 5", WITHIN, [[1.0, 1.0, 1.0, 0.9, 0.9]], "undecided"),
    ("outside at 3 of 5", WITHIN, [[1.0, 1.0, 0.9, 0.9, 0.9]], "did not hold"),
    ("inside at all", WITHIN, [[1.0, 0.996, 1.004, 1.0, 1.0]], "held"),
    ("inside at both of two", WITHIN, [[1.0, 1.0]], "undecided"),
]


@pytest.mark.parametrize(("fields", "sides", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_criterion_is_judged_as_by_hand(fields, sides, expected):
    assert status(fields, *sides) == expected


@pytest.mark.parametrize(
    ("values", "chance", "trains", "at_chance"),
    [
        ([0.1] * 5, [0] * 5, "held", "did not hold"),
        ([0.1] * 4 + [0.5], [0] * 5, "undecided", "did not hold"),
        ([0.9] * 5, [1] * 5, "did not hold", "held"),
        ([0.1] * 3 + [0.9] * 2, [0] * 3 + [1] * 2, "undecided", "did not hold"),
        ([0.1] * 2 + [0.9] * 2 + [DIVERGED], [0] * 2 + [1] * 3, "did not hold", "did not hold"),
        ([0.9] * 4 + [0.8], [1] * 4 + [0], "did not hold", "did not hold"),
    ],
)
def test_training_and_chance_are_two_questions(values, chance, trains, at_chance):
    assert status(TRAINS, values, chance=chance) == trains
    assert status(AT_CHANCE, values, chance=chance) == at_chance


def test_at_chance_may_ask_for_more_before_it_is_refuted():
    lenient = AT_CHANCE | {"unless_below": 0.8, "refuted_at": 0.8}
    assert status(lenient, [0.85] * 5, chance=[0] * 5) == "undecided"
    assert status(lenient, [0.7] * 4 + [0.9], chance=[0] * 4 + [1]) == "did not hold"
    assert status(lenient, [0.1] * 5, chance=[0] * 5, metric=R_SQUARED) == "undecided"  # lower is worse


def test_a_lead_may_be_compared_with_another():
    fields = LEAD | {"beyond": {"lower": A, "higher": B}}
    far, near = [[0.0] * 3, [0.3, 0.31, 0.32]], [[0.0] * 3, [0.1, 0.1, 0.11]]
    assert status(fields, *far, *near) == "held"
    assert status(fields, *near, *far) == "did not hold"


def test_a_ratio_that_no_number_holds_is_infinite():
    values = [1e300, 2e300, 5e300], [1e-300, 1e-300, 3e-300]
    found = judge(criterion(**FACTOR, within_factor=1.1), group(*values))
    assert found.status == "did not hold"
    assert found.estimate.value == math.inf


def test_correlations_over_networks():
    assert judge_correlations(np.array([0.8, 0.9, 0.85, 0.8]), 0.5).status == "held"
    assert judge_correlations(np.array([0.1, 0.0, -0.1, 0.05]), 0.5).status == "did not hold"
    assert judge_correlations(np.array([0.9, 0.0, 0.5, 0.4]), 0.5).status == "undecided"
    wide = judge_correlations(np.array([1.0, 1.0, -0.2]), 0.5).estimate
    assert (wide.value, wide.high) == (pytest.approx(0.6), 1)  # Student's interval would reach to 2.3


WORLDS = 4000


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 8])
@pytest.mark.parametrize(
    ("fields", "level"), [(LEAD, 0.025), (EQUALITY | {"within": 1.0}, 0.05), (NOT_WORSE | {"within": 1.0}, 0.05)]
)
def test_a_test_holds_what_is_false_at_its_level(fields, level, seeds):
    """Normal outcomes at the edge of the claim: equal ones, or where 1 is allowed one that is 1 more."""
    draws = np.random.default_rng(7)
    edge = 1.0 if "within" in fields else 0.0
    criterion_ = criterion(**fields)
    held = sum(
        judge(criterion_, group(draws.normal(edge, 0.2, seeds), draws.normal(0.0, 0.2, seeds))).status == "held"
        for _ in range(WORLDS)
    )
    error = math.sqrt(level * (1 - level) / WORLDS)
    assert held / WORLDS == pytest.approx(level, abs=3 * error)


def results_of(outcomes, claim=None, numbers=None, seeds=5, **options):
    stated = Stated(() if claim is None else tuple(claim), numbers, seeds)
    return Results(Source(planted(outcomes, **options), stated=(stated,)))


DIGITS = {"digits": {"metainit": [0.1, 0.12, 0.11, 0.1, 0.13], "kaiming": [0.2, 0.25, 0.3, 0.21, None]}}


def test_a_claim_is_judged_by_the_trials_of_its_suite():
    found = claims(results_of(DIGITS, [claim_of(ORDERING, TRAINS)]))
    (verdict,) = found.facts
    assert [one.status for one in verdict.criteria] == ["held", "held"]
    assert verdict.status == "held"
    assert str(found.sentences[0]) == "Of 1 claim, 1 held."


def test_one_criterion_that_is_refuted_refutes_the_claim():
    (verdict,) = claims(results_of(DIGITS, [claim_of(ORDERING, AT_CHANCE)])).facts
    assert verdict.status == "did not hold"


def test_nothing_is_judged_before_all_seeds_are_there():
    (verdict,) = claims(results_of(DIGITS, [claim_of(ORDERING)], seeds=8)).facts
    assert verdict.status == "undecided"
    assert verdict.criteria[0].lacks == "5 of 8 seeds have a result"


@pytest.mark.parametrize(
    "absent", [ORDERING | {"lower": {"initializer": "lsuv"}}, TRAINS | {"of": {"initializer": "lsuv"}}]
)
def test_a_side_without_trials_is_not_run(absent):
    (verdict,) = claims(results_of(DIGITS, [claim_of(absent)])).facts
    assert verdict.status == "not run"


def test_a_measure_that_is_no_number_says_so():
    (verdict,) = claims(results_of(DIGITS, [claim_of(ORDERING | {"measure": "architecture"})])).facts
    assert verdict.status == "undecided"
    assert verdict.criteria[0].lacks == "architecture is not a number"


def test_each_value_has_to_hold_by_itself():
    outcomes = {"wrn": DIGITS["digits"], "plain": {"metainit": [0.5] * 5, "kaiming": [0.4] * 5}}
    evidence = evidence_of(results_of(outcomes))
    one_by_one, pooled = claim_of(ORDERING | {"each": ["architecture"]}), claim_of(ORDERING)
    (verdict,) = judge_claims(evidence, [one_by_one], 5)
    assert {group.label: group.status for group in verdict.criteria[0].groups} == {
        "wrn": "held",
        "plain": "did not hold",
    }
    assert verdict.status == "did not hold"
    (verdict,) = judge_claims(evidence, [pooled], 5)
    assert verdict.status == "undecided"
    assert (
        verdict.criteria[0].lacks == "selects several trials at seed 0, which differ in architecture ('plain', 'wrn')"
    )


def test_published_beside_measured():
    numbers = Published.model_validate(
        {
            "source": "a paper",
            "numbers": [
                {"what": "metainit", "where": "Table 1", "value": 0.1, "spread": 0.01, "n": 4, "of": A,
                 "spread_is": "standard_error"},
                {"what": "kaiming", "where": "Table 1", "value": 0.2, "of": B},
            ],
        }
    )  # fmt: skip
    outcomes = {"digits": {"metainit": [0.1, 0.12, 0.11, 0.1, 0.13], "kaiming": [0.2, 0.25, 0.3, 0.21, 0.2]}}
    table = published(results_of(outcomes, numbers=numbers)).tables[0].frame
    measured = np.array(outcomes["digits"]["metainit"])
    combined = math.hypot(0.01, measured.std(ddof=1) / math.sqrt(5))
    assert table["measured"][0] == pytest.approx(measured.mean())
    assert table["in_spreads"][0] == pytest.approx((measured.mean() - 0.1) / combined)
    assert math.isnan(table["in_spreads"][1])  # the paper prints no spread
    other = numbers.model_copy(update={"differs": "Digits are not CIFAR-10."})
    assert math.isnan(published(results_of(outcomes, numbers=other)).tables[0].frame["difference"][0])


def test_a_published_number_that_nothing_measures_says_so():
    number = {"what": "metainit", "where": "Table 1", "value": 0.9, "of": A, "measure": "test_accuracy"}
    paper = Published.model_validate({"source": "a paper", "numbers": [number]})
    found = published(results_of(DIGITS, numbers=paper))
    assert found.remarks == ["metainit: no trial has test_accuracy."]
    assert math.isnan(found.tables[0].frame["measured"][0])


WIDER = {
    "judge": "lead",
    "lower": A | {"depth": 2},
    "higher": B | {"depth": 2},
    "beyond": {"lower": A | {"depth": 1}, "higher": B | {"depth": 1}},
}
WORDS = [
    (ORDERING | {"by": 0.15}, "At every seed metainit has a lower test error than kaiming by more than 15.00 points"),
    (EQUALITY, "metainit and kaiming have the same test error within 2.00 points"),
    (FACTOR | {"within_factor": 1.2}, "metainit and kaiming have the same test error within a factor of 1.2"),
    (NOT_WORSE, "metainit is worse than kaiming by no more than 1.00 points of test error"),
    (TRAINS, "metainit trains: test error of at most 45.00\N{NO-BREAK SPACE}% at every seed"),
    (AT_CHANCE, "metainit is at chance at every seed"),
    (AT_CHANCE | {"held_at": "any"}, "metainit is at chance at one seed or more"),
    (ORDERING | {"held_at": 0.8}, "At 80 % of the seeds or more metainit has a lower test error than kaiming"),
    (
        AT_CHANCE | {"each": ["architecture"], "groups": 2},
        "metainit is at chance at every seed, for at least 2 of the values of architecture",
    ),
    (AT_CHANCE | {"best_over": "recipe.lr"}, "metainit is at chance at every seed, each at its best learning rate"),
    (AT_CHANCE | {"protocol": "recipe"}, "metainit is at chance at every seed, at the recipe's settings"),
    (
        EQUALITY | {"protocol": "shared"},
        "metainit and kaiming have the same test error within 2.00 points, at the best shared settings",
    ),
    (
        LEAD | {"protocol": "own"},
        "On average metainit has a lower test error than kaiming, each at its own best settings",
    ),
    (
        AT_CHANCE | {"of": {"initializer": ["kaiming", "xavier", "lsuv"]}, "each": ["initializer"]},
        "kaiming, xavier or lsuv is at chance at every seed, for each of the values of initializer",
    ),
    (
        {
            "judge": "layers",
            "of": A,
            "measure": "probe.parameter_norm",
            "at_least": 0.5,
            "layers": "conv",
            "share": 0.9,
        },
        "At every seed the parameter norm of metainit is at least 0.5 in at least 90 % of the layers named like “conv”",
    ),
    (
        {"judge": "layers", "of": A, "measure": "probe.signal_by_depth[batch_size=4].skip_deviation", "at_least": 0.5},
        "At every seed the skip deviation (signal by depth[batch size=4]) of metainit is at least 0.5 in every layer",
    ),
    (
        {"judge": "layers", "of": A, "measure": "probe.gradient_deviation[eps=0.01].per_layer", "at_least": 0.5},
        "At every seed the gradient deviation[eps=0.01] of metainit is at least 0.5 in every layer",
    ),
    (
        {"judge": "layers", "of": A, "against": B, "measure": "initialization.scale", "at_most": 2.0},
        "At every seed the factor of scaling of metainit is at most 2 times that of kaiming in every layer",
    ),
    (
        {"judge": "layer_distance", "of": A, "reference": B, "measure": "probe.parameter_norm", "at_most": 0.1},
        (
            "At every seed the parameter norm of each layer of metainit is near that of kaiming: "
            "the mean of |ln ratio| is at most 0.1"
        ),
    ),
    (
        {"judge": "rate_ratio", "of": A, "at_most": 0.5},
        "At every seed the best learning rate of metainit, divided by the largest stable one, is at most 0.5",
    ),
    (
        {"judge": "rate_ratio", "of": A | {"depth": 1}, "against": B | {"depth": 1}, "at_most": 2.0},
        (
            "At every seed the best learning rate over the largest stable one of metainit, divided by that of kaiming, "
            "is at most 2, with depth 1"
        ),
    ),
    (
        {"judge": "correlation", "measure": "probe.gradient_quotient", "of": A, "each": ["dataset"], "at_least": 0.5},
        (
            "gradient quotient and the outcome have a rank correlation above 0.5 over metainit, "
            "on average over the values of dataset"
        ),
    ),
    (LEAD, "On average metainit has a lower test error than kaiming"),
    (LEAD | {"by": 0.01}, "On average metainit has a lower test error than kaiming by more than 1.00 points"),
    (LEAD | {"by": -0.01}, "On average the test error of metainit is at most 1.00 points above that of kaiming"),
    (
        WIDER,
        (
            "On average metainit has a lower test error than kaiming, with depth 2, by more than metainit leads "
            "kaiming, with depth 1"
        ),
    ),
    (
        WIDER | {"by": 0.01},
        (
            "On average the lead of metainit over kaiming in test error, with depth 2, is at least 1.00 points larger "
            "than that of metainit over kaiming, with depth 1"
        ),
    ),
    (
        WIDER | {"by": -0.01},
        (
            "On average the lead of metainit over kaiming in test error, with depth 2, is at most 1.00 points smaller "
            "than that of metainit over kaiming, with depth 1"
        ),
    ),
    (
        LEAD | {"by": 0.01, "beyond": {"lower": {"depth": 1}, "higher": {"depth": 2}}},
        (
            "On average the lead of metainit over kaiming in test error is at least 1.00 points larger than that of "
            "depth 1 over depth 2"
        ),
    ),
    (DIFFERENCE, "metainit and kaiming differ in test error by more than 2.00 points"),
    (
        {"judge": "rate_ratio", "of": A, "rises_with": "recipe.batch_size"},
        (
            "The best learning rate of metainit, divided by the largest stable one, rises with batch size: a rank "
            "correlation of at least 0.8"
        ),
    ),
    (
        {"judge": "contrast", "cells": [[A | {"depth": 1}, A | {"depth": 2}], [B | {"depth": 1}, B | {"depth": 2}]]},
        "At every seed metainit against kaiming changes test error by more than what depth 1 against depth 2 does",
    ),
]


@pytest.mark.parametrize(("fields", "words"), WORDS, ids=[words for _, words in WORDS])
def test_a_criterion_reads_as_a_sentence(fields, words):
    table = claims(results_of(DIGITS, [claim_of(fields)])).tables[0].frame
    assert table["criterion"][0] == words


def test_the_table_tells_what_would_refute_a_claim_apart():
    claim = claim_of(TRAINS, refuted_by=[AT_CHANCE])
    found = claims(results_of(DIGITS, [claim]))
    table = found.tables[0].frame
    assert list(table["refutes"]) == [False, True]
    assert table["criterion"][1] == "Refuted by: metainit is at chance at every seed"
    assert list(table["status"]) == ["held", "did not hold"]
    assert str(found.sentences[-1]).startswith("What would refute it: did not hold: ")
    assert "chance" not in table


def test_criteria_that_contradict_each_other_are_said_to():
    said = claims(results_of(DIGITS, [claim_of(TRAINS, refuted_by=[ORDERING])])).sentences
    assert str(said[2]) == "criteria and refuted_by contradict each other: both are met."


def measured(records, fields, seeds=5):
    stated = Stated((claim_of(fields),), None, seeds)
    return claims(Results(Source(records, stated=(stated,)))).tables[0].frame["measured"][0]


@pytest.mark.parametrize(
    ("outcomes", "steps", "fields", "words"),
    [
        ([None] * 3, [0, 0, 0], AT_CHANCE, "diverged at step 0, 3 of 3 seeds"),
        ([None] * 3, [4, 0, 9], AT_CHANCE, "diverged at steps 0 to 9, 3 of 3 seeds"),
        ([None] * 3, [None] * 3, AT_CHANCE, "diverged, 3 of 3 seeds"),
        ([None] * 3, [0, 0, 0], TRAINS, "diverged at step 0 at 3 of 3 seeds, met at 0 of 3 seeds"),
        (
            [0.1, None, 0.2, None, 0.3],
            [None, 27, None, 18, None],
            TRAINS,
            "median 30.00 %, 3 of 5 seeds (diverged at steps 18 to 27 at 2 of 5 seeds)",
        ),
        ([0.1, None, None], [None, 5, 5], TRAINS, "diverged at step 5 at 2 of 3 seeds, met at 1 of 3 seeds"),
        ([0.1, 0.2, None], [None, None, 5], LEAD, "no mean, as metainit diverged at step 5 at 1 of 3 seeds"),
        (
            [0.1, 0.1, None],
            [None, None, 5],
            ORDERING,
            "median 10.00 points, 2 of 3 seeds (metainit diverged at step 5 at 1 of 3 seeds)",
        ),
    ],
)
def test_a_trial_that_diverged_is_said_to_at_its_step(outcomes, steps, fields, words):
    each = enumerate(zip(outcomes, steps, strict=True))
    records = [trial("metainit", seed, outcome=own, step=step) for seed, (own, step) in each]
    records += [trial("kaiming", seed, outcome=0.2) for seed in range(len(outcomes))]
    assert measured(records, fields, len(outcomes)).replace("\N{NO-BREAK SPACE}", " ") == words


def test_a_measurement_at_initialization_is_no_matter_of_divergence():
    records = [trial("metainit", seed, outcome=None, quotient=0.5) for seed in range(3)]
    fields = {"judge": "within", "of": A, "measure": "probe.gradient_quotient", "at_most": 1.0}
    assert measured(records, fields, 3) == "0.500, 3 of 3 seeds"


def test_a_factor_is_measured_as_a_ratio():
    found = judge(criterion(**ORDERING, factor=5.0), group([1.0, 2.0, 4.0], [6.0, 10.0, 24.0]))
    assert (found.form, found.estimate.value) == ("factor", pytest.approx(17 / 3))
