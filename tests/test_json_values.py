"""Values as JSON can hold them."""

from __future__ import annotations

import math

from initbench.json_values import json_values


def test_json_values_names_what_was_not_finite():
    values = {"a": math.nan, "b": [1.0, math.inf, -math.inf, math.inf], "c": {"d": (1, math.nan)}, "e": "x"}
    assert json_values(values) == {
        "a": None,
        "a_reason": "nan",
        "b": [1.0, None, None, None],
        "b_reason": "inf, -inf",
        "c": {"d": [1, None], "d_reason": "nan"},
        "e": "x",
    }
