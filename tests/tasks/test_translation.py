"""Translation against loops over its tokens, and its chance level against an independent count."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from sentence_models import BagTranslator
from small_transformer import pairs, transformer

from initbench.errors import ArgumentError, InitializationError
from initbench.inputs import END, PAD, Inputs
from initbench.tasks import Task, find_task
from initbench.tasks.describe import chance_levels

TASK = find_task("translation")
V = 7
TARGETS = torch.tensor([[3, 4, END, PAD, PAD], [5, END, PAD, PAD, PAD], [2, 2, 6, 3, END], [END, PAD, PAD, PAD, PAD]])
TOKENS = 11  # of the above, with each END


def logits(seed=0):
    return 3 * torch.randn(4, 5, V, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def by_token(outputs, targets, smoothing=0.0):
    """The loss of each token that is no padding, by the definition."""
    losses = []
    for row, sentence in zip(outputs.tolist(), targets.tolist(), strict=True):
        for scores, token in zip(row, sentence, strict=True):
            if token != PAD:
                total = math.log(math.fsum(map(math.exp, scores)))
                each = [total - score for score in scores]
                losses.append((1 - smoothing) * each[token] + smoothing * math.fsum(each) / len(each))
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_the_tokens(smoothing):
    outputs = logits()
    losses = by_token(outputs, TARGETS, smoothing)
    assert len(losses) == TOKENS
    found = TASK.smoothed_loss(outputs, TARGETS, smoothing) if smoothing else TASK.loss(outputs, TARGETS)
    assert found.item() == pytest.approx(math.fsum(losses) / TOKENS, rel=1e-13)


def test_the_weight_of_a_batch_is_its_tokens():
    assert int(TASK.weight(TARGETS)) == TOKENS
    assert find_task("classification").weight(torch.tensor([1, 2])) == 2
    assert find_task("language_modelling").weight(TARGETS) == 4


def test_batches_of_unlike_length_are_joined_with_padding():
    """Which changes no output, so that the loss is the mean over the tokens of both."""
    model = transformer(target=V, longest=8).double()
    short, long = pairs(3, longest=4, seed=1, target=V), pairs(2, longest=7, seed=2, target=V)
    inputs, targets = TASK.joined(short, long)
    assert inputs.shape == (5, 2, 7)
    outputs = model(inputs)
    for rows, batch in ((slice(0, 3), short), (slice(3, 5), long)):
        length = batch[1].shape[1]
        assert torch.equal(inputs[rows, :, :length], batch[0])
        assert inputs[rows, :, length:].eq(PAD).all()
        assert torch.equal(targets[rows, :length], batch[1])
        assert targets[rows, length:].eq(PAD).all()
        torch.testing.assert_close(outputs[rows, :length], model(batch[0]), rtol=1e-12, atol=1e-12)
    weights = [int(TASK.weight(batch[1])) for batch in (short, long)]
    losses = [TASK.loss(model(batch[0]), batch[1]).item() for batch in (short, long)]
    mean = (weights[0] * losses[0] + weights[1] * losses[1]) / sum(weights)
    assert TASK.loss(outputs, targets).item() == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_totals_of_batches_add_up_to_the_values_of_the_split(size):
    outputs = logits()
    parts = [TASK.totals(o, t) for o, t in zip(outputs.split(size), TARGETS.split(size), strict=True)]
    totals = {name: math.fsum(float(part[name]) for part in parts) for name in parts[0]}
    assert totals["tokens"] == TOKENS
    assert TASK.values(totals, 4)["loss"] == pytest.approx(math.fsum(by_token(outputs, TARGETS)) / TOKENS, rel=1e-13)
    assert TASK.primary.name == "loss"


def test_padding_changes_no_loss_and_no_gradient():
    """Eight more positions of padding on every sentence."""
    model = BagTranslator(V, V).double()
    inputs, targets = TASK.random_batch(Inputs((2, 6), V), V, 9, torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(inputs, (0, 8)), torch.nn.functional.pad(targets, (0, 8))
    for smoothing in (0.0, 0.1):
        values = []
        for x, y in ((inputs, targets), padded):
            loss = TASK.smoothed_loss(model(x), y, smoothing)
            values.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
        for ours, theirs in zip(*values, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    totals = [TASK.totals(model(x).detach(), y) for x, y in ((inputs, targets), padded)]
    assert float(totals[0]["nats"]) == pytest.approx(float(totals[1]["nats"]), rel=1e-12)
    assert int(totals[0]["tokens"]) == int(totals[1]["tokens"])


def test_chance_is_the_entropy_of_the_tokens():
    random = torch.Generator().manual_seed(1)
    _, targets = TASK.random_batch(Inputs((2, 9), V), V, 40, random)
    counts = Counter(token for sentence in targets.tolist() for token in sentence if token != PAD)
    total = sum(counts.values())
    entropy = -math.fsum(n / total * math.log(n / total) for n in counts.values())
    value, error = chance_levels(TASK, targets, V)["loss"]
    assert value == pytest.approx(entropy, rel=1e-12)
    nats = np.array([math.fsum(-math.log(counts[t] / total) for t in row if t != PAD) for row in targets.tolist()])
    tokens = (targets != PAD).sum(1).numpy()
    left_out = (nats.sum() - nats) / (tokens.sum() - tokens)
    assert error == pytest.approx(math.sqrt(39 / 40 * ((left_out - left_out.mean()) ** 2).sum()), rel=1e-9)


def test_all_sentences_at_once_are_each_by_itself():
    predicted = TASK.constant_predictor(TARGETS, V)
    assert predicted.shape == (5, V)
    for ours, theirs in zip(
        TASK.constant_totals(predicted, TARGETS), Task.constant_totals(TASK, predicted, TARGETS), strict=True
    ):
        assert ours == pytest.approx(theirs, rel=1e-12)


class TestRandomBatches:
    inputs, targets = TASK.random_batch(Inputs((2, 8), vocabulary=12), 9, 4000, torch.Generator().manual_seed(0))

    def test_they_are_sentences(self):
        source, decoder = self.inputs.unbind(1)
        assert self.inputs.shape == (4000, 2, 8)
        for sentences, vocabulary in ((source, 12), (self.targets, 9)):
            ends = (sentences == END).int().argmax(1)
            assert torch.equal((sentences == END).sum(1), torch.ones(4000, dtype=torch.int64))
            position = torch.arange(8)
            assert torch.equal(sentences == PAD, position > ends[:, None])
            counts = torch.bincount(ends, minlength=8)[1:].double()
            assert (counts - 4000 / 7).abs().max() < 4 * math.sqrt(4000 / 7)  # uniform lengths from 2 to 8
            tokens = torch.bincount(sentences[sentences > END], minlength=vocabulary)[2:].double()
            expected = tokens.sum() / (vocabulary - 2)
            assert (tokens - expected).abs().max() < 4 * expected.sqrt()
        for row, target in zip(decoder[:200].tolist(), self.targets[:200].tolist(), strict=True):
            end = target.index(END)
            assert row == [END, *target[:end], *[PAD] * (7 - end)]

    def test_the_two_sides_are_unrelated(self):
        same = (self.inputs[:, 0] == self.targets) & (self.targets > END)
        both = (self.inputs[:, 0] > END) & (self.targets > END)
        # Tokens 2 to 8 of 2 to 11: one in ten.
        assert abs(same.sum() / both.sum() - 0.1) < 4 * math.sqrt(0.09 / int(both.sum()))

    @pytest.mark.parametrize(("inputs", "outputs"), [((8,), 9), ((3, 8), 9), ((2, 8), 2)])
    def test_what_are_no_pairs_is_refused(self, inputs, outputs):
        with pytest.raises(ArgumentError, match="must be"):
            TASK.random_batch(Inputs(inputs, 9), outputs, 2, torch.Generator())


def test_outputs_of_another_shape_are_refused():
    TASK.check_outputs(torch.zeros(2, 5, V), V)
    assert TASK.output_shape(Inputs((2, 5), 30), V) == (5, V)
    for outputs in (torch.zeros(2, V), torch.zeros(2, 5, V - 1), "text"):
        with pytest.raises(InitializationError):
            TASK.check_outputs(outputs, V)
