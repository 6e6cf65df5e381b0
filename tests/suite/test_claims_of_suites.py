"""What a suite says of papers: refused where it is wrong, kept for the report, and no part of any trial."""

from __future__ import annotations

import pytest

from initbench.errors import SuiteError
from initbench.suite.smoke import smoke_suite
from suites import made, planned

TWO = {
    "probes": ["gradient_norm"],
    "architectures": [{"name": "mlp", "depth": [2, 3], "width": 8}],
    "initializers": ["kaiming", {"name": "gaussian", "std": [0.01, 0.1]}],
    "seeds": 3,
}
KAIMING, SMALL = {"initializer": "kaiming", "depth": 2}, {"initializer.std": 0.01, "depth": 2}
ORDERING = {"judge": "ordering", "lower": KAIMING, "higher": SMALL}
NUMBER = {"what": "kaiming", "where": "Table 1", "value": 0.1, "of": KAIMING}


def claim(*criteria, **fields):
    return {"id": "one", "claim": "It does.", "source": "a paper", "criteria": list(criteria)} | fields


REFUSED = [
    ([claim()], "claims[0].criteria: must not be empty"),
    ([claim(ORDERING, id="A b")], "claims[0].id: String should match pattern"),
    ([claim(ORDERING), claim(ORDERING)], "claims: the claim one stands twice"),
    ([claim(ORDERING | {"judge": "order"})], "judge must be one of ordering, lead, equality"),
    ([claim({"lower": KAIMING})], "claims[0].criteria[0]: judge is required"),
    ([claim(ORDERING | {"than": 3})], "claims[0].criteria[0].than: is an unknown key"),
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
        "claims[0].criteria[0].measure: chance is known of the outcome alone",
    ),
    (
        [claim({"judge": "within", "of": KAIMING, "measure": "probe.gradient_norms", "at_most": 1.0})],
        "claims[0].criteria[0].measure: the suite has no probe gradient_norms (did you mean 'gradient_norm'?)",
    ),
    (
        [claim({"judge": "correlation", "of": KAIMING, "measure": "probe.gradient_quotient", "at_least": 0.5})],
        "claims[0].criteria[0]: needs each",
    ),
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


def test_claims_change_no_trial():
    ids = [trial.id for trial in planned(**TWO).trials]
    published = {"source": "a paper", "numbers": [NUMBER]}
    assert [trial.id for trial in planned(**TWO, claims=[claim(ORDERING)], published=published).trials] == ids


def test_the_folder_of_a_suite_says_what_it_claims_and_that_of_a_smoke_run_does_not():
    suite = made(**TWO, claims=[claim(ORDERING)])
    assert suite.resolved()["claims"][0]["criteria"][0]["lower"] == KAIMING
    assert suite.resolved()["seeds"] == 3
    assert "claims" not in smoke_suite(suite).resolved()
