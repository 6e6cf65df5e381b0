"""Crop, flip, cutout and mixup against a loop over samples, torchvision and the formula."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torchvision.transforms import v2

from initbench.data.augmentation import crop, cutout, flip, mixup

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


@pytest.mark.parametrize("size", [1, 2, 3, 4, 16])
def test_cutout_erases_a_square_about_its_centre_as_torchvision_does(size):
    centres = torch.stack([torch.randint(5, (12,), generator=RANDOM), torch.randint(7, (12,), generator=RANDOM)], 1)
    centres[:4] = torch.tensor([[0, 0], [4, 6], [0, 6], [2, 3]])  # corners, where the square is cut off, and the middle
    expected = []
    for image, centre in zip(IMAGES, centres.tolist(), strict=True):
        first = [c - size // 2 for c in centre]
        (top, left), (bottom, right) = [max(f, 0) for f in first], [f + size for f in first]
        expected.append(v2.functional.erase(image, top, left, bottom - top, right - left, torch.zeros(1)))
    assert torch.equal(cutout(IMAGES, centres, size), torch.stack(expected))


def test_an_even_square_covers_what_the_authors_code_covers():
    erased = cutout(torch.ones(1, 1, 32, 32), torch.tensor([[5, 30]]), 16)[0, 0]
    expected = torch.ones(32, 32)
    expected[max(5 - 8, 0) : 5 + 8, 30 - 8 : min(30 + 8, 32)] = 0  # their clip(c - length // 2), clip(c + length // 2)
    assert torch.equal(erased, expected)


@pytest.mark.parametrize("weight", [0.1, 0.8])
def test_mixup_is_that_of_torchvision_whose_partners_are_the_samples_before(weight):
    theirs = v2.MixUp(num_classes=4)
    labels = torch.arange(12) % 4
    expected = theirs.transform(IMAGES, {"labels": labels, "batch_size": 12, "lam": weight})
    ours = mixup(IMAGES, weight, torch.arange(12).roll(1))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
