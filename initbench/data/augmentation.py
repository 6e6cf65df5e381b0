"""Random crops, horizontal flip, cutout and mixup, for whole batches and on their device.

Random numbers are drawn on the CPU, so that every device gets the same ones; applying them is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

# For the boxes of a random resized crop: the ratios of width to height, and the number of attempts before the whole
# image is taken, as in torchvision.
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10
# Boxes that are drawn together; bounds the memory for a million images.
_TOGETHER = 2**16


@dataclass(frozen=True)
class Augmentation:
    """How training batches are augmented, with the fields of `Recipe`; 0 and None for none.

    `random_resized_crop` is the smallest and largest share of an image's area for a random box, which is then resized
    to the image's size.
    """

    crop: int = 0
    flip: bool = False
    cutout: int = 0
    mixup: float = 0.0
    random_resized_crop: tuple[float, float] | None = None


def draw_boxes(count: int, shape: tuple[int, int], scale: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Return random boxes for `random_resized_crop`: top, left, height and width, int64 (count, 4), on the CPU.

    The area is uniform in `scale` times the area of an image of `shape` (height, width), the ratio of width to height
    log-uniform in `RATIO`, and the position uniform. A box that does not fit is drawn again, up to `ATTEMPTS` times;
    after that the largest central box with an allowed ratio is used. Every image takes the same number of random
    numbers.

    Source: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, section 6, with the bounds of
    torchvision.transforms.v2.RandomResizedCrop.
    """
    parts = [min(_TOGETHER, count - start) for start in range(0, count, _TOGETHER)]
    return torch.cat([_draw_boxes(part, shape, scale, generator) for part in parts])


def _draw_boxes(count: int, shape: tuple[int, int], scale: tuple[float, float], generator: torch.Generator) -> Tensor:
    height, width = shape
    area, ratio, top, left = torch.rand(4, count, ATTEMPTS, generator=generator, dtype=torch.float64, device="cpu")
    area = height * width * (scale[0] + (scale[1] - scale[0]) * area)
    low, high = (math.log(bound) for bound in RATIO)
    ratio = torch.exp(low + (high - low) * ratio)
    widths, heights = (area * ratio).sqrt().round().long(), (area / ratio).sqrt().round().long()
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    first = fits.byte().argmax(1)
    rows = torch.arange(count, device="cpu")
    heights, widths, top, left = (drawn[rows, first] for drawn in (heights, widths, top, left))
    top, left = (top * (height - heights + 1)).long(), (left * (width - widths + 1)).long()
    drawn = torch.stack([top, left, heights, widths], 1)
    return torch.where(fits.any(1, keepdim=True), drawn, torch.tensor(_middle(height, width), device="cpu"))


def _middle(height: int, width: int) -> list[int]:
    """Return the largest central box with an allowed ratio: for most images, the whole image."""
    h, w = min(height, round(width / RATIO[0])), min(width, round(height * RATIO[1]))
    return [(height - h) // 2, (width - w) // 2, h, w]


def random_resized_crop(inputs: Tensor, boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Return a box of each image (N, C, H, W), resized to `size` (bilinear, antialiased).

    The boxes, from `draw_boxes`, are on the CPU, because reading sizes from a device would wait for it.
    """
    from torchvision.transforms.v2 import functional as transforms

    pairs = zip(inputs, boxes.tolist(), strict=True)
    return torch.stack([transforms.resized_crop(image, *box, size=list(size)) for image, box in pairs])


def crop(inputs: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Return windows of the original size in the zero-padded images (N, C, H, W).

    `offsets` are the top and left of each window, int64 (N, 2) in [0, 2·padding].
    """
    n, channels, height, width = inputs.shape
    padded = functional.pad(inputs, (padding,) * 4)
    rows = offsets[:, 0, None] + torch.arange(height, device=inputs.device)
    columns = offsets[:, 1, None] + torch.arange(width, device=inputs.device)
    samples = torch.arange(n, device=inputs.device)[:, None, None, None]
    planes = torch.arange(channels, device=inputs.device)[None, :, None, None]
    return padded[samples, planes, rows[:, None, :, None], columns[:, None, None, :]]


def flip(inputs: Tensor, chosen: Tensor) -> Tensor:
    """Return the images (N, C, H, W), with the chosen ones, bool (N,), mirrored left to right."""
    return torch.where(chosen[:, None, None, None], inputs.flip(3), inputs)


def cutout(inputs: Tensor, centres: Tensor, size: int) -> Tensor:
    """Return the images (N, C, H, W) with a square of zeros in each, clipped at the image's edges.

    The square covers rows and columns c − ⌊size / 2⌋ to c − ⌊size / 2⌋ + size − 1 around its centre c, int64 (N, 2),
    which for an even size matches the authors' code. Zero is the training mean because the inputs are standardized.

    Source: DeVries & Taylor, Improved Regularization of Convolutional Neural Networks with Cutout, 2017, section 3.2.
    """
    first = centres - size // 2
    rows = torch.arange(inputs.shape[2], device=inputs.device) - first[:, 0, None]
    columns = torch.arange(inputs.shape[3], device=inputs.device) - first[:, 1, None]
    in_rows, in_columns = (rows >= 0) & (rows < size), (columns >= 0) & (columns < size)
    return inputs.masked_fill(in_rows[:, None, :, None] & in_columns[:, None, None, :], 0)


def mixup(inputs: Tensor, weight: float, partners: Tensor) -> Tensor:
    """Return λ·x + (1 − λ)·x[partners] for images x (N, C, H, W) and a permutation of the batch, int64 (N,).

    `weight` is λ, one for the whole batch, drawn from Beta(α, α).

    Source: Zhang, Cissé, Dauphin & Lopez-Paz, mixup: Beyond Empirical Risk Minimization, ICLR 2018.
    """
    return torch.lerp(inputs[partners], inputs, weight)
