"""The images of one split: decoded once and held as bytes, or decoded anew whenever they are asked for.

Both give the same numbers: what `take` returns is computed from the same bytes by the same operations on the device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from initbench.data.dataset import Samples
from initbench.data.image_decoding import Decoder, Failure, File, Framing, State, in_order, unreadable_now
from initbench.data.mapped import mapped_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Standardization:
    """What is subtracted from each channel, and what it is divided by; of pixels between 0 and 1.

    Attributes:
        mean: of each channel, float32 (3, 1, 1).
        std: likewise.
    """

    mean: Tensor
    std: Tensor

    def __call__(self, images: Tensor, *, mapped: bool = False) -> Tensor:
        """Return images, uint8 (N, 3, H, W), as standardized float32, as torchvision's ToDtype and Normalize do.

        Args:
            images: on the device of the numbers.
            mapped: give the result memory of its own where it is on the CPU, see `mapped_tensor`.
        """
        if mapped and images.device.type == "cpu":
            scaled = mapped_tensor(tuple(images.shape), torch.float32).copy_(images).mul_(1 / 255)
        else:
            scaled = transforms.to_dtype(images, torch.float32, scale=True)
        return scaled.sub_(self.mean).div_(self.std)

    def to(self, device: torch.device | str) -> Standardization:
        """Return the numbers on a device."""
        return Standardization(self.mean.to(device), self.std.to(device))


@dataclass(frozen=True)
class _Images(Samples):
    """Images of one split.

    Attributes:
        targets: class indices, int64 (N,), on the device.
        framing: how images get one size.
        standardization: of the training split, on the device.
    """

    targets: Tensor
    framing: Framing
    standardization: Standardization

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return 3, self.framing.side(), self.framing.side()

    @property
    @abstractmethod
    def uncropped_shape(self) -> tuple[int, ...]:
        """The shape of one image before it is cropped to its middle."""


@dataclass(frozen=True)
class ImagesInMemory(_Images):
    """Images that are held as bytes, on the device.

    Attributes:
        images: uint8 (N, 3, side, side), where side is `Framing.resize` of training images and `Framing.image_size` of
            others, which nothing crops at random.
    """

    images: Tensor

    @property
    def uncropped_shape(self) -> tuple[int, ...]:
        """The shape of one image before it is cropped to its middle."""
        return tuple(self.images.shape[1:])

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of some samples, given by their indices (int64, on the device)."""
        return self._take(samples, uncropped=False)

    def batches(self, order: Iterable[Tensor | slice], *, uncropped: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what `take` returns for one part of an order after the other."""
        return (self._take(samples, uncropped=uncropped) for samples in order)

    def _take(self, samples: Tensor | slice, *, uncropped: bool) -> tuple[Tensor, Tensor]:
        images = self.images[samples]
        if not uncropped and self.uncropped_shape != self.sample_shape:
            images = self.framing.crop(images)
        return self.standardization(images), self.targets[samples]

    def to(self, device: torch.device | str) -> ImagesInMemory:
        """Return the images on a device."""
        return replace(
            self,
            targets=self.targets.to(device),
            standardization=self.standardization.to(device),
            images=self.images.to(device),
        )


@dataclass(frozen=True)
class StreamedImages(_Images):
    """Images that are decoded whenever they are asked for.

    Attributes:
        root: the folder of the dataset.
        names: the path of each image below it.
        states: each file's state when its content was known; a file that has another is an error.
        classes: `targets` where names are, int64 (N,), on the CPU.
        workers: processes that decode ahead; it changes no number.
    """

    root: Path
    names: Sequence[str]
    states: Sequence[State]
    classes: Tensor
    workers: int

    @property
    def index_device(self) -> torch.device:
        """Where the indices of samples are to be: where their names are."""
        return torch.device("cpu")

    @property
    def uncropped_shape(self) -> tuple[int, ...]:
        """The shape of one image before it is cropped to its middle."""
        return 3, self.framing.resize, self.framing.resize

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of some samples, decoded by this process.

        Args:
            samples: their indices, int64, on the CPU.

        Raises:
            DataError: a file cannot be read, or has changed.
        """
        return next(self._stream([samples], 0, uncropped=False))

    def batches(self, order: Iterable[Tensor | slice], *, uncropped: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what `take` returns for one part of an order after the other; workers decode the next ones meanwhile.

        Raises:
            DataError: a file cannot be read, or has changed.
        """
        return self._stream(order, self.workers, uncropped=uncropped)

    def _stream(
        self, order: Iterable[Tensor | slice], workers: int, *, uncropped: bool
    ) -> Iterator[tuple[Tensor, Tensor]]:
        waiting: deque[Tensor] = deque()  # the targets of batches that are being decoded

        def files() -> Iterator[list[File]]:
            for samples in order:
                waiting.append(self.classes[samples])
                yield [File(self.names[i], self.states[i]) for i in self._indices(samples)]

        decoder = Decoder(self.root, self.framing, uncropped=uncropped)
        pinned = self.device.type == "cuda"
        for images in in_order(decoder, files(), workers, pinned=pinned):
            if isinstance(images, Failure):
                raise unreadable_now(self.root, images)
            assert isinstance(images, Tensor)
            targets = waiting.popleft()
            yield (
                self.standardization(images.to(self.device, non_blocking=pinned), mapped=True),
                targets.to(self.device, non_blocking=pinned),
            )

    def _indices(self, samples: Tensor | slice) -> Iterable[int]:
        if isinstance(samples, slice):
            return range(*samples.indices(len(self.names)))
        indices: list[int] = samples.tolist()
        return indices

    def to(self, device: torch.device | str) -> StreamedImages:
        """Return the images with where they are sent to."""
        return replace(self, targets=self.targets.to(device), standardization=self.standardization.to(device))
