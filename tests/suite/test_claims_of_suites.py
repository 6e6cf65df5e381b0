"""What a suite says of papers: refused where it is wrong, kept for the report, and no part of any trial."""

from __future__ import annotations

from dataclasses import replace

import pytest

from initbench.claims.claim import Claim
from initbench.errors import SuiteError
from initbench.suite.smoke import smoke_suite
from suites import made, plan_of, planned

TWO = {
    "probes": ["gradient_norm"],
    "architectures": [{"name": "mlp", "depth": [2, 3], "width": 8}],
    "initializers": ["kaiming", {"name": "gaussian", "std": [0.01, 0.1]}],
    "seeds": 3,
}
KAIMING, SMALL = {"initializer": "kaiming", "depth": 2}, {"initializer.std": 0.01, "depth": 2}
ORDERING = {"judge": "ordering", "lower": KAIMING, "higher": SMALL}
TRAINS = {"judge": "trains", "of": {"initializer": "kaiming"}}
LAYERS = {"judge": "layers", "of": KAIMING, "measure": "probe.gradient_norm", "at_most": 1.0}
DISTANCE = {
    "judge": "layer_distance",
    "of": KAIMING,
    "reference": SMALL,
    "measure": "probe.gradient_norm",
    "at_most": 0.2,
}
RATIO = {"judge": "rate_ratio", "of": KAIMING, "at_most": 0.5}
CONTRAST = {"judge": "contrast", "cells": [[KAIMING, SMALL], [KAIMING | {"depth": 3}, SMALL | {"depth": 3}]]}
NUMBER = {"what": "kaiming", "where": "Table 1", "value": 0.1, "of": KAIMING}


def claim(*criteria, **fields):
    return {"id": "one", "claim": "It does.", "source": "a paper", "criteria": list(criteria)} | fields


REFUSED = [
    ([claim()], "claims[0].criteria: must not be empty"),
    ([claim(ORDERING, id="A b")], "claims[0].id: String should match pattern"),
    ([claim(ORDERING), claim(ORDERING)], "claims: the claim one is given twice"),
    ([claim(ORDERING | {"judge": "order"})], "judge must be one of ordering, lead, equality"),
    ([claim({"lower": KAIMING})], "claims[0].criteria[0]: judge is required"),
    (
        [claim(ORDERING | {"of": KAIMING})],
        "claims[0].criteria[0].of: is an unknown key (valid: best_over, by, each, factor, groups, held_at, higher, ",
    ),
    ([claim(ORDERING | {"higher": {}})], "claims[0].criteria[0].higher: must not be empty"),
    ([claim(ORDERING | {"factor": 0.5})], "claims[0].criteria[0].factor: must be at least 1, got 0.5"),
    (
        [claim(ORDERING | {"higher": {"initializer": "gausian"}})],
        "claims[0].criteria[0].higher.initializer: no trial has 'gausian' (did you mean 'gaussian'?)",
    ),
    (
        [claim(ORDERING | {"lower": {"initializer": "kaiming"}})],
        "claims[0].criteria[0].lower: selects several trials at one seed, which differ in depth (2, 3)",
    ),
    (
        [claim({"judge": "equality", "between": [KAIMING, {"initializer": "gaussian"}], "within": 0.1})],
        "claims[0].criteria[0].between[1]: selects several trials at one seed",
    ),
    (
        [claim({"judge": "trains", "of": KAIMING, "each": ["dept"]})],
        "claims[0].criteria[0].each[0]: no trial has dept (did you mean 'depth'?)",
    ),
    (
        [claim({"judge": "within", "of": KAIMING, "measure": "probe.a\nb", "at_most": 1.0})],
        "claims[0].criteria[0].measure: the suite has no probe 'a\\nb'",
    ),
    ([claim({"judge": "within", "of": KAIMING})], "claims[0].criteria[0]: needs at_least, at_most or both"),
    (
        [claim({"judge": "at_chance", "of": KAIMING, "measure": "train_error"})],
        "claims[0].criteria[0].measure: only the outcome has a chance level",
    ),
    (
        [claim({"judge": "within", "of": KAIMING, "measure": "probe.gradient_norms", "at_most": 1.0})],
        "claims[0].criteria[0].measure: the suite has no probe gradient_norms (did you mean 'gradient_norm'?)",
    ),
    (
        [claim({"judge": "correlation", "of": KAIMING, "measure": "probe.gradient_quotient", "at_least": 0.5})],
        "claims[0].criteria[0]: needs each",
    ),
    (
        [claim(ORDERING | {"held_at": 1.5})],
        "claims[0].criteria[0].held_at: must be a share of the seeds above 0 and at most 1, or any, got 1.5",
    ),
    ([claim(ORDERING | {"held_at": "some"})], "claims[0].criteria[0].held_at: must be a share of the seeds"),
    ([claim(ORDERING | {"groups": 2})], "claims[0].criteria[0]: groups needs each"),
    ([claim(TRAINS | {"each": ["depth"], "groups": 0})], "claims[0].criteria[0].groups: must be at least 1, got 0"),
    (
        [claim(TRAINS | {"each": ["depth"], "groups": 3})],
        "claims[0].criteria[0].groups: must be at most 2, the number of groups that the key each makes",
    ),
    (
        [claim(ORDERING | {"best_over": "recipe.l"})],
        "claims[0].criteria[0].best_over: no trial has recipe.l (did you mean",
    ),
    (
        [claim(TRAINS | {"of": {"initializer": "gaussian"}, "best_over": "initializer.std"})],
        "claims[0].criteria[0].of: selects several trials at one seed, which differ in depth (2, 3)",
    ),
    (
        [claim(TRAINS | {"each": ["depth"], "best_over": "depth"})],
        "claims[0].criteria[0]: best_over must not be in each",
    ),
    (
        [claim(LAYERS | {"layers": "conv("})],
        "claims[0].criteria[0].layers: is not a regular expression: missing ), unterminated subpattern at position 4",
    ),
    ([claim(LAYERS | {"measure": "outcome"})], "claims[0].criteria[0]: needs measure: values per layer"),
    ([claim(LAYERS | {"at_most": None})], "claims[0].criteria[0]: needs at_least, at_most or both"),
    (
        [claim(LAYERS | {"measure": "probe.gradient_nrm"})],
        "claims[0].criteria[0].measure: the suite has no probe gradient_nrm (did you mean 'gradient_norm'?)",
    ),
    (
        [claim(LAYERS | {"against": {"initializer": "gausian"}})],
        "claims[0].criteria[0].against.initializer: no trial has 'gausian'",
    ),
    (
        [claim(TRAINS | {"of": KAIMING, "measure": "initialization.scale"})],
        "claims[0].criteria[0].measure: is a value for each tensor; judge layers or layer_distance takes these",
    ),
    (
        [claim(DISTANCE | {"refuted_above": 0.1})],
        "claims[0].criteria[0]: refuted_above must be at least at_most, 0.2, got 0.1",
    ),
    ([claim(RATIO)], "claims[0].criteria[0].of: the trials have one value of recipe.lr; a ratio needs several"),
    ([claim(RATIO | {"rate": "recipe.rate"})], "claims[0].criteria[0].rate: no trial has recipe.rate (did you mean"),
    (
        [claim(RATIO | {"at_most": None, "rises_with": "recipe.batch"})],
        "claims[0].criteria[0].rises_with: no trial has recipe.batch (did you mean",
    ),
    ([claim(RATIO | {"at_most": None})], "claims[0].criteria[0]: needs at_least, at_most or rises_with"),
    (
        [claim(RATIO | {"at_most": None, "rises_with": "depth", "against": {"initializer": "kaiming"}})],
        "claims[0].criteria[0]: takes either rises_with or against",
    ),
    ([claim(RATIO | {"rises_with": "depth"})], "claims[0].criteria[0]: rises_with replaces bounds"),
    ([claim(CONTRAST | {"cells": [[KAIMING, SMALL]]})], "claims[0].criteria[0].cells: "),
    ([claim(CONTRAST | {"factor": 0.5})], "claims[0].criteria[0].factor: must be at least 1, got 0.5"),
    (
        [claim(CONTRAST | {"cells": [[KAIMING, SMALL], [KAIMING, {"initializer": "gausian"}]]})],
        "claims[0].criteria[0].cells[1][1].initializer: no trial has 'gausian'",
    ),
    (
        [claim(ORDERING, refuted_by=[ORDERING | {"higher": {"initializer": "gausian"}}])],
        "claims[0].refuted_by[0].higher.initializer: no trial has 'gausian'",
    ),
    ([claim(ORDERING, refuted_by=[ORDERING | {"than": 3}])], "claims[0].refuted_by[0].than: is an unknown key"),
]


@pytest.mark.parametrize(("claims", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_wrong_is_said_in_one_line_with_its_key(claims, message):
    with pytest.raises(SuiteError) as caught:
        planned(**TWO, claims=claims)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_published_number_is_of_one_trial_at_a_seed():
    published = {"source": "a paper", "numbers": [NUMBER | {"of": {"initializer": "kaiming"}}]}
    with pytest.raises(SuiteError, match=r"published.numbers\[0\].of: selects several trials at one seed"):
        planned(**TWO, published=published)


def test_each_makes_one_trial_of_several():
    planned(**TWO, claims=[claim({"judge": "trains", "of": {"initializer": "kaiming"}, "each": ["depth"]})])


def test_a_grid_makes_one_trial_of_several_at_its_best():
    crossed = TWO | {"recipe": {"lr": [0.1, 1.0], "batch_size": [8, 16, 64]}}
    one = KAIMING | {"recipe.batch_size": 8}
    sides = {"lower": one, "higher": SMALL | {"recipe.batch_size": 8}}
    planned(**crossed, claims=[claim(ORDERING | sides | {"best_over": "recipe.lr"})])
    planned(
        **crossed, claims=[claim(RATIO | {"of": one}, RATIO | {"at_most": None, "rises_with": "recipe.batch_size"})]
    )
    with pytest.raises(SuiteError, match=r"lower: selects several trials at one seed, which differ in recipe.lr"):
        planned(**crossed, claims=[claim(ORDERING | sides)])
    with pytest.raises(SuiteError, match=r"lower: selects several .* which differ in recipe.batch_size"):
        planned(**crossed, claims=[claim(ORDERING | {"best_over": "recipe.lr"})])
    with pytest.raises(SuiteError, match=r"of: selects several .* which differ in recipe.batch_size"):
        planned(**crossed, claims=[claim(RATIO)])


def test_a_rate_that_is_tuned_has_several_values_in_a_smoke_run_too():
    suite = made(**TWO, tune={"recipe.lr": [0.1, 1.0]}, claims=[claim(RATIO)])
    plan_of(suite)
    plan_of(replace(suite, search=None))  # as --smoke plans it


def test_new_kinds_of_criteria_are_planned_and_kept():
    suite = made(**TWO, claims=[claim(LAYERS, DISTANCE, CONTRAST, refuted_by=[TRAINS | {"of": KAIMING}])])
    planned(**TWO, claims=[claim(LAYERS, DISTANCE, CONTRAST, refuted_by=[TRAINS | {"of": KAIMING}])])
    (kept,) = suite.resolved()["claims"]
    assert [one["judge"] for one in kept["criteria"]] == ["layers", "layer_distance", "contrast"]
    assert Claim.model_validate(kept) == suite.claims[0]


def test_claims_change_no_trial():
    ids = [trial.id for trial in planned(**TWO).trials]
    published = {"source": "a paper", "numbers": [NUMBER]}
    assert [trial.id for trial in planned(**TWO, claims=[claim(ORDERING)], published=published).trials] == ids


def test_the_folder_of_a_suite_says_what_it_claims_and_that_of_a_smoke_run_does_not():
    suite = made(**TWO, claims=[claim(ORDERING)])
    assert suite.resolved()["claims"][0]["criteria"][0]["lower"] == KAIMING
    assert suite.resolved()["seeds"] == 3
    assert "claims" not in smoke_suite(suite).resolved()
