"""Datasets by name, and the random one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from initbench.data import data_root, load_dataset
from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry import DATASETS


def test_a_dataset_is_loaded_once_per_process():
    first = load_dataset("gaussian", {"train_size": 8, "image_size": 4})
    assert load_dataset("gaussian", {"image_size": 4, "train_size": 8}) is first
    assert load_dataset("gaussian", {"train_size": 9, "image_size": 4}) is not first


def test_the_device_is_that_which_was_asked_for():
    dataset = load_dataset("gaussian", {"train_size": 8, "image_size": 4}, "meta")
    splits = (dataset.train, dataset.validation, dataset.test)
    assert all(tensor.is_meta for split in splits for tensor in (split.inputs, split.targets))


def test_the_data_root(monkeypatch, tmp_path):
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("INITBENCH_DATA")
    monkeypatch.chdir(tmp_path)
    assert data_root() == Path.cwd() / "data"


def test_unknown_datasets_give_the_nearest_name():
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'fashion-mnist'.*did you mean 'fashion_mnist'"):
        load_dataset("fashion-mnist", {})


@pytest.mark.parametrize("name", ["cifar10", "digits", "fashion_mnist"])
def test_every_dataset_of_images_has_subsets_and_sizes(name):
    assert {"train_size", "image_size"} <= {argument.name for argument in DATASETS.get(name).arguments}


@pytest.mark.parametrize("name", ["digits", "gaussian"])
def test_the_declared_shape_is_that_of_the_data(name):
    traits, dataset = DATASETS.get(name).traits, load_dataset(name, {})
    assert (traits.input_shape, traits.num_classes) == (dataset.input_shape, dataset.num_classes)


def test_gaussian_is_standard_normal_with_uniform_labels():
    arguments = {"train_size": 3000, "image_size": 6, "channels": 2, "num_classes": 4, "test_size": 50}
    dataset = load_dataset("gaussian", arguments)
    assert dataset.train.inputs.shape == (3000, 2, 6, 6)
    assert [len(s) for s in (dataset.train, dataset.validation, dataset.test)] == [3000, 128, 50]
    x = dataset.train.inputs.double()  # 216,000 draws: bounds of 5 standard errors
    assert abs(x.mean()) < 0.011
    assert abs(x.var() - 1) < 0.016
    assert abs((x**4).mean() - 3) < 0.11
    counts = dataset.train.targets.bincount()
    assert len(counts) == 4
    assert (counts - 750).abs().max() < 5 * (3000 * 3 / 16) ** 0.5
    again = DATASETS.get("gaussian").build(arguments)
    assert torch.equal(again.train.inputs, dataset.train.inputs)
    assert not torch.equal(dataset.train.inputs[:50], dataset.test.inputs)


@pytest.mark.parametrize("argument", ["train_size", "image_size", "channels", "num_classes", "test_size"])
def test_gaussian_refuses_sizes_below_one(argument):
    with pytest.raises(ArgumentError) as refusal:
        load_dataset("gaussian", {argument: 0})
    assert str(refusal.value) == f"{argument} must be at least 1, got 0"
