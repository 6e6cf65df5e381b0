"""Decode image files to bytes of pixels, in this process or in worker processes."""

from __future__ import annotations

import math
import mmap
import multiprocessing
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import functional as transforms

from initbench.errors import DataError

State = tuple[int, int]
"""Size in bytes and modification time in ns of a file, by which a change is noticed."""


@dataclass(frozen=True)
class Framing:
    """Resize and crop every image to one size, like torchvision's ``Resize(resize)`` and ``CenterCrop(image_size)``.

    The shorter side is resized to `resize` pixels (bilinear, antialiased); the result is the central square.
    """

    resize: int
    image_size: int

    @property
    def margin(self) -> int:
        """Pixels between the squares of sides `resize` and `image_size`, at the top and on the left."""
        return round((self.resize - self.image_size) / 2)

    def side(self, *, uncropped: bool = False) -> int:
        return self.resize if uncropped else self.image_size

    def frame(self, image: Tensor, *, uncropped: bool = False) -> Tensor:
        """Return the square of an image: uint8 (3, H, W) to (3, image_size, image_size).

        If uncropped, the square has side `resize` and contains the other one `margin` pixels from its edge.
        """
        image = transforms.resize(image, [self.resize], antialias=True)
        # The corner of torchvision's center_crop, so that cropping twice equals cropping once despite rounding.
        top, left = (round((side - self.image_size) / 2) for side in image.shape[1:])
        if uncropped:
            top, left = top - self.margin, left - self.margin
        side = self.side(uncropped=uncropped)
        return image[:, top : top + side, left : left + side]

    def crop(self, images: Tensor) -> Tensor:
        """Return the middle of uncropped results of `frame`: sides of `resize` to sides of `image_size`."""
        within = slice(self.margin, self.margin + self.image_size)
        return images[..., within, within]


class Failure(NamedTuple):
    """An image that cannot be read: its path relative to the root, and the reason in a few words."""

    name: str
    reason: str


def unreadable_now(root: Path | str, failure: Failure) -> DataError:
    return DataError(f"{root}/{failure.name} can no longer be read: {failure.reason}")


class File(NamedTuple):
    """A file to read: its path relative to the root, and the state that it must have; None for any state."""

    name: str
    state: State | None = None


def decode(path: Path | str, state: State | None = None) -> Tensor:
    """Return an image as RGB, uint8 (3, H, W), whatever its mode, as torchvision's ImageFolder reads it.

    Like Pillow it raises exceptions of many types; with `state`, also if the file has changed.
    """
    with open(path, "rb") as file, warnings.catch_warnings():  # noqa: PTH123 - a million times
        if state is not None and state_of(os.fstat(file.fileno())) != state:
            raise OSError("it has changed since the trial began")
        warnings.simplefilter("ignore")  # Pillow's about palettes and about large images
        with Image.open(file) as image, torch.device("cpu"):  # whatever the default device
            return transforms.pil_to_tensor(image.convert("RGB"))


def state_of(status: os.stat_result) -> State:
    return status.st_size, status.st_mtime_ns


class Decoder(Dataset[object]):
    """Decodes batches of files; only this object and the names of each batch are sent to other processes."""

    def __init__(self, root: Path, framing: Framing, *, uncropped: bool = False) -> None:
        self.root, self.framing, self.uncropped = str(root), framing, uncropped

    def __getitem__(self, files: list[File]) -> object:
        """Return the images, uint8 (N, 3, side, side), or the first `Failure`."""
        side = self.framing.side(uncropped=self.uncropped)
        images = mapped_tensor((len(files), 3, side, side), torch.uint8)
        for index, file in enumerate(files):
            image = self.read(file)
            if isinstance(image, Failure):
                return image
            images[index] = self.framing.frame(image, uncropped=self.uncropped)
        return images

    def read(self, file: File) -> Tensor | Failure:
        try:
            return decode(f"{self.root}/{file.name}", file.state)
        except Exception as error:  # noqa: BLE001  # Pillow raises OSError, SyntaxError, ValueError, struct.error, ...
            reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
            # Pillow names the file as an object: "cannot identify image file <_io.BufferedReader name='...'>".
            return Failure(file.name, reason.partition(" <_io.")[0])


def in_order(
    dataset: Dataset[object], batches: Iterable[object], workers: int, *, pinned: bool = False
) -> Iterator[object]:
    """Yield a dataset's result for one batch of files after another; no random number is drawn.

    At most two batches per worker process wait to be taken, so that memory does not grow with the number of files.
    `pinned` tensors can be copied by a GPU in the background.
    """
    loader = DataLoader(
        dataset,
        batch_size=None,
        sampler=batches,
        num_workers=workers,
        pin_memory=pinned,
        multiprocessing_context=_context() if workers else None,
        collate_fn=_as_it_is,
        # The default would draw a seed from the global stream, which dropout also uses.
        generator=torch.Generator(),
    )
    with torch.device("cpu"):  # whatever the default device: it draws a seed, on the default device by default
        return iter(loader)


def _as_it_is(made: object) -> object:
    return made


def _context() -> multiprocessing.context.BaseContext:
    """Return how workers are started: from a process without threads and CUDA that has imported this module.

    A fork of this process would inherit locks held by its other threads, such as those of Ray and CUDA.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    return context


def batches_of(names: Iterable[str], size: int = 64) -> Iterator[list[File]]:
    names = iter(names)
    while batch := [File(name) for name in islice(names, size)]:
        yield batch


def mapped_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a CPU tensor of zeros with its own memory mapping.

    PyTorch asks the C library for aligned memory. glibc (2.36) cuts it out of a larger block and uses the remainders on
    both sides for small objects, so the hole left by a freed batch is too small for the next batch of the same size. An
    epoch of 71 batches of 25 MB took 1.7 GB although only two batches were alive at a time.
    """
    if not math.prod(shape):
        return torch.zeros(shape, dtype=dtype, device="cpu")
    size = math.prod(shape) * dtype.itemsize
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
