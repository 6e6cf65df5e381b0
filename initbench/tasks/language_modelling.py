"""Language modelling: predict the token that follows each token of a block."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.registry import register_task
from initbench.tasks.task import Task, check_logits

if TYPE_CHECKING:
    from initbench.data.dataset import Dataset
    from initbench.models.batches import Batch

_NATS_PER_BIT = math.log(2)


@register_task(
    "language_modelling", reference="Gao et al., 2020, The Pile (arXiv 2101.00027), section 3.1: bits per byte"
)
class LanguageModelling(Task):
    """Cross-entropy in nats per token, judged by bits per byte of text, which are comparable across tokenizers.

    Inputs are blocks of tokens, int64, (N, T); targets are the tokens that follow each, int64, (N, T); outputs are
    logits, (N, T, vocabulary). Bits per byte are the nats of all targets divided by ln 2 times the bytes of text in
    these targets, which the dataset gives (`Splits.token_bytes`).

    Attributes:
        token_bytes: bytes in each token, int64 (vocabulary,), see `on`; None if each token is one byte.
        training_bytes: mean number of bytes per target of the training split.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("bits_per_byte", "lower", unit="bits", show="{:.3f}", best=0.0, primary=True),
        Metric("perplexity", "lower", best=1.0),
        Metric("loss", "lower", unit="nats", best=0.0),
    )
    recipe_fields: ClassVar[frozenset[str]] = frozenset({"label_smoothing"})

    token_bytes: Tensor | None = None
    training_bytes: float = 1.0

    def on(self, dataset: Dataset) -> LanguageModelling:
        """Return the task with the number of bytes in each of the dataset's tokens."""
        lengths = dataset.splits.token_bytes
        if lengths is None:
            return self
        task = copy.copy(self)
        task.token_bytes = lengths
        targets = dataset.train.targets
        task.training_bytes = float(lengths[targets].sum()) / targets.numel() if targets.numel() else 1.0
        return task

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy over all tokens, in nats, 0-dim."""
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def smoothed_loss(self, outputs: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the mean cross-entropy with targets (1 − ε) · one-hot + ε / vocabulary, 0-dim.

        Source: Vaswani et al., Attention Is All You Need, 2017, section 5.4.
        """
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), label_smoothing=label_smoothing)

    def reference_losses(self, outputs: int) -> dict[str, float]:
        """Return ``log_vocabulary``, the loss of a uniform prediction, in nats per token."""
        return {"log_vocabulary": math.log(outputs)}

    def training_values(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return ``bits_per_byte``, 0-dim, without the loss's label smoothing.

        Each token counts as the mean number of bytes in the training split, so that the mean over an epoch is exactly
        all bits over all bytes, although batches differ in bytes.
        """
        return self.training_values_of(self.loss(outputs, targets))

    def training_values_of(self, loss: Tensor) -> dict[str, Tensor]:
        """Return ``bits_per_byte`` of a batch, 0-dim, from its mean loss in nats per token."""
        return {"bits_per_byte": loss / (_NATS_PER_BIT * self.training_bytes)}

    def totals(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return the summed cross-entropy in nats, added in float64, and the numbers of target tokens and bytes."""
        nats = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        tokens = torch.full((), targets.numel(), device=targets.device)
        return {"nats": nats.double().sum(), "tokens": tokens, "bytes": self._bytes(targets).sum()}

    def values(self, totals: Mapping[str, float], samples: int) -> dict[str, float]:
        """Return ``bits_per_byte``, ``perplexity`` per token, and ``loss`` in nats per token.

        A perplexity that overflows is infinite; bits per byte are NaN if the tokens contain no bytes.
        """
        loss = totals["nats"] / totals["tokens"]
        bits = totals["nats"] / _NATS_PER_BIT
        return {
            "bits_per_byte": bits / totals["bytes"] if totals["bytes"] else math.nan,
            "perplexity": _exp(loss),
            "loss": loss,
        }

    def constant_predictor(self, targets: Tensor, outputs: int) -> Tensor:
        """Return the log of the unigram distribution of the targets, (T, vocabulary), the same at all positions."""
        counts = torch.bincount(targets.flatten(), minlength=outputs).double()
        return (counts / counts.sum()).log().expand(targets.shape[1], -1)

    def constant_totals(self, predicted: Tensor, targets: Tensor) -> list[dict[str, float]]:
        """Return the totals of each block, computed for all blocks at once because they all differ.

        Args:
            predicted: result of `constant_predictor`.
            targets: int64, (n, T), on the CPU.
        """
        nats = -predicted[0].log_softmax(0)[targets].sum(1)
        lengths = self._bytes(targets).sum(1)
        return [
            {"nats": total, "tokens": float(targets.shape[1]), "bytes": float(length)}
            for total, length in zip(nats.tolist(), lengths.tolist(), strict=True)
        ]

    def output_shape(self, inputs: Inputs, outputs: int) -> tuple[int, ...]:
        """Return (T, vocabulary)."""
        return (*inputs.shape, outputs)

    def inputs_for(self, shape: tuple[int, ...], outputs: int | None, example: Tensor | None = None) -> Inputs:
        """Return the description of one block; its vocabulary is the number of outputs, if known."""
        return super().inputs_for(shape, outputs, example) if outputs is None else Inputs(tuple(shape), outputs)

    def check_outputs(self, outputs: Tensor, expected: int) -> None:
        """Raise an InitializationError if outputs are not (N, T, vocabulary), or their vocabulary is too small."""
        check_logits(outputs, expected)

    def random_targets(self, outputs: int, samples: int, generator: torch.Generator) -> Tensor:
        """Return uniform tokens, int64, (samples, 1): blocks of one token, see `random_batch`."""
        return torch.randint(outputs, (samples, 1), generator=generator, device="cpu")

    def random_batch(self, inputs: Inputs, outputs: int, samples: int, generator: torch.Generator) -> Batch:
        """Return uniform tokens, then unrelated uniform targets, each (samples, T)."""
        tokens = self.random_inputs(inputs, samples, generator)
        return tokens, torch.randint(outputs, tuple(tokens.shape), generator=generator, device="cpu")

    def _bytes(self, targets: Tensor) -> Tensor:
        """Return the number of bytes in each target, in its shape."""
        if self.token_bytes is None:
            return torch.ones_like(targets)
        return self.token_bytes.to(targets.device)[targets]


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
