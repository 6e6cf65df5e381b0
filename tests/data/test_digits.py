"""The digits of scikit-learn."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest
import torch
from sklearn.datasets import load_digits

from initbench.data import digits as module
from initbench.data import load_dataset
from initbench.data.published import ChecksumError
from initbench.errors import ArgumentError
from initbench.registry import DATASETS

SPLITS = ("train", "validation", "test")


def raw(split, whole):
    """The original images, from standardized ones: darkest pixel 0, brightest 16 over the whole dataset."""
    low, high = (getattr(torch.cat([part.inputs for part in whole]), f)() for f in ("min", "max"))
    return ((split.inputs - low) / (high - low) * 16).round().to(torch.int64)


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits", {})


def test_three_splits_of_the_published_sizes(digits):
    assert [len(getattr(digits, name)) for name in SPLITS] == [1297, 140, 360]
    assert digits.train.inputs.shape[1:] == digits.inputs.shape == (1, 8, 8)
    assert (digits.name, digits.task, digits.outputs) == ("digits", "classification", 10)


def test_the_splits_are_disjoint_and_hold_every_image_once_with_its_label(digits):
    parts = [getattr(digits, name) for name in SPLITS]
    ours = Counter(
        (label, *pixels)
        for part in parts
        for label, pixels in zip(part.targets.tolist(), raw(part, parts).flatten(1).tolist(), strict=True)
    )
    bunch = load_digits()
    published = Counter(
        (label, *pixels) for label, pixels in zip(bunch.target.tolist(), bunch.data.astype(int).tolist(), strict=True)
    )
    assert ours == published


def test_the_splits_are_stratified(digits):
    targets = torch.from_numpy(load_digits().target)
    for name in SPLITS:
        part = getattr(digits, name).targets
        assert (part.bincount() - targets.bincount() * len(part) / 1797).abs().max() <= 1.5


def test_the_training_split_has_mean_0_and_deviation_1_and_the_others_do_not(digits):
    mean, deviation = (
        [getattr(getattr(digits, n).inputs.double(), f)(*a).item() for n in SPLITS]
        for f, a in (("mean", ()), ("std", (None,)))
    )
    assert abs(mean[0]) < 1e-6
    assert abs(deviation[0] - 1) < 1e-4  # `std` divides by N − 1 = 83,007
    assert min(abs(mean[1]), abs(mean[2])) > 1e-5


def test_subsets_leave_validation_and_test_as_they_are(digits):
    small = load_dataset("digits", {"train_size": 200})
    assert len(small.train) == 200
    assert torch.equal(small.train.targets, digits.train.targets[:200])
    assert torch.equal(small.test.targets, digits.test.targets)
    assert abs(small.train.inputs.double().mean()) < 1e-6  # standardized by its own mean
    assert (small.train.targets.bincount() - 20).abs().max() <= 1


def test_images_can_be_resized():
    assert load_dataset("digits", {"image_size": 5}).test.inputs.shape == (360, 1, 5, 5)


@pytest.mark.parametrize(
    ("arguments", "limit"),
    [
        ({"train_size": 1298}, "1297"),
        ({"train_size": 0}, "1"),
        ({"image_size": 0}, "1"),
        ({"trainsize": 5}, "train_size"),
    ],
)
def test_impossible_arguments_are_refused(arguments, limit):
    with pytest.raises(ArgumentError) as refusal:
        load_dataset("digits", arguments)
    assert [refusal.value.argument] == list(arguments)
    assert limit in refusal.value.problem


def test_another_file_of_scikit_learn_is_no_digits(tmp_path, monkeypatch):
    path = tmp_path / "digits.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n"))
    monkeypatch.setattr(module.resources, "files", lambda _package: tmp_path)
    with pytest.raises(ChecksumError) as refusal:
        DATASETS.get("digits").build({})
    assert (refusal.value.file, refusal.value.published) == (str(path), module.CONTENT)
