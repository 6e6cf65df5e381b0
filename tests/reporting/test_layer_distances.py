"""How far layers are from those of a reference."""

import math

import pandas as pd
import pytest

from initbench.reporting.measurements import distances


def rows(values, layers, probe="norm", seed=0):
    """Return one row for each layer of each treatment."""
    return [
        {"probe": probe, "workload": "net", "treatment": name, "seed": seed, "layer": layer, "value": value}
        for name, own in values.items()
        for layer, value in zip(layers, own, strict=True)
    ]


def test_a_norm_that_is_0_or_not_finite_is_infinitely_far():
    values = {"kaiming": (1.0, 2.0), "recovered": (2.0, 1.0), "dead": (0.0, 2.0), "diverged": (1.0, math.nan)}
    found = distances(pd.DataFrame(rows(values, ("a.weight", "b.weight"))), "kaiming").set_index("treatment")["median"]
    assert found.to_dict() == {"recovered": pytest.approx(math.log(2)), "dead": math.inf, "diverged": math.inf}


def test_each_seed_is_compared_with_the_reference_at_its_own():
    every = [
        *rows({"kaiming": (1.0,), "other": (math.e,)}, ["a.weight"]),
        *rows({"kaiming": (2.0,), "other": (2.0,)}, ["a.weight"], seed=1),
        *rows({"other": (5.0,)}, ["a.weight"], seed=2),
    ]
    [row] = distances(pd.DataFrame(every), "kaiming").to_dict("records")
    assert (row["seeds"], row["nearest"], row["farthest"]) == (2, 0.0, pytest.approx(1.0))


def test_of_weights_alone_where_names_tell_them_and_of_all_layers_of_another_probe():
    """A BatchNorm that a probe names by its module is no weight, and stands beside a probe of weights."""
    own = {"kaiming": (1.0, 1.0), "other": (math.e, math.e**3)}
    every = [*rows(own, ("a.weight", "a.bias")), *rows(own, ("norm1", "norm2"), probe="magnification")]
    found = distances(pd.DataFrame(every), "kaiming").set_index("probe")["median"].to_dict()
    assert found == {"norm": pytest.approx(1.0), "magnification": pytest.approx(2.0)}


def test_without_the_reference_there_is_no_row():
    assert not len(distances(pd.DataFrame(rows({"other": (1.0,)}, ["a.weight"])), "kaiming"))
