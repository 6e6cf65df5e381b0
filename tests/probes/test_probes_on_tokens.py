"""The probes on tokens, with a task of the test's own, and on models whose output holds `logits`."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from cases import assert_same_state, randomize, state
from torch import nn
from torch.nn.functional import cross_entropy

from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.probes.context import ProbeContext
from initbench.probes.measurement import entries
from initbench.registry import PROBES
from initbench.tasks import Task

VOCABULARY, POSITIONS = 7, 5


class NextToken(Task):
    """The token after each position; the loss is the mean over all tokens."""

    metrics = (Metric("loss", "lower", unit="nats", primary=True),)

    def loss(self, outputs, targets):
        return cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def totals(self, outputs, targets):
        return {"loss": cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="sum")}

    def values(self, totals, samples):
        return {"loss": totals["loss"] / samples / POSITIONS}

    def constant_predictor(self, targets, outputs):
        counts = torch.bincount(targets.flatten(), minlength=outputs).double()
        return (counts / counts.sum()).log().expand(POSITIONS, outputs)

    def random_targets(self, outputs, samples, generator):
        return torch.randint(outputs, (samples, POSITIONS), generator=generator)


class TokenModel(nn.Module):
    """Attention over the embeddings of tokens, (N, T) → (N, T, vocabulary)."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.attention(x, x, x, need_weights=False)[0])


class WithLogits(nn.Module):
    """The same model, whose output is an object that holds the tensor as ``logits``."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return SimpleNamespace(logits=self.model(inputs))


TOKENS = ProbeContext(
    seed=3,
    inputs=Inputs((POSITIONS,), VOCABULARY),
    outputs=VOCABULARY,
    task=NextToken(),
    optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    real_batches=lambda size, generator: iter(
        torch.randint(VOCABULARY, (9, 2, size, POSITIONS), generator=generator).unbind()
    ),
)
HAVE_NONE = {"batch_norm_magnification", "hessian_spectrum"}  # of layers, as there is no BatchNorm
EVERY = ("gradient_quotient", "gradient_norm", "initial_loss", "parameter_norm")


def measure(probe, model, context):
    arguments = {} if probe == "parameter_norm" else {"batch_size": 4, "batches": 3}
    return PROBES.get(probe).build(arguments)(model, context)


def test_random_batches_are_tokens():
    inputs, targets = next(TOKENS.batches("random", 100, 1))
    for tokens in (inputs, targets):
        assert tokens.dtype == torch.int64
        assert tokens.shape == (100, POSITIONS)
        assert tokens.unique().tolist() == list(range(VOCABULARY))


@pytest.mark.parametrize("probe", EVERY)
@pytest.mark.parametrize("data", ["random", "real"])
def test_every_probe_measures_a_model_of_tokens_and_leaves_it_as_it_was(probe, data):
    model = randomize(TokenModel())
    before = state(model)
    arguments = {} if probe == "parameter_norm" else {"batch_size": 4, "batches": 3, "data": data}
    first, second = (PROBES.get(probe).build(arguments)(model, TOKENS) for _ in range(2))
    assert first == second
    assert_same_state(before, state(model))
    scalar = first[""] if isinstance(first, dict) else first
    assert math.isfinite(scalar.value)
    assert scalar.value > 0


@pytest.mark.parametrize("probe", sorted(set(PROBES.builtins) - set(EVERY)))
@pytest.mark.parametrize("wrap", [False, True])
def test_probes_of_several_measurements_measure_a_model_of_tokens_and_leave_it_as_it_was(probe, wrap):
    model = randomize(TokenModel())
    model = WithLogits(model) if wrap else model
    offered = {argument.name for argument in PROBES.get(probe).arguments}
    wanted = {"batch_size": 4, "data": "random", "eigenvalues": 2, "lanczos_steps": 3}
    arguments = {name: value for name, value in wanted.items() if name in offered}
    before = state(model)
    first, second = (PROBES.get(probe).build(arguments)(model, TOKENS) for _ in range(2))
    assert entries(probe, first) == entries(probe, second)
    assert_same_state(before, state(model))
    layers = [layer.removeprefix("model.") for one in first.values() for layer in getattr(one, "values", ())]
    assert ("attention" in layers or "head.weight" in layers) != (probe in HAVE_NONE)


def test_the_loss_is_that_of_the_task():
    model = TokenModel()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    result = measure("initial_loss", model, TOKENS)
    assert result.value == pytest.approx(math.log(VOCABULARY), rel=1e-6)
    assert "log_num_classes" not in result.conditions  # which is of classes


@pytest.mark.parametrize("probe", EVERY)
def test_an_output_that_holds_logits_is_measured_as_these(probe):
    model = randomize(TokenModel())
    bare, held = measure(probe, model, TOKENS), measure(probe, WithLogits(model), TOKENS)
    if isinstance(bare, dict):
        layers = bare["per_layer"]
        bare["per_layer"] = replace(layers, values={f"model.{name}": v for name, v in layers.values.items()})
    assert held == bare
