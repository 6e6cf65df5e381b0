"""Translation: predict the tokens of a target sentence from a source sentence and the target tokens so far."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from initbench.errors import ArgumentError
from initbench.inputs import END, PAD, Inputs
from initbench.metric import Metric
from initbench.models.sentences import paired
from initbench.registry import register_task
from initbench.tasks import bleu
from initbench.tasks.search import beam_search, longest_targets, sequence_model
from initbench.tasks.task import Task, check_logits

if TYPE_CHECKING:
    from initbench.data.dataset import Dataset, Samples
    from initbench.models.batches import Batch

_FIRST_TOKEN = END + 1
# Of the search, see `Translation.final`.
_BEAM, _LENGTH_PENALTY = 5, 1.0
_PER_TOKEN, _MORE_TOKENS = 1.2, 10.0
_SENTENCES = 128  # translated at a time


@register_task("translation", reference="Vaswani et al., 2017, Attention Is All You Need (arXiv 1706.03762), section 3")
class Translation(Task):
    """Cross-entropy in nats per target token; the end of a sentence is a token, padding is not.

    Inputs are pairs of sentences, int64, (N, 2, L): the source, ended by `END`, and what the decoder reads, `END` and
    then the target tokens. Targets are the target tokens, then `END`, int64, (N, L). `PAD` fills all of them up to the
    longest. Outputs are logits, (N, L, target vocabulary).

    Attributes:
        detokenize: returns the text of target tokens, see `on`; None if the dataset has no text.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("loss", "lower", unit="nats", show="{:.3f}", best=0.0, primary=True),
    )
    final_metrics: ClassVar[tuple[Metric, ...]] = bleu.METRICS
    recipe_fields: ClassVar[frozenset[str]] = frozenset({"label_smoothing", "batch_tokens"})

    detokenize: Callable[[Iterable[int]], str] | None = None

    def on(self, dataset: Dataset) -> Translation:
        """Return the task with the dataset's way from tokens to text."""
        task = copy.copy(self)
        task.detokenize = dataset.splits.detokenize
        return task

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy over the target tokens, in nats, 0-dim."""
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD)

    def weight(self, targets: Tensor) -> Tensor:
        """Return the number of target tokens, int64, 0-dim."""
        return (targets != PAD).sum()

    def smoothed_loss(self, outputs: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the mean cross-entropy with targets (1 − ε) · one-hot + ε / vocabulary, 0-dim.

        Source: Vaswani et al., Attention Is All You Need, 2017, section 5.4. Since 2021, fairseq gives the other tokens
        ε / (vocabulary − 1) each and the target 1 − ε.
        """
        return functional.cross_entropy(
            outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=label_smoothing
        )

    def reference_losses(self, outputs: int) -> dict[str, float]:
        """Return ``log_vocabulary``, the loss of a uniform prediction, in nats per token."""
        return {"log_vocabulary": math.log(outputs)}

    def totals(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return the summed cross-entropy in nats, added in float64, and the number of target tokens."""
        nats = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="none")
        return {"nats": nats.double().sum(), "tokens": self.weight(targets)}

    def values(self, totals: Mapping[str, float], samples: int) -> dict[str, float]:
        """Return ``loss`` in nats per target token."""
        return {"loss": totals["nats"] / totals["tokens"]}

    def final(self, model: nn.Module, samples: Samples) -> dict[str, float]:
        """Return ``bleu`` and ``chrf`` of the model's translations, from 0 to 100; empty if the dataset has no text.

        Translations are found by beam search (`initbench.tasks.search`) with 5 hypotheses, length penalty 1 and at most
        1.2 · source length + 10 tokens, as in fairseq's recipe for IWSLT'14. They are compared as text with the target
        sentences, both turned from tokens into text in the same way.
        """
        if self.detokenize is None:
            return {}
        searched = sequence_model(model)
        translations: list[str] = []
        references: list[str] = []
        starts = range(0, len(samples), _SENTENCES)
        for inputs, targets in samples.batches(slice(start, start + _SENTENCES) for start in starts):
            source = inputs[:, 0]
            longest = longest_targets(source, _PER_TOKEN, _MORE_TOKENS, samples.sample_shape[1])
            hypotheses = beam_search(searched, source, longest, beam=_BEAM, length_penalty=_LENGTH_PENALTY)
            translations += [self.detokenize(of[0].tokens if of else ()) for of in hypotheses]
            references += map(self.detokenize, targets.tolist())
        return bleu.corpus_scores(translations, references)

    def signatures(self) -> dict[str, str]:
        """Return the signatures of ``bleu`` and ``chrf``: the search's settings, then sacrebleu's signature."""
        search = f"beam:{_BEAM}|lenpen:{_LENGTH_PENALTY:g}|maxlen:{_PER_TOKEN:g}*source+{_MORE_TOKENS:g}"
        return {name: f"{search}|{signature}" for name, signature in bleu.signatures().items()}

    def constant_predictor(self, targets: Tensor, outputs: int) -> Tensor:
        """Return the log of the unigram distribution of the target tokens, (L, vocabulary), equal at all positions."""
        counts = torch.bincount(targets[targets != PAD], minlength=outputs).double()
        return (counts / counts.sum()).log().expand(targets.shape[1], -1)

    def constant_totals(self, predicted: Tensor, targets: Tensor) -> list[dict[str, float]]:
        """Return the totals of each sentence, computed for all at once because nearly all differ.

        Args:
            predicted: result of `constant_predictor`.
            targets: int64, (n, L), on the CPU.
        """
        counted = targets != PAD
        nats = (-predicted[0].log_softmax(0)[targets]).where(counted, 0.0).sum(1)
        return [
            {"nats": total, "tokens": float(tokens)}
            for total, tokens in zip(nats.tolist(), counted.sum(1).tolist(), strict=True)
        ]

    def output_shape(self, inputs: Inputs, outputs: int) -> tuple[int, ...]:
        """Return (L, vocabulary)."""
        return (inputs.shape[1], outputs)

    def inputs_for(self, shape: tuple[int, ...], outputs: int | None, example: Tensor | None = None) -> Inputs:
        """Return the description of one pair; if the number of outputs is known, it is a joint vocabulary."""
        return super().inputs_for(shape, outputs, example) if outputs is None else Inputs(tuple(shape), outputs)

    def check_outputs(self, outputs: Tensor, expected: int) -> None:
        """Raise an InitializationError if outputs are not (N, L, vocabulary), or their vocabulary is too small."""
        check_logits(outputs, expected)

    def joined(self, first: Batch, second: Batch) -> Batch:
        """Return the pairs of two batches as one batch, the shorter ones filled with `PAD`."""
        longest = max(first[1].shape[1], second[1].shape[1])
        return super().joined(
            *((_filled(inputs, longest), _filled(targets, longest)) for inputs, targets in (first, second))
        )

    def random_inputs(self, inputs: Inputs, samples: int, generator: torch.Generator) -> Tensor:
        """Return pairs of random sentences of a joint vocabulary, int64, (samples, 2, L), see `random_batch`."""
        return self.random_batch(inputs, inputs.vocabulary or 0, samples, generator)[0]

    def random_targets(self, outputs: int, samples: int, generator: torch.Generator) -> Tensor:
        """Return uniform tokens, int64, (samples, 1): sentences of one token, see `random_batch`."""
        return torch.randint(_FIRST_TOKEN, outputs, (samples, 1), generator=generator, device="cpu")

    def random_batch(self, inputs: Inputs, outputs: int, samples: int, generator: torch.Generator) -> Batch:
        """Return pairs of unrelated random sentences, (samples, 2, L), and their targets, (samples, L).

        Tokens are uniform, without `PAD` and `END`. The number of tokens of a sentence, with its `END`, is uniform from
        2 to L, so that batches have padding as real ones do.

        Raises:
            ArgumentError: a vocabulary has no token beside `PAD` and `END`, or samples are not pairs of sentences.
        """
        least = min(inputs.vocabulary or 0, outputs)
        if not inputs.are_sentence_pairs or least <= _FIRST_TOKEN:
            raise ArgumentError(
                f"must be (2, positions) of at least {_FIRST_TOKEN + 1} tokens, with as many outputs, for task "
                f"{self.name}; got {inputs}, {outputs}",
                "inputs",
            )
        length = inputs.shape[1]
        source, targets = (
            _random_sentences(vocabulary, samples, length, generator)
            for vocabulary in (inputs.vocabulary or 0, outputs)
        )
        return paired(source, targets), targets


def _filled(sentences: Tensor, length: int) -> Tensor:
    return functional.pad(sentences, (0, length - sentences.shape[-1]), value=PAD)


def _random_sentences(vocabulary: int, samples: int, length: int, generator: torch.Generator) -> Tensor:
    tokens = torch.randint(_FIRST_TOKEN, vocabulary, (samples, length), generator=generator, device="cpu")
    last = torch.randint(min(1, length - 1), length, (samples, 1), generator=generator, device="cpu")
    position = torch.arange(length)
    return tokens.masked_fill(position == last, END).masked_fill(position > last, PAD)
