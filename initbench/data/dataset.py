"""A dataset: three splits, and what they ask of a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from initbench.inputs import Inputs


@dataclass(frozen=True)
class Split:
    """The samples of one split.

    Attributes:
        inputs: float32 (N, C, H, W) of images, int64 (N, T) of tokens.
        targets: class indices, int64 (N,), of text the next tokens, int64 (N, T), or what the task says.
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.targets)

    @property
    def device(self) -> torch.device:
        """Where the samples are."""
        return self.targets.device

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of some samples, given by their indices (int64, on the split's device)."""
        return self.inputs[samples], self.targets[samples]

    def to(self, device: torch.device | str) -> Split:
        """Return the split on a device."""
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Splits:
    """What a dataset's factory returns: disjoint training, validation and test samples.

    Attributes:
        train: what the model is trained on.
        validation: what hyperparameters are chosen by; may be empty.
        test: what is reported.
        token_bytes: the bytes of text that each token stands for, int64 (vocabulary,); None where each is one byte, and
            where samples are no text.
    """

    train: Split
    validation: Split
    test: Split
    token_bytes: Tensor | None = field(default=None, kw_only=True)

    def to(self, device: torch.device | str) -> Splits:
        """Return the splits on a device."""
        token_bytes = None if self.token_bytes is None else self.token_bytes.to(device)
        return Splits(self.train.to(device), self.validation.to(device), self.test.to(device), token_bytes=token_bytes)


@dataclass(frozen=True)
class Dataset:
    """A loaded dataset.

    Attributes:
        name: the registered name.
        task: the registered name of what is learned from it.
        inputs: one sample.
        outputs: how many outputs a model must have: classes, or tokens of a vocabulary.
        splits: the samples.
    """

    name: str
    task: str
    inputs: Inputs
    outputs: int
    splits: Splits

    @property
    def train(self) -> Split:
        """What the model is trained on."""
        return self.splits.train

    @property
    def validation(self) -> Split:
        """What hyperparameters are chosen by; may be empty."""
        return self.splits.validation

    @property
    def test(self) -> Split:
        """What is reported."""
        return self.splits.test

    def to(self, device: torch.device | str) -> Dataset:
        """Return the dataset on a device."""
        return replace(self, splits=self.splits.to(device))
