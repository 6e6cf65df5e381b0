"""Batches of sentences by their tokens, and batches that are as long as their longest sentence."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches, endless_batches, token_batches
from initbench.data.sentence_pairs import SentencePairs
from initbench.inputs import END, PAD
from initbench.randomness import generator


def order(seed=0):
    return torch.Generator().manual_seed(seed)


def numbered(lengths, positions=40):
    """Pairs of these lengths with their END; the first token of both sides is the pair's number and 2."""
    source = [[index + 2] * (length - 1) for index, length in enumerate(lengths)]
    target = [tokens[: max(1, len(tokens) // 2)] for tokens in source]
    return SentencePairs.of(source, target, positions)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(30, 200), st.integers(0, 5))
def test_batches_lose_and_repeat_no_sentence_and_are_as_full_as_can_be(lengths, batch_tokens, seed):
    lengths = torch.tensor(lengths, dtype=torch.int64)
    batches = token_batches(lengths, batch_tokens, order(seed))
    assert sorted(index for batch in batches for index in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * int(lengths[batch].max()) <= batch_tokens
    for batch, following in pairwise(batches):
        shortest = int(lengths[following].min())
        assert int(lengths[batch].max()) <= shortest  # sorted
        assert (len(batch) + 1) * shortest > batch_tokens  # one more sentence would not have fitted
    assert len(batches) == len(token_batches(lengths, batch_tokens, order(seed + 1)))


LENGTHS = [2 + (7 * i) % 11 for i in range(150)]


def epochs(batches, count=2):
    return [[sorted((batch.inputs[:, 0, 0] - 2).tolist()) for batch in batches.epoch()] for _ in range(count)]


def training(seed=0, split=None):
    return TrainingBatches(split or numbered(LENGTHS), 128, Augmentation(), seed, batch_tokens=50)


def test_batches_are_fixed_by_the_seed_and_their_order_is_new_in_each_epoch():
    batches = training()
    first, second = epochs(batches)
    assert len(first) == len(batches)
    assert sorted(first) == sorted(second)
    assert first != second
    assert sorted(index for batch in first for index in batch) == list(range(150))
    assert epochs(training()) == [first, second]
    other = epochs(training(seed=1), 1)[0]
    assert len(other) == len(first)
    assert sorted(other) != sorted(first)  # sentences of one length are in other batches


def test_a_batch_is_as_long_as_its_longest_sentence():
    split = numbered(LENGTHS)
    assert split.lengths.tolist() == LENGTHS
    assert split.sample_shape == (2, 40)
    for batch in training(split=split).epoch():
        source, decoder = batch.inputs.unbind(1)
        assert batch.targets.shape == source.shape
        assert bool((source[:, -1] != PAD).any())  # the source is the longer side
        numbers = source[:, 0] - 2
        for number, tokens, read, target in zip(
            numbers.tolist(), source.tolist(), decoder.tolist(), batch.targets.tolist(), strict=True
        ):
            length = LENGTHS[number]
            half = max(1, (length - 1) // 2)
            rest = len(tokens)
            assert tokens == [number + 2] * (length - 1) + [END] + [PAD] * (rest - length)
            assert target == [number + 2] * half + [END] + [PAD] * (rest - half - 1)
            assert read == [END] + [number + 2] * half + [PAD] * (rest - half - 1)


def test_batches_of_samples_and_of_tuners_are_cut_too():
    split = numbered([2, 3, 9, 2])
    assert [tuple(x.shape) for x, _ in split.batches([slice(0, 2), slice(2, 4)])] == [(2, 2, 3), (2, 2, 9)]
    [batch] = TrainingBatches(split, 4, Augmentation(), 0).epoch()
    assert batch.inputs.shape == (4, 2, 9)
    inputs, targets = next(endless_batches(numbered([4] * 6), 3, generator(0, "tuner_batches")))
    assert (inputs.shape, targets.shape) == ((3, 2, 4), (3, 4))


def test_a_target_may_be_the_longer_side():
    split = SentencePairs.of([[5], []], [[6, 7, 8], [9]], 10)
    assert split.lengths.tolist() == [4, 2]
    inputs, targets = split.take(torch.tensor([0, 1]))
    assert inputs.tolist() == [[[5, END, PAD, PAD], [END, 6, 7, 8]], [[END, PAD, PAD, PAD], [END, 9, PAD, PAD]]]
    assert targets.tolist() == [[6, 7, 8, END], [9, END, PAD, PAD]]
    assert len(SentencePairs.of([], [], 10)) == 0


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_restored_iterator_goes_on_within_the_epoch(taken):
    whole = training()
    expected = [batch for _ in range(2) for batch in whole.epoch()]
    killed = training()
    epoch = killed.epoch()
    for _ in range(taken):
        next(epoch)
    interrupted = training()
    interrupted.restore(killed.state())
    again = training()
    again.restore(interrupted.state())  # it was interrupted again before its next batch
    found = [batch for _ in range(2) for batch in again.epoch()]
    for ours, theirs in zip(found, expected[taken:], strict=True):
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.targets, theirs.targets)
