"""What a suite compares, and what its folder says of it."""

import pytest

from initbench.comparing.treatments import check_compare
from initbench.errors import SuiteError
from initbench.suite.document import Document
from initbench.suite.load import suite_of
from initbench.suite.spec import SCHEMA
from suites import BASE, plan_of, planned


def suite(**keys):
    return suite_of(Document("suite.yaml", "", BASE | keys))


@pytest.mark.parametrize(
    ("compare", "factors"),
    [
        (None, ("initializer",)),
        ("scheme", ("scheme",)),
        (["initializer", "architecture.norm"], ("initializer", "architecture.norm")),
        (
            ["initializer.base", "dataset", "dataset.train_size", "recipe.lr", "recipe"],
            ("initializer.base", "dataset", "dataset.train_size", "recipe.lr", "recipe"),
        ),
    ],
)
def test_factors(compare, factors):
    made = suite(initializers=["xavier", "metainit"], **({} if compare is None else {"compare": compare}))
    assert made.compare == factors
    # What a suite may compare, a report can.
    check_compare(factors, [trial.model_dump(mode="json") for trial in plan_of(made).trials])


@pytest.mark.parametrize(
    ("compare", "key"),
    [
        ("initializer.stepz", "compare"),
        (["initializer", "architecture.drop_path"], "compare[1]"),  # of a network that the suite does not have
        (["seed"], "compare[0]"),
        (["scheme", "scheme"], "compare[1]"),
        ([], "compare"),
        ([3], "compare[0]"),
    ],
)
def test_what_nothing_in_the_suite_has(compare, key):
    with pytest.raises(SuiteError) as refused:
        suite(compare=compare)
    assert refused.value.key == key


def test_an_argument_of_one_entry_is_enough():
    for architectures in (["mlp", "wrn"], ["wrn", "mlp"]):
        made = suite(architectures=architectures, compare=["initializer", "architecture.drop_path"])
        assert made.compare == ("initializer", "architecture.drop_path")


def test_what_is_compared_changes_no_trial():
    pairs = [{"compare": "scheme"}, {}]
    assert len({tuple(trial.id for trial in planned(**keys).trials) for keys in pairs}) == 1


def test_what_a_report_needs_of_the_suite():
    assert suite(description="Which one?", compare=["scheme"]).resolved() == {
        "schema": SCHEMA,
        "name": "s",
        "description": "Which one?",
        "compare": ["scheme"],
    }


def test_a_factor_of_two_lines_is_refused_in_one():
    with pytest.raises(SuiteError) as caught:
        suite(compare=["a\nb"])
    assert "no trial has 'a\\nb'" in str(caught.value)
    assert "\n" not in str(caught.value)
