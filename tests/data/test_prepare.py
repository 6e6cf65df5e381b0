"""Stratified subsets, resizing and standardization."""

from __future__ import annotations

import pytest
import torch

from initbench.data.prepare import hold_out_validation, prepare, stratified_order, take_first
from initbench.errors import ArgumentError, DataError

# Classes of very different sizes: 500, 120, 37 and 3 samples, shuffled.
TARGETS = torch.cat([torch.full((n,), label) for label, n in enumerate((500, 120, 37, 3))])
TARGETS = TARGETS[torch.randperm(660, generator=torch.Generator().manual_seed(5))]


def test_the_order_is_a_permutation_that_is_always_the_same():
    order = stratified_order(TARGETS)
    assert torch.equal(order.sort().values, torch.arange(660))
    assert torch.equal(order, stratified_order(TARGETS))
    assert not torch.equal(order, stratified_order(TARGETS, seed=1))
    assert not torch.equal(order, torch.arange(660))


def test_every_stretch_of_the_order_holds_each_class_in_proportion():
    order = stratified_order(TARGETS)
    counts = torch.nn.functional.one_hot(TARGETS[order], 4).cumsum(0).double()
    proportion = TARGETS.bincount().double() / 660
    starts = torch.cat([torch.zeros(1, 4, dtype=torch.float64), counts])
    for length in (1, 10, 66, 140, 400, 660):
        held = starts[length:] - starts[:-length]
        assert (held - length * proportion).abs().max() <= 2


def test_samples_of_a_class_come_in_random_order():
    order = stratified_order(TARGETS)
    members = order[TARGETS[order] == 0].double()
    rank = torch.arange(len(members), dtype=torch.float64)
    assert abs(torch.corrcoef(torch.stack([members, rank]))[0, 1]) < 4 / 500**0.5  # 4 standard deviations


def test_validation_and_training_are_disjoint_and_smaller_subsets_are_part_of_larger_ones():
    train, validation = hold_out_validation(TARGETS, 100)
    assert torch.equal(torch.cat([train, validation]).sort().values, torch.arange(660))
    assert len(validation) == 100
    assert torch.equal(take_first(train, 50), take_first(train, 200)[:50])
    assert len(take_first(train, None)) == 560
    everything, nothing = hold_out_validation(TARGETS, 0)
    assert (len(everything), len(nothing)) == (660, 0)


def test_impossible_sizes_are_refused_by_name():
    with pytest.raises(ArgumentError, match=r"less than 660, got 660") as refusal:
        hold_out_validation(TARGETS, 660)
    assert refusal.value.argument == "validation_size"
    with pytest.raises(ArgumentError, match=r"at most 660, got 661") as refusal:
        take_first(torch.arange(660), 661)
    assert refusal.value.argument == "train_size"


def images(n, channels=3, size=8, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, channels, size, size), dtype=torch.uint8, generator=random)


def prepared(image_size=None, train=None):
    train = images(20) if train is None else train
    parts = [(x, torch.zeros(len(x), dtype=torch.uint8)) for x in (train, images(7, seed=1), images(9, seed=2))]
    return prepare("name", *parts, image_size=image_size)


def test_every_split_is_standardized_by_the_training_split_alone():
    dataset = prepared()
    raw = images(20).double()
    mean, deviation = raw.mean((0, 2, 3), keepdim=True), raw.std((0, 2, 3), correction=0, keepdim=True)
    for split, x in (
        (dataset.train, images(20)),
        (dataset.validation, images(7, seed=1)),
        (dataset.test, images(9, seed=2)),
    ):
        expected = (x.double() - mean) / deviation
        torch.testing.assert_close(split.inputs.double(), expected, rtol=0, atol=1e-5)  # float32
        assert split.inputs.dtype == torch.float32
        assert split.targets.dtype == torch.int64
    assert dataset.test.inputs.shape == (9, 3, 8, 8)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (20, 7, 9)


@pytest.mark.parametrize("size", [3, 4, 8, 13])
def test_resizing_is_bilinear_and_antialiased(size):
    # Written out: each output pixel is a mean under a triangle as wide as one output pixel, two where it shrinks.
    scale = 8 / size
    width = max(scale, 1.0)
    centre = (torch.arange(size, dtype=torch.float64) + 0.5) * scale
    distance = (torch.arange(8, dtype=torch.float64) + 0.5 - centre[:, None]).abs() / width
    weights = (1 - distance).clamp(min=0)
    weights /= weights.sum(1, keepdim=True)
    expected = torch.einsum("ih,jw,nchw->ncij", weights, weights, images(20).double())
    expected -= expected.mean((0, 2, 3), keepdim=True)
    expected /= expected.std((0, 2, 3), correction=0, keepdim=True)
    dataset = prepared(image_size=size)
    torch.testing.assert_close(dataset.train.inputs.double(), expected, rtol=0, atol=1e-4)  # float32 on values to 255
    assert dataset.test.inputs.shape == (9, 3, size, size)


def test_an_empty_split_stays_empty_when_resized():
    parts = [(x, torch.zeros(len(x))) for x in (images(4), images(0), images(3))]
    assert prepare("name", *parts, image_size=5).validation.inputs.shape == (0, 3, 5, 5)


def test_a_constant_channel_is_refused():
    train = images(20)
    train[:, 1] = 7
    with pytest.raises(DataError, match=r"^name: a channel of the 20 training images is constant$"):
        prepared(train=train)
