"""Beam search against a transcription of fairseq's algorithm, exhaustive search, and greedy search."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from small_transformer import LONGEST, pairs, transformer
from torch import nn

from initbench.errors import ArgumentError
from initbench.inputs import END, PAD
from initbench.tasks.search import Uncached, beam_search, longest_targets, sequence_model

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@dataclass(frozen=True)
class Hidden:
    values: torch.Tensor

    def select(self, rows):
        return Hidden(self.values[rows])


class Recurrent(nn.Module):
    """A random recurrent network in float64, whose state depends on the source and on every token so far."""

    def __init__(self, vocabulary, seed=0, width=8, gain=3.0):
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        self.embedding, self.output = (
            gain * torch.randn(vocabulary, width, dtype=torch.float64, generator=random) / width**0.5 for _ in range(2)
        )
        self.recurrent = 1.2 * torch.randn(width, width, dtype=torch.float64, generator=random) / width**0.5

    def start(self, source):
        return Hidden((self.embedding[source] * (source != PAD)[:, :, None]).cumsum(1)[:, -1].sin())

    def step(self, tokens, state):
        values = (state.values @ self.recurrent + self.embedding[tokens]).tanh()
        return values @ self.output.T, Hidden(values)

    def log_probabilities(self, sentence):
        """From prefixes of one sentence to the log-probabilities of their next tokens, without any cache."""

        def of(prefixes):
            state = self.start(sentence[None])
            state = state.select(torch.zeros(len(prefixes), dtype=torch.int64))
            for tokens in prefixes.T:
                logits, state = self.step(tokens, state)
            return logits.log_softmax(1)

        return of

    def total(self, sentence, tokens):
        """The log-probability of a whole translation with its END."""
        of, whole = self.log_probabilities(sentence), [END, *tokens, END]
        return sum(float(of(torch.tensor([whole[:i]]))[0, whole[i]]) for i in range(1, len(whole)))


def sentences(count, vocabulary, longest, seed=0):
    """Random sources of 1 to `longest` tokens, ended and padded."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count, 1), generator=random)
    tokens = torch.randint(2, vocabulary, (count, longest + 1), generator=random)
    places = torch.arange(longest + 1)
    return tokens.masked_fill(places == lengths, END).masked_fill(places > lengths, PAD)


def same(found, expected):
    assert [[h.tokens for h in of] for of in found] == [[h.tokens for h in of] for of in expected]
    scores = ([h.score for of in each for h in of] for each in (found, expected))
    for one, other in zip(*scores, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize(("beam", "length_penalty"), [(1, 1.0), (2, 1.0), (5, 1.0), (5, 0.0), (5, 2.0), (20, 1.0)])
def test_it_is_fairseqs_algorithm(monkeypatch, beam, length_penalty):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from beam_search import transcription

    model, source = Recurrent(11), sentences(200, 11, 9)
    longest = longest_targets(source, 1.2, 3)
    expected = [
        transcription(model.log_probabilities(sentence), most, beam, length_penalty)
        for sentence, most in zip(source, longest.tolist(), strict=True)
    ]
    same(beam_search(model, source, longest, beam=beam, length_penalty=length_penalty), expected)
    reached = {len(h.tokens) == most for of, most in zip(expected, longest.tolist(), strict=True) for h in of}
    assert reached == {True, False}, "some are ended by their greatest length, and some before"


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_beam_that_loses_nothing_gives_the_best_of_all_translations(length_penalty):
    source, most = sentences(6, 5, 4), 4
    words = range(2, 5)
    every = [tokens for n in range(1, most + 1) for tokens in itertools.product(words, repeat=n)]
    model = Recurrent(5, seed=1)
    # 81 hypotheses of 4 tokens have 324 extensions: all of these are within the beam.
    found = beam_search(model, source, torch.full((6,), most), beam=400, length_penalty=length_penalty)
    for sentence, of in zip(source, found, strict=True):
        scores = {tokens: model.total(sentence, tokens) / (len(tokens) + 1) ** length_penalty for tokens in every}
        assert {h.tokens: pytest.approx(h.score, abs=1e-12) for h in of} == scores
        assert of[0].tokens == max(scores, key=scores.get)


def test_a_beam_of_1_is_greedy_search():
    model, source = Recurrent(11, seed=2), sentences(50, 11, 9)
    for sentence, (best,) in zip(source, beam_search(model, source, torch.full((50,), 12), beam=1), strict=True):
        tokens = [END]
        while len(tokens) < 13 and (tokens[-1] != END or len(tokens) == 1):
            following = model.log_probabilities(sentence)(torch.tensor([tokens]))[0]
            following[[PAD, END] if len(tokens) == 1 else [PAD]] = -torch.inf
            tokens.append(int(following.argmax()))
        assert best.tokens == tuple(token for token in tokens if token != END)


def test_scores_are_those_of_the_tokens_although_rows_were_reordered_and_left():
    model, source = Recurrent(11, seed=3), sentences(40, 11, 9)
    for sentence, of in zip(source, beam_search(model, source, longest_targets(source, 1, 2), beam=4), strict=True):
        assert len({h.tokens for h in of}) == len(of) == 4
        for h in of:
            assert h.score == pytest.approx(model.total(sentence, h.tokens) / (len(h.tokens) + 1), abs=1e-12)
            assert not {PAD, END} & {*h.tokens}


def test_which_sentences_share_a_batch_changes_nothing():
    model, source = Recurrent(11, seed=4), sentences(60, 11, 9)
    whole = beam_search(model, source, longest_targets(source, 1.2, 2))
    for size in (1, 7):
        parts = []
        for part in source.split(size):
            cut = part[:, : int((part != PAD).sum(1).max())]
            parts += beam_search(model, cut, longest_targets(cut, 1.2, 2))
        same(parts, whole)


class Constant:
    """A model whose next token has always the same logits."""

    def __init__(self, *logits):
        self.logits = torch.tensor(logits)
        self.rows = []

    def start(self, source):
        return Hidden(torch.zeros(len(source), 1))

    def step(self, tokens, state):
        self.rows.append(len(tokens))
        return self.logits.expand(len(tokens), -1).clone(), state


def test_a_sentence_that_is_done_leaves_the_batch():
    model = Constant(-9.0, -9.0, 0.0)  # END only where it must be
    found = beam_search(model, sentences(2, 3, 3), torch.tensor([2, 4]), beam=1)
    assert [len(best.tokens) for (best,) in found] == [2, 4]
    assert model.rows == [2, 2, 2, 1, 1]


def test_a_sentence_with_as_many_hypotheses_as_the_beam_is_done():
    model = Constant(-9.0, 0.0, -1.0)  # END wherever it may be
    beam_search(model, sentences(2, 3, 3), torch.tensor([9, 9]), beam=1)
    assert model.rows == [2, 2]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_transformer_with_its_cached_states_finds_what_it_finds_without(norm):
    torch.manual_seed(0)
    model = transformer(norm=norm).double().eval()
    with torch.no_grad():
        model.decoder.output_projection.weight.mul_(3)  # so that probabilities differ
    source = pairs(30)[0][:, 0]
    longest = longest_targets(source, 1.2, 2, positions=LONGEST)
    cached = beam_search(sequence_model(model), source, longest)
    assert sequence_model(model) is model
    same(cached, beam_search(Uncached(model), source, longest))
    assert len({of[0].score for of in cached}) == len(source.unique(dim=0)) > 25


def test_an_end_beyond_the_beam_finishes_nothing():
    # After 2 and 3, with p = 0.5 and 0.3, p = 0.25 of 22 and 0.15 of 23 or 32 exceed the 0.1 of 2 and END, and so on.
    logits = torch.tensor([1e-30, 0.2, 0.5, 0.3]).double().log()
    found = beam_search(Constant(*logits.tolist()), sentences(1, 4, 2), torch.tensor([3]), beam=2)
    assert {len(h.tokens) for h in found[0]} == {3}


@pytest.mark.parametrize("logits", [(0.0, -torch.inf, 0.0), (0.0, torch.nan, 0.0), (0.0, torch.inf, 0.0)])
def test_a_model_that_cannot_end_has_no_hypothesis(logits):
    assert beam_search(Constant(*logits), sentences(2, 3, 3), torch.tensor([3, 3])) == [[], []]


def test_the_greatest_length_is_that_of_the_sentence_itself():
    source = torch.tensor([[5, 6, 7, END], [5, END, PAD, PAD]])
    assert longest_targets(source, 1.2, 10).tolist() == [14, 12]
    assert longest_targets(source, 1.2, 10, positions=14).tolist() == [13, 12]


def test_what_is_out_of_range_is_refused():
    source = sentences(1, 3, 3)
    with pytest.raises(ArgumentError, match="beam must be at least 1, got 0"):
        beam_search(Constant(0.0, 0.0, 0.0), source, torch.tensor([3]), beam=0)
    with pytest.raises(ArgumentError, match="factor must be a number of at least 0, got -1"):
        longest_targets(source, -1, 10)
    with pytest.raises(ArgumentError, match=r"constant must be a number of at least 1, got 0\.5"):
        longest_targets(source, 1, 0.5)
