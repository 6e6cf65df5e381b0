"""From the names of images to the splits of a dataset, in memory or streamed, with the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initbench.data.dataset import Splits
from initbench.data.image_decoding import Decoder, Failure, Framing, batches_of, in_order, state_of, unreadable_now
from initbench.data.image_samples import ImagesInMemory, Standardization, StreamedImages
from initbench.data.image_survey import Moments, moments_of, moments_of_files
from initbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Decoded images of at most so many bytes, of all splits together, are held in memory where nobody says otherwise.
MEMORY = 2**31

Channels = tuple[float, float, float]


@dataclass(frozen=True)
class Names:
    """The images of one split.

    Attributes:
        names: their paths below the root.
        targets: class indices, int64 (N,).
    """

    names: list[str]
    targets: Tensor

    @classmethod
    def of(cls, names: Sequence[str], samples: Tensor, targets: Tensor) -> Names:
        """Return those of some samples.

        Args:
            names: of all.
            samples: indices, int64 (N,).
            targets: of these samples, int64 (N,).
        """
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
    """Return the three splits.

    Args:
        root: the folder that names are below.
        content: hash of the whole dataset.
        train: the training images.
        validation: the images for validation; may be none.
        test: the test images.
        framing: how images get one size.
        standardize: mean and deviation of each channel, of pixels between 0 and 1; None for those of the training
            images, cropped to their middle.
        in_memory: hold the images in memory; None to do so where they take at most `MEMORY` bytes.
        workers: processes that decode.

    Raises:
        DataError: an image cannot be read, or a channel of the training images is constant.
    """
    splits = (train, validation, test)
    make = _held if _fits(splits, framing, in_memory) else _streamed
    return make(root, content, splits, framing, standardize, workers)


def _fits(splits: Sequence[Names], framing: Framing, in_memory: bool | None) -> bool:
    """Return whether the images are to be held in memory."""
    if in_memory is not None:
        return in_memory
    pixels = sum(len(split.names) * framing.side(uncropped=split is splits[0]) ** 2 for split in splits)
    return 3 * pixels <= MEMORY


def _held(
    root: Path,
    _content: str,
    splits: Sequence[Names],
    framing: Framing,
    standardize: tuple[Channels, Channels] | None,
    workers: int,
) -> Splits:
    """Return splits whose images are decoded now."""
    # Windows of a random resized crop may lie anywhere in a training image.
    images = [_decoded(root, split, framing, workers, uncropped=split is splits[0]) for split in splits]
    standardization = _standardization(standardize or moments_of(framing.crop(images[0])))
    train, validation, test = (
        ImagesInMemory(split.targets, framing, standardization, own) for split, own in zip(splits, images, strict=True)
    )
    return Splits(train, validation, test)


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


def _streamed(
    root: Path,
    content: str,
    splits: Sequence[Names],
    framing: Framing,
    standardize: tuple[Channels, Channels] | None,
    workers: int,
) -> Splits:
    """Return splits whose images are decoded when they are asked for."""
    found = standardize or moments_of_files(root, splits[0].names, framing, content, workers)
    standardization = _standardization(found)
    states = [[state_of((root / name).stat()) for name in split.names] for split in splits]
    train, validation, test = (
        StreamedImages(split.targets, framing, standardization, root, split.names, own, split.targets, workers)
        for split, own in zip(splits, states, strict=True)
    )
    return Splits(train, validation, test)


def _standardization(found: tuple[Channels, Channels] | Moments) -> Standardization:
    mean, std = (found.mean(), found.std()) if isinstance(found, Moments) else found
    if not all(std):
        raise DataError("a channel of the training images is constant: say what to standardize by, as mean and std")
    shaped = (torch.tensor(values, dtype=torch.float32)[:, None, None] for values in (mean, std))
    return Standardization(*shaped)
