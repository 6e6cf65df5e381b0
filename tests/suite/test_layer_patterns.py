"""Criteria on layers: each pattern names parameters of the suite's network at its full depth, which smoke runs cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from initbench import create_model
from initbench.inputs import Inputs
from initbench.suite.load import load_suite

SUITES = Path(__file__).parents[2] / "suites/papers"
TRANSLATION = ("gradinit_postnorm", "twins/gradinit_postnorm", "twins/gradinit_postnorm_multi30k")


@pytest.mark.parametrize("name", TRANSLATION)
def test_each_pattern_names_parameters_of_the_transformer(name):
    model = create_model("transformer", inputs=Inputs((2, 6), 12), num_classes=12, depth=6, width=8, heads=2)
    names = [name for name, _ in model.named_parameters()]
    claims = load_suite(str(SUITES / f"{name}.yaml")).claims
    patterns = [c.layers for claim in claims for c in claim.criteria if getattr(c, "layers", None)]
    assert len(patterns) == 7
    for pattern in patterns:
        matched = [name for name in names if re.search(pattern, name)]
        assert 0 < len(matched) < len(names), pattern
