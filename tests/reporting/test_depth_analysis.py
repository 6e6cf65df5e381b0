"""How depth changes the outcome: who trains how deep, and where it gets worse, as facts and as sentences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from ledgers import (
    DELTA_1,
    ERROR,
    KAIMING,
    METAINIT,
    PLAIN,
    R_SQUARED,
    WRN,
    make_record,
    make_scored,
    make_spec,
    task_of,
)

from initbench.reporting.questions.depth import depth_profile
from initbench.reporting.records import slim
from initbench.reporting.results import Results
from initbench.reporting.source import Source

TEST = task_of(replace(ERROR, chance=0.9, chance_standard_error=0.001))


def at_depths(initializer, errors, *, task=TEST, architecture=PLAIN):
    """Return a record of each depth: None is a diverged trial."""
    return [
        replace(
            make_record(
                make_spec(initializer, architecture | {"depth": depth}),
                error,
                status="diverged" if error is None else "finished",
            ),
            task=task,
        )
        for depth, error in errors.items()
    ]


def depth_of(*groups):
    return depth_profile(Results(Source([slim(record) for records in groups for record in records])))


def test_who_trains_how_deep_is_told_by_chance():
    found = depth_of(
        at_depths(KAIMING, {10: 0.1, 16: 0.2, 28: 0.9}),
        at_depths(DELTA_1, {10: 0.9, 16: 0.3, 28: 0.3}),
        at_depths(METAINIT, {10: 0.1, 16: 0.11, 28: 0.15}),
    )
    rows = found.facts.reached.set_index("treatment")
    assert rows.loc["kaiming", "deepest_trained"] == 16
    assert rows.loc["kaiming", "first_failure"] == 28
    assert math.isnan(rows.loc["delta_orthogonal", "deepest_trained"])  # it does not begin to
    assert rows.loc["delta_orthogonal", "first_failure"] == 10
    metainit = rows.loc["metainit(delta_orthogonal)"]
    assert metainit["deepest_trained"] == 28
    assert math.isnan(metainit["first_failure"])
    assert str(found.sentences[0]) == "On plain, metainit trains at every depth to 28, delta_orthogonal at none."


def test_what_is_better_than_guessing_but_far_from_the_best_does_not_train_at_that_depth():
    """As the map counts it: 80.1 % is not half of the way from guessing, 90 %, to the best, 2.1 %."""
    found = depth_of(
        at_depths(KAIMING, {10: 0.020, 20: 0.022, 30: 0.801}),
        at_depths(METAINIT, {10: 0.021, 20: 0.020, 30: 0.021}),
    )
    assert str(found.sentences[0]) == "On plain, metainit trains at every depth to 30, kaiming only to 20."


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ({10: 0.1, 16: 0.1}, "metainit trains at every depth to 28, kaiming only to 10"),
        ({10: 0.1, 16: 0.1, 28: 0.1}, "delta_orthogonal and metainit train at every depth to 28, kaiming only to 10"),
    ],
)
def test_a_treatment_that_did_not_run_at_the_largest_depth_is_not_said_to_train_there(errors, words):
    found = depth_of(
        at_depths(KAIMING, {10: 0.1, 16: 0.9, 28: 0.9}),
        at_depths(DELTA_1, errors),
        at_depths(METAINIT, {10: 0.1, 16: 0.11, 28: 0.15}),
    )
    assert str(found.sentences[0]) == f"On plain, {words}."


def test_no_treatment_is_said_to_train_at_every_depth_if_none_ran_where_the_other_fails():
    found = depth_of(
        at_depths(KAIMING, {10: 0.1, 16: 0.1, 28: 0.9}),
        at_depths(DELTA_1, {10: 0.1, 16: 0.1}),
    )
    assert str(found.sentences[0]) == "On plain, no initializer trains at every depth: the best reaches 16."


def test_the_steepest_step_is_where_it_still_trains():
    found = depth_of(
        at_depths(KAIMING, {10: 0.10, 16: 0.30, 28: 0.9}),
        at_depths(METAINIT, {10: 0.10, 16: 0.15, 28: 0.40}),
    )
    text = str(found.sentences[1]).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        text == "The test error worsens most with metainit on plain: from 15.00 % at depth 16 to 40.00 % at depth 28."
    )
    assert list(found.facts.reached["worsening"]) == pytest.approx([0.2, 0.25])


def test_where_nothing_reaches_every_depth():
    found = depth_of(at_depths(KAIMING, {10: 0.1, 16: 0.9}), at_depths(DELTA_1, {10: 0.9, 16: 0.9}))
    assert str(found.sentences[0]) == (
        "On plain, no initializer trains at every depth: the best reaches 10, but delta_orthogonal fails even "
        "at the smallest."
    )
    shallower = depth_of(
        at_depths(KAIMING, {10: 0.1, 16: 0.1, 28: 0.9}), at_depths(DELTA_1, {10: 0.1, 16: 0.9, 28: 0.9})
    )
    assert str(shallower.sentences[0]) == (
        "On plain, no initializer trains at every depth: the best reaches 16, but delta_orthogonal reaches only 10."
    )
    alone = depth_of(at_depths(KAIMING, {10: 0.1, 16: 0.9}))
    assert str(alone.sentences[0]) == "On plain, no initializer trains at every depth: the best reaches 10."
    nothing = depth_of(at_depths(KAIMING, {10: 0.9, 16: 0.9}), at_depths(DELTA_1, {10: 0.9, 16: 0.1}))
    assert str(nothing.sentences[0]) == "On plain, no initializer trains at the smallest depth."


def test_divergence_is_the_steepest_of_all_and_no_step_begins_there():
    found = depth_of(at_depths(KAIMING, {10: 0.1, 16: None, 28: 0.1}), at_depths(METAINIT, {10: 0.1, 16: 0.2, 28: 0.2}))
    row = found.facts.reached.set_index("treatment").loc["kaiming"]
    assert (row["from_depth"], row["to_depth"], row["worsening"]) == (10, 16, math.inf)
    assert "from 10.00\N{NO-BREAK SPACE}% at depth 10 to divergence at depth 16" in str(found.sentences[1])


def test_where_no_depth_is_worse_it_is_said():
    found = depth_of(at_depths(KAIMING, {10: 0.3, 16: 0.2}))
    assert [str(sentence) for sentence in found.sentences] == [
        "The median test error never worsens from one depth to the next."
    ]


def test_where_higher_is_better_worsening_turns():
    task = task_of(R_SQUARED, name="regression")
    records = [
        make_scored(make_spec(KAIMING, PLAIN | {"depth": depth}, task="regression"), task, value)
        for depth, value in ((10, 0.9), (16, 0.5), (28, 0.7))
    ]
    found = depth_of(records)
    [row] = found.facts.reached.to_dict("records")
    assert (row["from_outcome"], row["to_outcome"], row["worsening"]) == (0.9, 0.5, pytest.approx(0.4))
    assert len(found.sentences) == 1  # chance is not known, so nothing is called untrained


def test_each_family_has_its_own_sentence():
    found = depth_of(
        *(at_depths(own, errors) for own, errors in ((KAIMING, {10: 0.1, 16: 0.9}), (METAINIT, {10: 0.1, 16: 0.1}))),
        *(
            at_depths(own, errors, architecture=WRN)
            for own, errors in ((KAIMING, {10: 0.1, 16: 0.1}), (METAINIT, {10: 0.1, 16: 0.9}))
        ),
    )
    assert [str(sentence) for sentence in found.sentences[:2]] == [
        "On plain, metainit trains at every depth to 16, kaiming only to 10.",
        "On wrn, kaiming trains at every depth to 16, metainit only to 10.",
    ]
    assert found.sentences[0].bold == ("plain", "metainit", "kaiming")
    assert found.sentences[1].bold == ("wrn", "kaiming", "metainit")


def test_a_depth_that_is_a_word_is_left_out():
    kaiming = at_depths(KAIMING, {10: 0.1, 16: 0.2})
    depths = depth_of(kaiming, at_depths(KAIMING, {"deep": 0.3})).facts.depths
    assert list(depths["depth"]) == [10, 16]
    assert depth_of(at_depths(KAIMING, {10: 0.1, "deep": 0.3})) is None
