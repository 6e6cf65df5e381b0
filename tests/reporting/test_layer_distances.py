"""How far layers are from those of a reference."""

import math

import pandas as pd
import pytest

from initbench.reporting.analyses.layer_distances import distances


def test_a_norm_that_is_0_or_not_finite_is_infinitely_far():
    values = {"kaiming": (1.0, 2.0), "recovered": (2.0, 1.0), "dead": (0.0, 2.0), "diverged": (1.0, math.nan)}
    rows = [
        {"probe": "norm", "workload": "net", "treatment": name, "seed": 0, "layer": layer, "value": value}
        for name, own in values.items()
        for layer, value in zip(("a.weight", "b.weight"), own, strict=True)
    ]
    found = distances(pd.DataFrame(rows), "kaiming").set_index("treatment")["median"]
    assert found.to_dict() == {"recovered": pytest.approx(math.log(2)), "dead": math.inf, "diverged": math.inf}
