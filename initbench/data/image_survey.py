"""One look at every image file before training: is it readable, and its share of the mean and deviation.

The results are cached in the user's cache folder by the content of the files.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import PIL
import torch
import torchvision
from torch import Tensor
from torch.utils.data import Dataset

from initbench.data import cache
from initbench.data.content import Content
from initbench.data.image_decoding import Decoder, Failure, File, Framing, batches_of, in_order, unreadable_now

_KIND = "images"
# Raise it when the cached results change.
_FORMAT = 1
# Images whose sums are computed together, to bound memory.
_TOGETHER = 256


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

    Attributes:
        pixels: number of pixels.
        sums: sum of the bytes of each channel.
        squares: sum of their squares.
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
