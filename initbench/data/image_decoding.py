"""From the file of an image to bytes of pixels, here or in processes that work ahead."""

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
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.transforms.v2 import functional as transforms

from initbench.errors import DataError

State = tuple[int, int]
"""Size in bytes and time of modification in ns of a file: what it is known again by."""


@dataclass(frozen=True)
class Framing:
    """How every image gets one size, as by torchvision's ``Resize(resize)`` and ``CenterCrop(image_size)``.

    Attributes:
        resize: pixels of the shorter side, resized (bilinear, antialiased).
        image_size: side of the square in the middle of that.
    """

    resize: int
    image_size: int

    @property
    def margin(self) -> int:
        """Pixels between the square of side `resize` and that of side `image_size`, above and on the left."""
        return round((self.resize - self.image_size) / 2)

    def side(self, *, uncropped: bool = False) -> int:
        """Return the side of the square that `frame` gives."""
        return self.resize if uncropped else self.image_size

    def frame(self, image: Tensor, *, uncropped: bool = False) -> Tensor:
        """Return the square of an image: uint8 (3, H, W) to (3, image_size, image_size).

        Uncropped it is the square of side `resize` that has the other one `margin` pixels from its edge.
        """
        image = transforms.resize(image, [self.resize], antialias=True)
        # Where torchvision's center_crop begins, so that cropping twice is cropping once, whatever is rounded.
        top, left = (round((side - self.image_size) / 2) for side in image.shape[1:])
        if uncropped:
            top, left = top - self.margin, left - self.margin
        side = self.side(uncropped=uncropped)
        return image[:, top : top + side, left : left + side]

    def crop(self, images: Tensor) -> Tensor:
        """Return the middle of what `frame` gave uncropped: sides of `resize` to sides of `image_size`."""
        within = slice(self.margin, self.margin + self.image_size)
        return images[..., within, within]


class Failure(NamedTuple):
    """An image, by its path below the root, and why it could not be read, in a few words."""

    name: str
    reason: str


def unreadable_now(root: Path | str, failure: Failure) -> DataError:
    return DataError(f"{root}/{failure.name} cannot be read any more: {failure.reason}")


class File(NamedTuple):
    """A file to read, by its path below the root, and what it must be known again by; None for whatever is there."""

    name: str
    state: State | None = None


def decode(path: Path | str, state: State | None = None) -> Tensor:
    """Return an image as RGB, uint8 (3, H, W), whatever its mode, as torchvision's ImageFolder reads it.

    It raises exceptions of many kinds, as Pillow does; with `state`, also if the file is not the same as before.
    """
    with open(path, "rb") as file, warnings.catch_warnings():  # noqa: PTH123 - a million times
        if state is not None and state_of(os.fstat(file.fileno())) != state:
            raise OSError("it has changed since the trial began")
        warnings.simplefilter("ignore")  # Pillow's about palettes and about large images
        with Image.open(file) as image:
            decoded: Tensor = transforms.pil_to_tensor(image.convert("RGB"))
            return decoded


def state_of(status: os.stat_result) -> State:
    return status.st_size, status.st_mtime_ns


class Decoder(Dataset[object]):
    """Decodes batches of files; what goes to other processes is this and the names of each batch alone."""

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


class _InOrder(Sampler[list[File]]):
    """The batches of files in a given order, which may be without end."""

    def __init__(self, batches: Iterable[list[File]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[File]]:
        return iter(self.batches)


def in_order(
    dataset: Dataset[object], batches: Iterable[list[File]], workers: int, *, pinned: bool = False
) -> Iterator[object]:
    """Yield what a dataset makes of one batch of files after the other; no random number is drawn.

    At most two batches for each worker, a process that works ahead, wait to be taken, so that memory does not grow with
    the number of files. Tensors that are `pinned` can be copied by a GPU meanwhile.
    """
    loader = DataLoader(
        dataset,
        batch_size=None,
        sampler=_InOrder(batches),
        num_workers=workers,
        pin_memory=pinned,
        multiprocessing_context=_context() if workers else None,
        collate_fn=_as_it_is,
        # Without one of its own it would draw a seed from the global stream, which dropout reads.
        generator=torch.Generator(),
    )
    return iter(loader)


def _as_it_is(made: object) -> object:
    return made


def _context() -> multiprocessing.context.BaseContext:
    """Return how workers are started: from a process without threads and without CUDA, which has imported this module.

    A copy of this process (``fork``) would have the locks that its other threads held: those of Ray, of CUDA.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    return context


def batches_of(names: Iterable[str], size: int = 64) -> Iterator[list[File]]:
    """Yield files in small batches, for a look at each."""
    names = iter(names)
    while batch := [File(name) for name in islice(names, size)]:
        yield batch


def mapped_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a tensor of zeros on the CPU whose memory is mapped for it alone.

    PyTorch asks the C library for aligned memory. glibc (2.36) cuts it out of a larger block and keeps what is left
    over on both sides for small objects, so that the hole of a freed batch is too small for the next batch of the same
    size. An epoch of 71 batches of 25 MB took 1.7 GB where two batches were alive at a time.
    """
    if not math.prod(shape):
        return torch.zeros(shape, dtype=dtype)
    size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
