"""Random crop, horizontal flip, cutout and mixup, on whole batches and on their device.

The random numbers are drawn on the CPU, so that every device sees the same; applying them is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Augmentation:
    """What is done to training batches.

    Attributes:
        crop: pixels of zero padding on each side before a random crop to the original size; 0 for none.
        flip: horizontal flip with probability 1/2.
        cutout: side in pixels of the square that is set to 0; 0 for none.
        mixup: α of mixup's Beta(α, α); 0 for none.
    """

    crop: int = 0
    flip: bool = False
    cutout: int = 0
    mixup: float = 0.0


def crop(inputs: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Return windows of the original size, each at its own place in the zero-padded image.

    Args:
        inputs: images, (N, C, H, W).
        offsets: top and left of each window, int64 in [0, 2·padding], (N, 2).
        padding: zeros on each side, in pixels.
    """
    n, channels, height, width = inputs.shape
    padded = functional.pad(inputs, (padding,) * 4)
    rows = offsets[:, 0, None] + torch.arange(height, device=inputs.device)
    columns = offsets[:, 1, None] + torch.arange(width, device=inputs.device)
    samples = torch.arange(n, device=inputs.device)[:, None, None, None]
    planes = torch.arange(channels, device=inputs.device)[None, :, None, None]
    return padded[samples, planes, rows[:, None, :, None], columns[:, None, None, :]]


def flip(inputs: Tensor, chosen: Tensor) -> Tensor:
    """Return the images, the chosen ones mirrored left to right.

    Args:
        inputs: images, (N, C, H, W).
        chosen: bool, (N,).
    """
    return torch.where(chosen[:, None, None, None], inputs.flip(3), inputs)


def cutout(inputs: Tensor, centres: Tensor, size: int) -> Tensor:
    """Return the images with a square of zeros in each; what of it lies outside the image is cut off.

    The square covers rows and columns c − ⌊size / 2⌋ to c − ⌊size / 2⌋ + size − 1 about its centre c, which for an even
    size is what the authors' code covers. Zero is the training mean, as the inputs are standardized.

    Source: DeVries & Taylor, Improved Regularization of Convolutional Neural Networks with Cutout, 2017, section 3.2.

    Args:
        inputs: images, (N, C, H, W).
        centres: row and column of each square's centre, int64 in [0, H) and [0, W), (N, 2).
        size: the square's side in pixels.
    """
    first = centres - size // 2
    rows = torch.arange(inputs.shape[2], device=inputs.device) - first[:, 0, None]
    columns = torch.arange(inputs.shape[3], device=inputs.device) - first[:, 1, None]
    in_rows, in_columns = (rows >= 0) & (rows < size), (columns >= 0) & (columns < size)
    return inputs.masked_fill(in_rows[:, None, :, None] & in_columns[:, None, None, :], 0)


def mixup(inputs: Tensor, weight: float, partners: Tensor) -> Tensor:
    """Return λ·x + (1 − λ)·x[partners].

    Source: Zhang, Cissé, Dauphin & Lopez-Paz, mixup: Beyond Empirical Risk Minimization, ICLR 2018.

    Args:
        inputs: images, (N, C, H, W).
        weight: λ, one for the whole batch, drawn from Beta(α, α).
        partners: a permutation of the batch, int64, (N,).
    """
    return torch.lerp(inputs[partners], inputs, weight)
