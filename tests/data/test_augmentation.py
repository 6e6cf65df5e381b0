"""Crop, flip and mixup against a loop over samples and the formula."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from initbench.data.augmentation import crop, flip, mixup

RANDOM = torch.Generator().manual_seed(0)
IMAGES = torch.randn(12, 3, 5, 7, generator=RANDOM)


@pytest.mark.parametrize("padding", [1, 4, 9])
def test_crop_is_a_window_of_the_padded_image(padding):
    offsets = torch.randint(2 * padding + 1, (12, 2), generator=RANDOM)
    offsets[0] = 0
    offsets[1] = 2 * padding
    expected = []
    for image, (top, left) in zip(IMAGES, offsets.tolist(), strict=True):
        canvas = torch.zeros(3, 5 + 2 * padding, 7 + 2 * padding)
        canvas[:, padding : padding + 5, padding : padding + 7] = image
        expected.append(canvas[:, top : top + 5, left : left + 7])
    assert torch.equal(crop(IMAGES, offsets, padding), torch.stack(expected))


def test_the_middle_window_is_the_image():
    assert torch.equal(crop(IMAGES, torch.full((12, 2), 4), 4), IMAGES)


def test_chosen_images_are_mirrored_left_to_right():
    chosen = torch.arange(12) % 3 == 0
    flipped = flip(IMAGES, chosen)
    for i in range(12):
        expected = IMAGES[i, :, :, torch.arange(6, -1, -1)] if i % 3 == 0 else IMAGES[i]
        assert torch.equal(flipped[i], expected)


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.9, 1.0])
def test_mixup_is_the_convex_combination(weight):
    partners = torch.randperm(12, generator=RANDOM)
    x = IMAGES.double()
    expected = torch.stack([weight * x[i] + (1 - weight) * x[partners[i]] for i in range(12)])
    torch.testing.assert_close(mixup(x, weight, partners), expected, rtol=1e-14, atol=1e-14)


def test_channels_last_images_give_the_same():
    strided = IMAGES.contiguous(memory_format=torch.channels_last)
    offsets = torch.randint(3, (12, 2), generator=RANDOM)
    assert torch.equal(crop(strided, offsets, 1), crop(IMAGES, offsets, 1))
    assert torch.equal(crop(IMAGES, torch.ones(12, 2, dtype=torch.int64), 1), functional.pad(IMAGES, (0,) * 4))
