import math
from dataclasses import replace

import pytest
from ledgers import KAIMING, METAINIT, make_record, make_spec

from initbench.reporting.statistics.cost import cost_curves, cost_to_target, initialization_gradients


def record(initializer=METAINIT, cost=None, conditions=None, errors=(0.5, 0.2, 0.1)):
    made = make_record(make_spec(initializer, recipe={"batch_size": 64}))
    initialization = {"cost": cost} if cost else {}
    history = [{"step": 10 * (i + 1), "epoch": i + 1, "test_error": e} for i, e in enumerate(errors)]
    return replace(made, initialization=initialization | {"conditions": conditions or {}}, history=history)


def test_gradients_of_the_initializer_in_training_batches():
    # 100 steps of MetaInit: (100 + 2 · 300) / 3 gradients, each of 32 in place of 64 samples.
    own = record(cost={"forward": 100, "backward": 300})
    assert initialization_gradients(own) == pytest.approx(700 / 3 / 2)
    noted = record(cost={"forward": 3, "backward": 0}, conditions={"batch_shape": [128, 3, 8, 8]})
    assert initialization_gradients(noted) == pytest.approx(2)
    plain = record(KAIMING, {"forward": 1, "backward": 1})
    assert initialization_gradients(plain) == 1
    assert math.isnan(initialization_gradients(record(KAIMING)))


def test_cost_to_a_target_counts_both():
    own = record(KAIMING, {"forward": 2, "backward": 2}, errors=(0.5, None, 0.2, 0.1))
    assert cost_to_target(own, 0.2) == 2 + 30
    assert cost_to_target(own, 0.05) == math.inf
    assert cost_to_target(record(KAIMING, {"forward": 0, "backward": 0}), 0.5) == 10


def test_curves_have_one_row_per_measured_error():
    own = record(KAIMING, {"forward": 2, "backward": 2}, errors=(0.5, None, 0.1))
    curves = cost_curves([own])
    assert list(curves["gradients"]) == [12, 32]
    assert list(curves["test_error"]) == [0.5, 0.1]
