"""Greedy and beam search: the most probable translations that a sequence model gives of its sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from initbench.arguments import check_counts
from initbench.errors import ArgumentError
from initbench.inputs import END, PAD
from initbench.models.calls import tensor_of

_IMPOSSIBLE = -torch.inf


class State(Protocol):
    """A model's state after reading the sources and the tokens so far, one row for each hypothesis."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of these rows, int64 (M,); a row may be repeated or left out."""


_State = TypeVar("_State", bound=State)


class SequenceModel(Protocol[_State]):
    """A model that translates token by token."""

    def start(self, source: Tensor) -> _State:
        """Return the state before the first token, from sources int64 (N, S)."""

    def step(self, tokens: Tensor, state: _State) -> tuple[Tensor, _State]:
        """Return the logits (N, vocabulary) of the tokens after these, int64 (N,), and the next state."""


@dataclass(frozen=True)
class Pairs:
    """The state of `Uncached`: the sources, int64 (N, S), and the tokens so far, int64 (N, t)."""

    source: Tensor
    tokens: Tensor

    def select(self, rows: Tensor) -> Pairs:
        return Pairs(self.source[rows], self.tokens[rows])


class Uncached:
    """A model of pairs of sentences without `start` and `step`: it reads the whole pair anew for each token."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def start(self, source: Tensor) -> Pairs:
        return Pairs(source, source[:, :0])

    def step(self, tokens: Tensor, state: Pairs) -> tuple[Tensor, Pairs]:
        state = Pairs(state.source, torch.cat([state.tokens, tokens[:, None]], 1))
        sides = state.source, state.tokens
        length = max(side.shape[1] for side in sides)
        pair = torch.stack([functional.pad(side, (0, length - side.shape[1]), value=PAD) for side in sides], 1)
        return tensor_of(self.model(pair))[:, state.tokens.shape[1] - 1], state


def sequence_model(model: Any) -> SequenceModel[Any]:
    """Return a model itself if it has `start` and `step`, else an `Uncached` one."""
    has_both = callable(getattr(model, "start", None)) and callable(getattr(model, "step", None))
    return model if has_both else Uncached(model)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation.

    Attributes:
        tokens: its tokens, without END.
        score: its log-probability, END included, divided by its length with END to the power of the length penalty.
    """

    tokens: tuple[int, ...]
    score: float


def longest_targets(source: Tensor, factor: float, constant: float, positions: int | None = None) -> Tensor:
    """Return the largest number of tokens before END of each sentence's translation, int64 (N,).

    It is factor · length + constant, rounded down, where the length counts the tokens of the source sentence and its
    END. fairseq takes the length of the longest sentence in the batch, so its translations depend on which sentences
    share a batch; these do not.

    Args:
        source: int64 (N, S), padded.
        factor: tokens per token of the source.
        constant: tokens beside these, at least 1.
        positions: most tokens that the model can read, the END at its start included; None for no limit.

    Raises:
        ArgumentError: a number is out of its range.
    """
    if not 0 <= factor < torch.inf:
        raise ArgumentError(f"must be a number of at least 0, got {factor}", "factor")
    if not 1 <= constant < torch.inf:
        raise ArgumentError(f"must be a number of at least 1, got {constant}", "constant")
    longest = (factor * (source != PAD).sum(1).double() + constant).long()
    return longest if positions is None else longest.clamp(max=positions - 1)


@torch.no_grad()
def beam_search(
    model: SequenceModel[_State], source: Tensor, longest: Tensor, *, beam: int = 5, length_penalty: float = 1.0
) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each sentence, at most `beam`, those with the highest score first.

    This is the algorithm of fairseq (Ott et al., fairseq, 2019; `sequence_generator.py`), one of several that are
    called beam search (Sutskever et al., Sequence to Sequence Learning with Neural Networks, 2014, section 3.2):

    - Each step takes the 2 · beam most probable extensions of a sentence's hypotheses. An END among the first `beam`
      of these finishes its hypothesis; any other END is dropped. The first `beam` extensions by another token go on.
    - A sentence is done as soon as it has `beam` finished hypotheses, even if others could still get a higher score.
    - A hypothesis has at least one token before END and at most `longest`, after which END is the only extension. PAD
      is never an extension.
    - The score is Σ log p / length^length_penalty, in which END counts (Wu et al., Google's Neural Machine Translation
      System, 2016, section 7, divide by ((5 + length) / 6)^α).

    A beam of 1 is greedy search. Sentences that are done leave the batch. Which sentences share a batch changes nothing
    but the rounding of the logits.

    Args:
        model: in evaluation mode.
        source: int64 (N, S), each ended by END and padded.
        longest: largest number of tokens before END of each sentence, int64 (N,), at least 1, see `longest_targets`.
        beam: hypotheses that are followed at a time.
        length_penalty: exponent of the length; 0 for none, and larger for longer translations.

    Raises:
        ArgumentError: `beam` is below 1.
    """
    check_counts(beam=beam)
    device = source.device
    finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    sentences = torch.arange(len(source), device=device)  # those in the batch
    state = model.start(source).select(sentences.repeat_interleave(beam))
    # At first all hypotheses of a sentence are the empty one, which must not be extended twice.
    scores = torch.full((len(source), beam), _IMPOSSIBLE, dtype=torch.float64, device=device)
    scores[:, 0] = 0
    tokens = source.new_full((len(source), beam, 1), END)
    while len(sentences):
        length = tokens.shape[2]  # of the extended hypotheses, with END
        logits, state = model.step(tokens[:, :, -1].flatten(), state)
        possible = _log_probabilities(logits, length, longest[sentences].repeat_interleave(beam))
        # The best of a sentence are among the best of each of its hypotheses.
        totals, words = possible.topk(min(2 * beam, possible.shape[1]))
        choices = words.shape[1]
        totals, best = (totals.view(-1, beam, choices) + scores[:, :, None]).flatten(1).topk(2 * beam)
        origins, last = best // choices, words.view(-1, beam * choices).gather(1, best)

        ends = last == END
        ended = ends[:, :beam] & (totals[:, :beam] > _IMPOSSIBLE)
        _finish(finished, sentences, tokens, origins, totals, ended, length**length_penalty)

        # Each hypothesis has one END, so at least `beam` of the extensions are by another token.
        kept = ends.long().argsort(dim=1, stable=True)[:, :beam]
        scores, origins, last = totals.gather(1, kept), origins.gather(1, kept), last.gather(1, kept)
        tokens = torch.cat([tokens.gather(1, origins[:, :, None].expand(-1, -1, length)), last[:, :, None]], dim=2)

        full = torch.tensor([len(finished[index]) == beam for index in sentences.tolist()], device=device)
        going = ((scores > _IMPOSSIBLE).any(1) & ~full).nonzero()[:, 0]
        state = state.select((origins + beam * torch.arange(len(sentences), device=device)[:, None])[going].flatten())
        sentences, scores, tokens = sentences[going], scores[going], tokens[going]
    return [sorted(of, key=lambda hypothesis: -hypothesis.score) for of in finished]


def _log_probabilities(logits: Tensor, length: int, longest: Tensor) -> Tensor:
    """Return the log-probabilities of the extensions to a length with END; −∞ for extensions that are not allowed."""
    extensions = logits.log_softmax(1, dtype=torch.promote_types(logits.dtype, torch.float32))
    extensions = extensions.nan_to_num_(nan=_IMPOSSIBLE, neginf=_IMPOSSIBLE)
    end = extensions[:, END].clone() if length > 1 else _IMPOSSIBLE
    extensions.masked_fill_((length > longest)[:, None], _IMPOSSIBLE)
    extensions[:, PAD] = _IMPOSSIBLE
    extensions[:, END] = end
    return extensions


def _finish(
    finished: list[list[Hypothesis]],
    sentences: Tensor,
    tokens: Tensor,
    origins: Tensor,
    totals: Tensor,
    ended: Tensor,
    divisor: float,
) -> None:
    """Add the hypotheses that have `ended`, (sentences, beam), the most probable first."""
    beam = ended.shape[1]
    rows, ranks = ended.nonzero(as_tuple=True)
    ending = tokens[rows, origins[rows, ranks], 1:].tolist()
    of, values = sentences[rows].tolist(), totals[rows, ranks].tolist()
    for index, words, total in zip(of, ending, values, strict=True):
        if len(finished[index]) < beam:
            finished[index].append(Hypothesis(tuple(words), total / divisor))
