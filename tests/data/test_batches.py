"""Batches: order, augmentation streams, and the endless batches of tuners and probes."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from initbench.data import augmentation
from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches, endless_batches
from initbench.data.dataset import Split
from initbench.randomness import generator

N = 50


def numbered(size=6):
    """Images whose pixels all hold their number, which is also their target; the left column holds its negative."""
    inputs = torch.arange(1.0, N + 1)[:, None, None, None].expand(N, 1, size, size).clone()
    inputs[..., 0] *= -1
    return Split(inputs, torch.arange(1, N + 1))


def epochs(count=2, batch_size=8, seed=0, **options):
    batches = TrainingBatches(numbered(), batch_size, Augmentation(**options), seed)
    return [list(batches.epoch()) for _ in range(count)]


def order(epoch):
    return torch.cat([batch.targets for batch in epoch])


def test_each_epoch_has_every_sample_once_in_a_new_order():
    first, second = epochs()
    assert [len(batch.targets) for batch in first] == [8] * 6 + [2]
    assert torch.equal(order(first).sort().values, torch.arange(1, N + 1))
    assert torch.equal(order(second).sort().values, torch.arange(1, N + 1))
    assert not torch.equal(order(first), order(second))
    for batch in first:
        assert torch.equal(batch.inputs[:, 0, 0, 1], batch.targets.float())
        assert torch.equal(batch.partners, batch.targets)
        assert batch.weight == 1


def test_a_single_sample_that_is_left_over_joins_the_last_batch():
    """Of one sample BatchNorm has no variance: PyTorch refuses it."""
    [epoch] = epochs(count=1, batch_size=N - 1, crop=1, flip=True, mixup=1.0)
    assert [len(batch.targets) for batch in epoch] == [N]
    for size in (7, 8, 49):
        batches = TrainingBatches(numbered(), size, Augmentation(), 0)
        sizes = [len(batch.targets) for batch in batches.epoch()]
        assert len(sizes) == len(batches)
        assert sum(sizes) == N
        assert 1 not in sizes


def test_seeds_give_different_orders():
    assert not torch.equal(order(epochs(seed=0)[0]), order(epochs(seed=1)[0]))


BOX = {"random_resized_crop": (0.2, 1.0)}


@pytest.mark.parametrize("other", [{"batch_size": 5}, BOX, {"crop": 2}, {"flip": True}, {"cutout": 3}, {"mixup": 1.0}])
def test_the_order_depends_on_nothing_but_the_seed(other):
    for ours, theirs in zip(epochs(), epochs(**other), strict=True):
        assert torch.equal(order(ours), order(theirs))


def images(epoch):
    return torch.cat([batch.inputs for batch in epoch])


@pytest.mark.parametrize("options", [BOX, {"crop": 2}, {"flip": True}, {"cutout": 3}, {"crop": 2, "flip": True}])
def test_crops_flips_and_cutout_do_not_depend_on_the_batch_size(options):
    for ours, theirs in zip(epochs(batch_size=8, **options), epochs(batch_size=25, **options), strict=True):
        assert torch.equal(images(ours), images(theirs))


def test_crops_reach_every_offset_and_flips_are_as_often_as_not():
    cropped = torch.cat([images(e).abs() / order(e)[:, None, None, None] for e in epochs(count=40, crop=1)])
    empty_above, empty_left = (cropped[:, 0, 0] == 0).all(1), (cropped[:, 0, :, 0] == 0).all(1)
    empty_below, empty_right = (cropped[:, 0, -1] == 0).all(1), (cropped[:, 0, :, -1] == 0).all(1)
    for empty in (empty_above, empty_below, empty_left, empty_right):
        assert abs(empty.double().mean() - 1 / 3) < 0.05  # 2,000 draws: 4 standard deviations are 0.042
    corner = (empty_above & empty_left).double().mean()
    assert abs(corner - 1 / 9) < 0.03  # rows and columns are independent: 4 standard deviations are 0.028
    flipped = torch.cat([images(e)[:, 0, 0, 0] > 0 for e in epochs(count=40, flip=True)])
    assert abs(flipped.double().mean() - 0.5) < 0.045


EVERYTHING = {**BOX, "crop": 2, "flip": True, "cutout": 3, "mixup": 1.0}
AUGMENTATIONS = {name: getattr(augmentation, name) for name in EVERYTHING}


@pytest.fixture
def draws(monkeypatch):
    """A function from options to what two epochs call each augmentation with, but for the images."""

    def of(**options):
        calls = {name: [] for name in EVERYTHING}
        for name, function in AUGMENTATIONS.items():

            def spy(inputs, *drawn, name=name, function=function):
                calls[name].append(drawn)
                return function(inputs, *drawn)

            monkeypatch.setattr(augmentation, name, spy)
        epochs(**options)
        return calls

    return of


def same(ours, theirs):
    pairs = [pair for call in zip(ours, theirs, strict=True) for pair in zip(*call, strict=True)]
    return bool(pairs) and all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


@pytest.mark.parametrize("switched", EVERYTHING)
def test_switching_one_augmentation_on_shifts_no_other(switched, draws):
    everything = draws(**EVERYTHING)
    without = draws(**{name: value for name, value in EVERYTHING.items() if name != switched})
    alone = draws(**{switched: EVERYTHING[switched]})
    assert same(alone[switched], everything[switched])
    assert not without[switched]
    for name in EVERYTHING.keys() - {switched}:
        assert same(without[name], everything[name])
        assert not alone[name]


def test_augmentations_are_applied_one_after_the_other():
    """Resized crop, crop, flip, cutout, mixup: a square of cutout lies whole in the image that is mixed."""
    applied = []
    with pytest.MonkeyPatch.context() as patch:
        for name, function in AUGMENTATIONS.items():
            patch.setattr(
                augmentation, name, lambda *a, name=name, function=function: applied.append(name) or function(*a)
            )
        epochs(count=1, batch_size=N, **EVERYTHING)
    assert applied == ["random_resized_crop", "crop", "flip", "cutout", "mixup"]


def test_squares_of_cutout_lie_anywhere_with_their_centres_in_the_image():
    """Row and column are each the centre's with probability 1/6; one pixel of an image is erased by a side of 1."""
    erased = torch.cat([images(e)[:, 0] == 0 for e in epochs(count=60, cutout=1)])
    assert torch.equal(erased.sum((1, 2)), torch.ones(60 * N, dtype=torch.int64))
    # 3,000 draws over 36 pixels: a count has mean 83 and standard deviation 9.
    counts = erased.sum(0)
    assert counts.min() > 83 - 4 * 9
    assert counts.max() < 83 + 4 * 9


def test_mixup_adds_a_permutation_of_the_batch_with_one_weight():
    for epoch in epochs(mixup=1.0):
        for batch in epoch:
            assert torch.equal(batch.partners.sort().values, batch.targets.sort().values)
            assert 0 <= batch.weight <= 1
            expected = batch.weight * batch.targets + (1 - batch.weight) * batch.partners
            torch.testing.assert_close(batch.inputs[:, 0, 3, 3], expected)
            torch.testing.assert_close(batch.inputs[:, 0, 3, 0], -expected)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_mixup_weights_are_drawn_from_the_beta_distribution(alpha):
    weights = torch.tensor([b.weight for e in epochs(count=100, batch_size=1, mixup=alpha) for b in e])
    # Beta(α, α): mean 1/2, variance 1 / (4 (2α + 1)); 5,000 draws.
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(weights.mean() - 0.5) < 4 * (variance / 5000) ** 0.5
    assert abs(weights.var() / variance - 1) < 0.08


def test_endless_batches_are_full_and_use_every_sample_before_one_comes_again():
    batches = [targets for _, targets in islice(endless_batches(numbered(), 8, generator(0, "tuner_batches")), 25)]
    assert [len(b) for b in batches] == [8] * 25
    stream = torch.cat(batches)
    for i in range(4):
        assert torch.equal(stream[i * N : (i + 1) * N].sort().values, torch.arange(1, N + 1))
    assert not torch.equal(stream[:N], stream[N : 2 * N])


def test_endless_batches_may_be_larger_than_the_split():
    inputs, targets = next(endless_batches(numbered(), 120, generator(0, "probe_batches")))
    assert len(targets) == 120
    assert torch.equal(inputs[:, 0, 0, 1], targets.float())
    assert targets.bincount()[1:].min() == 2


def test_endless_batches_of_tuners_and_probes_and_seeds_are_independent():
    streams = [(0, "tuner_batches"), (0, "probe_batches"), (1, "tuner_batches"), (0, "tuner_batches")]
    tuner, probe, other, again = (next(endless_batches(numbered(), N, generator(*stream)))[1] for stream in streams)
    assert torch.equal(tuner, again)
    assert not torch.equal(tuner, probe)
    assert not torch.equal(tuner, other)
