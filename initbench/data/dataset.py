"""A dataset: three splits, and their requirements for a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from initbench.inputs import Inputs

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Samples(ABC):
    """The samples of one split, wherever they are stored; `Split` holds them as tensors.

    Attributes:
        targets: class indices, int64 (N,), or other targets of the task; in memory, on the device.
    """

    targets: Tensor

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.targets)

    @property
    def device(self) -> torch.device:
        """The device that the samples are on or are sent to."""
        return self.targets.device

    @property
    def index_device(self) -> torch.device:
        """The device for the indices of samples."""
        return self.device

    @property
    @abstractmethod
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample's inputs, such as (C, H, W)."""

    @property
    def uncropped_shape(self) -> tuple[int, ...]:
        """The shape of an image before it is cropped to its middle; `sample_shape` if images are not cropped."""
        return self.sample_shape

    @property
    def lengths(self) -> Tensor | None:
        """Tokens in the longer sentence of each pair, with its end, int64 (N,), on the CPU; None without sentences."""
        return None

    @abstractmethod
    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of some samples, given by their indices (int64, on `index_device`)."""

    def batches(
        self, order: Iterable[Tensor | slice], boxes: Iterable[Tensor] | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `take` for each part of an order; later parts may be read ahead.

        Args:
            order: the indices of each batch; may be endless.
            boxes: for each batch, the boxes of `random_resized_crop` within images of `uncropped_shape`; None for
                images as `take` returns them.
        """
        from initbench.data.augmentation import random_resized_crop

        if boxes is None:
            yield from map(self.take, order)
            return
        for samples, boxes_of_batch in zip(order, boxes, strict=True):
            inputs, targets = self._take_uncropped(samples)
            yield random_resized_crop(inputs, boxes_of_batch, self.sample_shape[-2:]), targets

    def _take_uncropped(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return some samples as `take` does, but images of `uncropped_shape`."""
        return self.take(samples)

    @abstractmethod
    def to(self, device: torch.device | str) -> Samples:
        """Return the samples on a device."""


@dataclass(frozen=True)
class Split(Samples):
    """The samples of one split as tensors.

    Attributes:
        inputs: float32 (N, C, H, W) for images, int64 (N, T) for tokens.
        targets: class indices, int64 (N,), the next tokens of a text, int64 (N, T), or other targets of the task.
    """

    inputs: Tensor
    targets: Tensor

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample's inputs."""
        return tuple(self.inputs.shape[1:])

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of some samples, given by their indices (int64, on the split's device)."""
        return self.inputs[samples], self.targets[samples]

    def to(self, device: torch.device | str) -> Samples:
        """Return the split on a device."""
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True, eq=False)  # equal only to itself: tensors of this size are not compared
class Splits:
    """Returned by a dataset's factory: disjoint training, validation and test samples.

    Attributes:
        train: samples to train on.
        validation: samples for choosing hyperparameters; may be empty.
        test: samples for the reported metrics.
        token_bytes: the bytes of text in each token, int64 (vocabulary,); None if each token is one byte, or if the
            samples are not text.
        facts: other facts about the files, for the record: name → number (``unreadable_images_skipped``).
        detokenize: returns the text of a row of target tokens, up to the end of its sentence; None if the targets are
            not sentences.
    """

    train: Samples
    validation: Samples
    test: Samples
    token_bytes: Tensor | None = field(default=None, kw_only=True)
    facts: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    detokenize: Callable[[Iterable[int]], str] | None = field(default=None, kw_only=True)

    def to(self, device: torch.device | str) -> Splits:
        """Return the splits on a device."""
        parts = [split.to(device) for split in (self.train, self.validation, self.test)]
        token_bytes = None if self.token_bytes is None else self.token_bytes.to(device)
        return Splits(*parts, token_bytes=token_bytes, facts=self.facts, detokenize=self.detokenize)


@dataclass(frozen=True)
class Dataset:
    """A loaded dataset: its splits, the task to be learned, one sample, and the outputs that a model needs."""

    name: str
    task: str
    inputs: Inputs
    outputs: int
    splits: Splits

    @property
    def facts(self) -> Mapping[str, int]:
        return self.splits.facts

    @property
    def train(self) -> Samples:
        return self.splits.train

    @property
    def validation(self) -> Samples:
        return self.splits.validation

    @property
    def test(self) -> Samples:
        return self.splits.test
