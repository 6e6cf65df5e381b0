"""Numbers as a reader wants them."""

from __future__ import annotations

import math

import pytest

from initbench.comparing.formatting import count, steps


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2.7, "3"),
        (-2.7, "-3"),
        (1234.5678, "1,235"),
        (0.4, "less than 1"),
        (0.999, "less than 1"),
        (0.0, "0"),
        (1.2, "1"),
        (math.inf, "not reached"),
        (math.nan, "–"),
    ],
)
def test_steps_are_rounded_and_a_part_of_one_is_said(value, words):
    assert steps(value) == words


def test_counts_are_rounded_as_in_sentences():
    assert [count(value) for value in (0.4, 2.7, 1234.5678, math.nan)] == ["0", "3", "1,235", "–"]
