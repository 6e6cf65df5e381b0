"""`coordinates` against a closed form, and against the steps of a trial's optimizer."""

from __future__ import annotations

import pytest
import torch
from cases import assert_same_state, small, state
from small_gpt import CONTEXT, VOCABULARY, NextToken, gpt
from torch import nn

from initbench.errors import InitbenchError
from initbench.execution.trial import run_trial
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext, measure
from initbench.registry import PROBES
from suites import planned

LR = 0.1


def sgd(model):
    return torch.optim.SGD(model.parameters(), LR)


IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10, optimizer=sgd)


def values(model, context=IMAGES, **arguments):
    """The activations and the changes, by layer."""
    found = PROBES.get("coordinates").build({"data": "random", "batch_size": 4} | arguments)(model, context)
    return found["activation"].values, found["change"].values


def test_a_linear_layer_has_the_closed_form():
    """From L = ‖h‖² / 2n, h(t) = x(I − lr·xᵀx / n)ᵗWᵀ."""
    context = ProbeContext(0, Inputs((5,)), 3, loss_fn=lambda h, _: h.square().sum() / (2 * len(h)), optimizer=sgd)
    model = nn.Sequential(nn.Linear(5, 3, bias=False)).double()
    [(x, _)] = context.batches("random", 4, 1)
    x, weight = x.double(), model[0].weight.detach().clone()
    step = torch.eye(5, dtype=torch.float64) - LR * x.T @ x / 4
    for steps in (1, 3):
        before, after = x @ weight.T, x @ torch.linalg.matrix_power(step, steps) @ weight.T
        activation, change = values(model, context, steps=steps)
        assert activation == pytest.approx({"0": before.square().mean().sqrt().item()}, rel=1e-12)
        assert change == pytest.approx({"0": (after - before).square().mean().sqrt().item()}, rel=1e-12)


def test_the_model_is_left_as_it_was_and_dropout_is_off():
    model = small("wrn", norm="batch", dropout=0.5)
    before = state(model)
    first, second = values(model), values(model)
    assert_same_state(before, state(model))
    assert first == second
    assert min(first[1].values()) > 0
    assert {"groups.0.0", "stem"} <= first[0].keys()  # a block beside the weight layers


def test_layers_behind_a_zero_head_first_move_in_the_second_step():
    model = gpt(tied=False)
    initialize(model, "lecun", seed=0)
    nn.init.zeros_(model.lm_head.weight)
    context = ProbeContext(0, Inputs((CONTEXT,), VOCABULARY), VOCABULARY, NextToken(), optimizer=sgd)
    _, change = values(model, context, steps=1)
    assert [name for name, value in change.items() if value > 0] == ["lm_head"]
    _, change = values(model, context, steps=2)
    assert min(change.values()) > 0


def test_without_an_optimizer():
    context = ProbeContext(0, Inputs((3, 8, 8)), 10)
    with pytest.raises(InitbenchError, match="give ProbeContext the argument optimizer"):
        measure("coordinates", {"data": "random"}, small("mlp"), context)


def test_a_trial_takes_the_steps_with_the_multipliers_of_its_initializer():
    """At twice the base width, mup draws the same weights, and halves the rate of the head, which starts at 0."""
    head = {}
    for base_width in (16, 8):
        [spec] = planned(
            architectures=[{"name": "gpt", "width": 16, "heads": 2, "depth": 1, "tied": False}],
            dataset={"name": "random", "vocabulary": 11, "shape": [6], "outputs": 11, "task": "language_modelling"},
            initializers=[
                {"name": "mup", "base_width": base_width, "attention_heads": "more", "zero_readout": True},
            ],
            probes=[{"name": "coordinates", "steps": 1, "batch_size": 4}],
            recipe={"epochs": 0, "optimizer": "adam", "lr": 1e-3},
            seeds=1,
        ).trials
        _, change = run_trial(spec).probes
        assert change["name"] == "coordinates[batch_size=4, steps=1].change"
        head[base_width] = change["values"]["lm_head"]
    # ε of Adam, 1e-8, is not small beside every gradient.
    assert head[8] == pytest.approx(head[16] / 2, rel=1e-3)
