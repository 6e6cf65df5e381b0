"""Published numbers beside the measured ones, and what a diverged seed leaves of these."""

from __future__ import annotations

import math

import pytest
from planted import planted, results_of
from reports import sentences_of

from initbench.claims.claim import Published
from initbench.reporting.questions.published import published
from initbench.reporting.resolved import Stated

A, B = [0.1, 0.12, 0.11, 0.1, 0.13], [0.2, 0.25, 0.3, 0.21, None]


def beside(*names):
    """Return the answer on a published number of each of these initializers."""
    numbers = [
        {"what": f"error of {name}", "where": "Table 1", "value": 0.1, "of": {"initializer": name}} for name in names
    ]
    paper = Published.model_validate({"source": "a paper", "numbers": numbers})
    records = planted({"net": {"a": A, "b": B, "c": [None] * 5}})
    return published(results_of(records, stated=(Stated((), paper, 5),)))


def test_a_diverged_seed_leaves_no_mean_but_a_counterpart():
    found = beside("b")
    assert sentences_of(found)[0] == "1 of 1 published number has a measured counterpart."
    assert found.remarks == ["error of b: 1 of 5 trials diverged, so there is no mean."]
    [row] = found.facts
    assert math.isnan(row["measured"])
    assert row["seeds"] == 5
    assert beside("c").remarks == ["error of c: 5 of 5 trials diverged, so there is no mean."]
    assert beside("a").remarks == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b"], "2 of 2 published numbers have a measured counterpart."),
        (["a", "nobody"], "1 of 2 published numbers has a measured counterpart."),
        (["nobody", "no one"], "0 of 2 published numbers have a measured counterpart."),
        (["nobody"], "0 of 1 published number has a measured counterpart."),
    ],
)
def test_how_many_numbers_have_a_measured_counterpart(names, words):
    assert sentences_of(beside(*names))[0] == words
