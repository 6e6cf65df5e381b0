"""The images of a dataset's splits: decoded once and held as bytes, or decoded on each use.

Both give the same numbers: `take` computes its result from the same bytes by the same operations on the device. With a
GPU, random resized crops are an exception: images decoded on each use are cropped on the CPU, by the processes that
decode, and images in memory on the GPU, so the last digits can differ. The results of one look at every file, which
images are readable and the mean and deviation, are cached in the user's cache folder by the content of the files.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import PIL
import torch
import torchvision
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2 import functional as transforms

from initbench.data import cache
from initbench.data.augmentation import random_resized_crop
from initbench.data.content import Content
from initbench.data.dataset import Samples, Splits
from initbench.data.image_decoding import (
    Decoder,
    Failure,
    File,
    Framing,
    State,
    batches_of,
    in_order,
    mapped_tensor,
    state_of,
    unreadable_now,
)
from initbench.errors import DataError
from initbench.models.batches import copies_from_pinned_memory

# By default, images are held in memory if all splits together take at most this many bytes.
MEMORY = 2**31

_KIND = "images"
# Raise it when the cached results change.
_FORMAT = 1
# Images whose sums are computed together, to bound memory.
_TOGETHER = 256
Channels = tuple[float, float, float]


@dataclass(frozen=True)
class Standardization:
    """The mean and deviation that standardize each channel, for pixels between 0 and 1: float32 (3, 1, 1)."""

    mean: Tensor
    std: Tensor

    def __call__(self, images: Tensor, *, mapped: bool = False) -> Tensor:
        """Return images, uint8 (N, 3, H, W), as standardized float32, like torchvision's ToDtype and Normalize.

        If `mapped`, a result on the CPU gets its own memory mapping, see `mapped_tensor`.
        """
        if mapped and images.device.type == "cpu":
            scaled = mapped_tensor(tuple(images.shape), torch.float32).copy_(images).mul_(1 / 255)
        else:
            scaled = transforms.to_dtype(images, torch.float32, scale=True)
        return scaled.sub_(self.mean).div_(self.std)

    def to(self, device: torch.device | str) -> Standardization:
        return Standardization(self.mean.to(device), self.std.to(device))


@dataclass(frozen=True)
class _Images(Samples):
    """Images of one split with their class indices, int64 (N,), and standardization, both on the device."""

    targets: Tensor
    framing: Framing
    standardization: Standardization

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return 3, self.framing.side(), self.framing.side()


@dataclass(frozen=True)
class ImagesInMemory(_Images):
    """Images held as bytes on the device: uint8 (N, 3, side, side).

    The side is `Framing.resize` for training images and `Framing.image_size` for others, which are never cropped at
    random.
    """

    images: Tensor

    @property
    def uncropped_shape(self) -> tuple[int, ...]:
        return tuple(self.images.shape[1:])

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        images = self.images[samples]
        if self.uncropped_shape != self.sample_shape:
            images = self.framing.crop(images)
        return self.standardization(images), self.targets[samples]

    def _take_uncropped(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        return self.standardization(self.images[samples]), self.targets[samples]

    def to(self, device: torch.device | str) -> ImagesInMemory:
        return replace(
            self,
            targets=self.targets.to(device),
            standardization=self.standardization.to(device),
            images=self.images.to(device),
        )


@dataclass(frozen=True)
class StreamedImages(_Images):
    """Images that are decoded on each use, by a number of processes that changes no result.

    Attributes:
        names: the path of each image relative to the root.
        states: each file's state when its content was hashed; any other state is an error.
        classes: `targets` on the CPU, int64 (N,), for reading by index.
    """

    root: Path
    names: Sequence[str]
    states: Sequence[State]
    classes: Tensor
    workers: int

    @property
    def index_device(self) -> torch.device:
        return torch.device("cpu")  # indices select names

    @property
    def uncropped_shape(self) -> tuple[int, ...]:
        return 3, self.framing.resize, self.framing.resize

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        return next(self._stream([samples], None, workers=0))

    def batches(
        self, order: Iterable[Tensor | slice], boxes: Iterable[Tensor] | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        return self._stream(order, boxes, self.workers)

    def _stream(
        self, order: Iterable[Tensor | slice], boxes: Iterable[Tensor] | None, workers: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        waiting: deque[Tensor] = deque()  # the targets of batches that are being decoded

        def files() -> Iterator[list[File]]:
            for samples in order:
                waiting.append(self.classes[samples])
                yield [File(self.names[i], self.states[i]) for i in self._indices(samples)]

        pinned = copies_from_pinned_memory(self.device)
        decoder = Decoder(self.root, self.framing, uncropped=boxes is not None)
        if boxes is None:
            read = in_order(decoder, files(), workers, pinned=pinned)
        else:
            cropped = _Cropped(decoder, self.standardization.to("cpu"))
            read = in_order(cropped, zip(files(), boxes, strict=True), workers, pinned=pinned)
        for images in read:
            if isinstance(images, Failure):
                raise unreadable_now(self.root, images)
            assert isinstance(images, Tensor)
            targets = waiting.popleft().to(self.device, non_blocking=pinned)
            inputs = images.to(self.device, non_blocking=pinned)
            yield self.standardization(inputs, mapped=True) if boxes is None else inputs, targets

    def _indices(self, samples: Tensor | slice) -> Iterable[int]:
        if isinstance(samples, slice):
            return range(*samples.indices(len(self.names)))
        return samples.tolist()

    def to(self, device: torch.device | str) -> StreamedImages:
        return replace(self, targets=self.targets.to(device), standardization=self.standardization.to(device))


class _Cropped(Dataset[object]):
    """Decodes batches of files and crops each image to its box, in the processes that decode."""

    def __init__(self, decoder: Decoder, standardization: Standardization) -> None:
        self.decoder, self.standardization = decoder, standardization

    def __getitem__(self, batch: tuple[list[File], Tensor]) -> object:
        """Return standardized images, float32 (N, 3, image_size, image_size), or the first `Failure`."""
        files, boxes = batch
        images = self.decoder[files]
        if not isinstance(images, Tensor):
            return images
        size = [self.decoder.framing.image_size] * 2
        return random_resized_crop(self.standardization(images, mapped=True), boxes, size)


@dataclass(frozen=True)
class Names:
    """The images of one split: their paths relative to the root, and class indices, int64 (N,)."""

    names: list[str]
    targets: Tensor

    @classmethod
    def of(cls, names: Sequence[str], samples: Tensor, targets: Tensor) -> Names:
        return cls([names[i] for i in samples.tolist()], targets)


def read_splits(
    root: Path,
    content: str,
    train: Names,
    validation: Names,
    test: Names,
    *,
    framing: Framing,
    standardize: tuple[Channels, Channels] | None,
    in_memory: bool | None,
    workers: int,
) -> Splits:
    """Return the three splits; `content` is the hash of the whole dataset.

    `standardize` is the mean and deviation of each channel, for pixels between 0 and 1; None to compute them from the
    center-cropped training images. The images are held in memory if `in_memory`, or for None if they take at most
    `MEMORY` bytes.
    """
    splits = (train, validation, test)
    if in_memory is None:
        pixels = sum(len(split.names) * framing.side(uncropped=split is train) ** 2 for split in splits)
        in_memory = 3 * pixels <= MEMORY
    made: list[Samples]
    if in_memory:
        # A random resized crop may take any part of a training image.
        images = [_decoded(root, split, framing, workers, uncropped=split is train) for split in splits]
        standardization = _standardization(standardize or moments_of(framing.crop(images[0])))
        made = [
            ImagesInMemory(split.targets, framing, standardization, decoded)
            for split, decoded in zip(splits, images, strict=True)
        ]
    else:
        moments = standardize or moments_of_files(root, train.names, framing, content, workers)
        standardization = _standardization(moments)
        states = [[state_of((root / name).stat()) for name in split.names] for split in splits]
        made = [
            StreamedImages(s.targets, framing, standardization, root, s.names, its_states, s.targets, workers)
            for s, its_states in zip(splits, states, strict=True)
        ]
    return Splits(*made)


def _decoded(root: Path, split: Names, framing: Framing, workers: int, *, uncropped: bool) -> Tensor:
    """Return all images of a split, uint8 (N, 3, side, side)."""
    side = framing.side(uncropped=uncropped)
    images = torch.empty(len(split.names), 3, side, side, dtype=torch.uint8)
    done = 0
    for decoded in in_order(Decoder(root, framing, uncropped=uncropped), batches_of(split.names), workers):
        if isinstance(decoded, Failure):
            raise unreadable_now(root, decoded)
        assert isinstance(decoded, Tensor)
        images[done : done + len(decoded)] = decoded
        done += len(decoded)
    return images


def _standardization(of: tuple[Channels, Channels] | Moments) -> Standardization:
    mean, std = (of.mean(), of.std()) if isinstance(of, Moments) else of
    if not all(std):
        raise DataError("a channel of the training images is constant: give mean and std to standardize by")
    shaped = (torch.tensor(values, dtype=torch.float32)[:, None, None] for values in (mean, std))
    return Standardization(*shaped)


def unreadable(root: Path, files: Iterable[str], content: Content, workers: int) -> dict[str, str]:
    """Return the images that cannot be read or decoded: path relative to the root → reason, in a few words.

    All readable `files` are decoded completely.
    """
    key = _key(content.hash)
    if (known := cache.read(_KIND, key)) is not None:
        kept: dict[str, str] = json.loads(known)
        return content.unreadable | kept
    reasons: dict[str, str] = {}
    batches = batches_of(name for name in files if name not in content.unreadable)
    for failures in in_order(_Failures(Decoder(root, Framing(1, 1))), batches, workers):
        assert isinstance(failures, list)
        reasons |= {failure.name: failure.reason for failure in failures}
    cache.write(_KIND, key, json.dumps(reasons))
    return content.unreadable | reasons


class _Failures(Dataset[object]):
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def __getitem__(self, files: list[File]) -> list[Failure]:
        read = map(self.decoder.read, files)
        return [image for image in read if isinstance(image, Failure)]


class Moments(NamedTuple):
    """Exact sums over pixels, independent of the order and grouping in which they are added.

    `sums` and `squares` are the sums of the bytes of each channel and of their squares.
    """

    pixels: int
    sums: tuple[int, ...]
    squares: tuple[int, ...]

    def plus(self, other: Moments) -> Moments:
        sums, squares = (
            tuple(a + b for a, b in zip(*pair, strict=True))
            for pair in ((self.sums, other.sums), (self.squares, other.squares))
        )
        return Moments(self.pixels + other.pixels, sums, squares)

    def mean(self) -> list[float]:
        """Return the mean of each channel, for pixels between 0 and 1."""
        return [total / (255 * self.pixels) for total in self.sums]

    def std(self) -> list[float]:
        """Return the population's standard deviation of each channel, for pixels between 0 and 1."""
        variances = [self.pixels * square - total**2 for total, square in zip(self.sums, self.squares, strict=True)]
        return [math.sqrt(variance) / (255 * self.pixels) for variance in variances]


NOTHING = Moments(0, (0, 0, 0), (0, 0, 0))


def moments_of(images: Tensor) -> Moments:
    total = NOTHING
    for part in torch.split(images, _TOGETHER):
        integers = part.int()
        sums, squares = (values.sum((0, 2, 3), dtype=torch.int64).tolist() for values in (integers, integers**2))
        total = total.plus(Moments(part[:, 0].numel(), tuple(sums), tuple(squares)))
    return total


def moments_of_files(root: Path, names: Sequence[str], framing: Framing, content: str, workers: int) -> Moments:
    """Return the moments of images that are not held in memory; `content` is the hash of the whole dataset."""
    chosen = hashlib.sha256(json.dumps(names).encode()).hexdigest()
    key = _key(content, framing.resize, framing.image_size, chosen)
    if (known := cache.read(_KIND, key)) is not None:
        pixels, sums, squares = json.loads(known)
        return Moments(pixels, tuple(sums), tuple(squares))
    total = NOTHING
    for moments in in_order(_Moments(Decoder(root, framing)), batches_of(names), workers):
        if isinstance(moments, Failure):
            raise unreadable_now(root, moments)
        assert isinstance(moments, Moments)
        total = total.plus(moments)
    cache.write(_KIND, key, json.dumps(total))
    return total


class _Moments(Dataset[object]):
    """Returns the moments of a batch of files, or the first failure."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def __getitem__(self, files: list[File]) -> object:
        images = self.decoder[files]
        return moments_of(images) if isinstance(images, Tensor) else images


def _key(content: str, *what: int | str) -> str:
    """Return a cache key; it includes library versions because they may read a file differently, or not at all."""
    versions = [_FORMAT, PIL.__version__, torchvision.__version__, torch.__version__]
    return hashlib.sha256(json.dumps([*versions, content, *what]).encode()).hexdigest()
