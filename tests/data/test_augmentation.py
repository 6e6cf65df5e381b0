"""Crops, flip, cutout and mixup against a loop over samples, torchvision and the formula."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torchvision.transforms import v2

from initbench.data import augmentation
from initbench.data.augmentation import crop, cutout, draw_boxes, flip, mixup, random_resized_crop

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


def triangles(length, size):
    """How much of each of `length` pixels is in each output pixel: a triangle as wide as it, two where it shrinks."""
    scale = length / size
    width = max(scale, 1.0)
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * scale
    distance = (torch.arange(length, dtype=torch.float64) + 0.5 - centre[:, None]).abs() / width
    weights = (1 - distance).clamp(min=0)
    return weights / weights.sum(1, keepdim=True)


BOXES = [(0, 0, 5, 7), (1, 2, 3, 4), (2, 0, 1, 1), (4, 6, 1, 1), (0, 3, 5, 2), (1, 1, 2, 6)] * 2


def test_a_resized_crop_is_the_box_under_triangles_of_an_output_pixel_s_size():
    expected = []
    for image, (top, left, height, width) in zip(IMAGES.double(), BOXES, strict=True):
        rows, columns = triangles(height, 4), triangles(width, 6)
        box = image[:, top : top + height, left : left + width]
        expected.append(torch.einsum("ih,jw,chw->cij", rows, columns, box))
    found = random_resized_crop(IMAGES, torch.tensor(BOXES), (4, 6))
    torch.testing.assert_close(found.double(), torch.stack(expected), rtol=0, atol=1e-6)  # float32 of values about 1


def test_a_resized_crop_is_torchvision_s_of_the_same_box_and_the_whole_image_is_itself():
    expected = [
        v2.functional.resized_crop(image, *box, size=[6, 6], antialias=True)
        for image, box in zip(IMAGES, BOXES, strict=True)
    ]
    assert torch.equal(random_resized_crop(IMAGES, torch.tensor(BOXES), (6, 6)), torch.stack(expected))
    whole = torch.tensor([[0, 0, 5, 7]] * 12)
    assert torch.equal(random_resized_crop(IMAGES, whole, (5, 7)), IMAGES)


def drawn(count, shape, scale, seed=0):
    boxes = draw_boxes(count, shape, scale, torch.Generator().manual_seed(seed))
    return boxes, boxes.double().unbind(1)


@pytest.mark.parametrize("shape", [(32, 32), (40, 30), (7, 9)])
def test_boxes_lie_in_the_image_with_the_area_and_the_ratio_that_were_asked_for(shape):
    _, (top, left, height, width) = drawn(5000, shape, (0.3, 0.8))
    assert min(top.min(), left.min()) >= 0
    assert (top + height).max() <= shape[0]
    assert (left + width).max() <= shape[1]
    # Sides are rounded to a pixel.
    area, low, high = shape[0] * shape[1], (height - 0.5) * (width - 0.5), (height + 0.5) * (width + 0.5)
    assert (high >= 0.3 * area).all()
    assert (low <= 0.8 * area).all()
    assert ((width + 0.5) / (height - 0.5) >= 3 / 4).all()
    assert ((width - 0.5) / (height + 0.5) <= 4 / 3).all()
    for offset, side, length in ((top, height, shape[0]), (left, width, shape[1])):
        assert ((offset == 0) & (side < length)).any()
        assert ((offset + side == length) & (offset > 0)).any()


def test_boxes_are_drawn_as_torchvision_draws_them():
    """Means of area, ratio and place, against 4,000 of torchvision's: within 5 standard errors of the difference."""
    theirs = v2.RandomResizedCrop(8, scale=(0.08, 1.0))
    image = torch.empty(3, 64, 48)
    torch.manual_seed(0)
    reference = torch.tensor([list(theirs.make_params([image]).values()) for _ in range(4000)], dtype=torch.float64)
    _, found = drawn(40_000, (64, 48), (0.08, 1.0))
    for ours, other in (
        (found[2] * found[3], reference[:, 2] * reference[:, 3]),
        ((found[3] / found[2]).log(), (reference[:, 3] / reference[:, 2]).log()),
        (found[0], reference[:, 0]),
        (found[1], reference[:, 1]),
    ):
        error = (ours.var() / len(ours) + other.var() / len(other)).sqrt()
        assert abs(ours.mean() - other.mean()) < 5 * error


@pytest.mark.parametrize(
    ("shape", "box"), [((8, 8), (0, 0, 8, 8)), ((100, 10), (43, 0, 13, 10)), ((10, 100), (0, 43, 10, 13))]
)
def test_where_no_box_fits_the_middle_is_taken_as_torchvision_does(shape, box):
    """The area of the whole image at a ratio of at most 4/3 does not fit into one of 10; into a square nearly never."""
    boxes, _ = drawn(200, shape, (1.0, 1.0))
    theirs = v2.RandomResizedCrop(8, scale=(1.0, 1.0))
    params = theirs.make_params([torch.empty(3, *shape)])
    if shape != (8, 8):
        assert (boxes == torch.tensor(box)).all()
        assert tuple(params.values()) == box
    assert (boxes == torch.tensor(box)).all(1).any()


def test_an_image_s_box_does_not_depend_on_how_many_follow(monkeypatch):
    monkeypatch.setattr(augmentation, "_TOGETHER", 10)
    assert torch.equal(drawn(30, (9, 9), (0.1, 1.0))[0], drawn(37, (9, 9), (0.1, 1.0))[0][:30])
