"""Models of tokens: an example batch, or a task with a shape and a vocabulary, is all that they need."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from cases import assert_same_state, state
from torch import nn
from torch.nn import functional

from initbench import randomness
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.registry import register_task
from initbench.tasks import Task

VOCABULARY, LENGTH = 11, 6
ARGUMENTS = {
    "kaiming": {},
    "gpt2": {},
    "metainit": {"steps": 3},
    "gradinit": {"data": "random", "iterations": 3},
    "lsuv": {"data": "random"},
}
TUNERS = ["metainit", "gradinit", "lsuv"]


class NextToken(Task):
    """The token that follows each token: as many losses as there are positions."""

    metrics = (Metric("loss", "lower", unit="nats", best=0.0, primary=True),)

    def inputs_for(self, shape, outputs, example=None):
        return Inputs(tuple(shape), outputs or int(example.max()) + 1)

    def loss(self, outputs, targets):
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def check_outputs(self, outputs, expected):
        if outputs.shape[-1] < expected:
            raise InitializationError(f"{expected} tokens, and {outputs.shape[-1]} outputs")

    def totals(self, outputs, targets):
        return {"loss": self.loss(outputs, targets) * targets.numel()}

    def values(self, totals, samples):
        return {"loss": totals["loss"] / samples}

    def constant_predictor(self, targets, outputs):
        return torch.bincount(targets.flatten(), minlength=outputs).double().log()

    def random_targets(self, outputs, samples, generator):
        return torch.randint(outputs, (samples, LENGTH), generator=generator)


class Language(nn.Module):
    """An embedding, a block of attention and a feed-forward part, and a head that may be tied to the embedding."""

    def __init__(self, *, tied=False, wrapped=False):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, 8), nn.Embedding(LENGTH, 8)
        self.norm, self.attention = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm2, self.expand, self.contract = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.words.weight
        self.wrapped, self.seen = wrapped, []

    def forward(self, tokens):
        self.seen.append(tokens)
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        logits = self.head(x + self.contract(functional.gelu(self.expand(self.norm2(x)))))
        return SimpleNamespace(logits=logits) if self.wrapped else logits


@pytest.fixture
def next_token(scratch_registry):
    del scratch_registry
    register_task("next_token")(NextToken)
    return "next_token"


def language(**options):
    torch.manual_seed(0)
    return Language(**options)


@pytest.mark.filterwarnings("ignore:lsuv. .*the standard deviation is not within")
@pytest.mark.filterwarnings("ignore:lsuv passes over 2 of . weights. attention")
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_kind_of_initializer(name, tied, next_token):
    shape = (4, LENGTH)
    plain, wrapped = (language(tied=tied, wrapped=wrapped) for wrapped in (False, True))
    record = initialize(plain, name, task=next_token, input_shape=shape, num_classes=VOCABULARY, **ARGUMENTS[name])
    inputs = torch.full(shape, VOCABULARY - 1)
    initialize(wrapped, name, task=next_token, inputs=inputs, num_classes=VOCABULARY, **ARGUMENTS[name])
    assert all(map(torch.equal, plain.parameters(), wrapped.parameters()))
    assert all(torch.isfinite(parameter).all() for parameter in plain.parameters())
    assert record.tensors["words.weight"][0]["event"] == "drawn"
    assert (record.tensors["head.weight"][-1]["event"] == "tied") == tied
    first = initialize(language(tied=tied), record.arguments.get("base", {}).get("name", name))
    assert record.tensors["words.weight"][0] == first.tensors["words.weight"][0]
    for tokens in plain.seen:
        assert tokens.dtype == torch.int64
        assert tokens.shape[1] == LENGTH
        assert tokens.max() < VOCABULARY
    assert bool(plain.seen) == (name in TUNERS)


@pytest.mark.parametrize("name", TUNERS)
@pytest.mark.filterwarnings("ignore:lsuv. .*the standard deviation is not within")
@pytest.mark.filterwarnings("ignore:lsuv passes over 2 of . weights. attention")
def test_the_example_batch_gives_the_size_of_a_batch(name, next_token):
    model = language()
    inputs = torch.full((3, LENGTH), VOCABULARY - 1)
    record = initialize(model, name, task=next_token, inputs=inputs, num_classes=VOCABULARY, **ARGUMENTS[name])
    assert record.arguments["batch_size"] == 3
    assert {len(tokens) for tokens in model.seen} == {6 if name == "gradinit" else 3}


@pytest.mark.parametrize("name", ["metainit", "gradinit"])
def test_what_is_tuned_is_the_loss_of_the_task(name, next_token):
    """The same as with this loss and these batches given by hand."""
    by_task, by_hand = language(), language()
    shape = (4, LENGTH)
    initialize(by_task, name, task=next_token, input_shape=shape, num_classes=VOCABULARY, **ARGUMENTS[name])
    task = NextToken()

    def batches():
        order = randomness.generator(0, "tuner_batches")
        while True:
            yield task.random_batch(task.inputs_for(shape[1:], VOCABULARY), VOCABULARY, 4, order)

    initialize(by_hand, name, batches=batches(), loss_fn=task.loss, **ARGUMENTS[name])
    assert all(map(torch.equal, by_task.parameters(), by_hand.parameters()))
    assert all(map(torch.equal, by_task.seen, by_hand.seen))


def test_tokens_of_a_classifier():
    """A vocabulary that is known from the example alone: it ends with the largest token."""

    class Classifier(Language):
        def forward(self, tokens):
            return super().forward(tokens).mean(1)

    torch.manual_seed(0)
    model = Classifier()
    initialize(model, "metainit", inputs=torch.tensor([[0, 7, 3]]), num_classes=VOCABULARY, steps=20)
    seen = torch.cat([tokens.flatten() for tokens in model.seen])
    assert set(seen.tolist()) <= set(range(8))
    assert len(set(seen.tolist())) > 4


def test_more_tokens_than_outputs(next_token):
    model = language()
    model.words = nn.Embedding(12, 8)
    before = state(model)
    with pytest.raises(InitializationError, match="12 tokens, and 11 outputs"):
        initialize(model, "metainit", task=next_token, input_shape=(2, LENGTH), num_classes=12, steps=1)
    assert_same_state(before, state(model))


def test_shape_and_example_at_once(next_token):
    with pytest.raises(ArgumentError) as refused:
        initialize(language(), "kaiming", task=next_token, inputs=torch.zeros(1, 6).long(), input_shape=(1, 6))
    assert refused.value.argument == "input_shape"
