"""CIFAR-10 and CIFAR-100, from small files of their formats."""

from __future__ import annotations

import pickle
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision

from initbench.data import load_dataset
from initbench.errors import DataError
from initbench.registry import DATASETS

PER_BATCH = 20
TRAIN = 5 * PER_BATCH


def rows(first: int, count: int) -> np.ndarray:
    """Images as CIFAR stores them: 1,024 red, 1,024 green, 1,024 blue values, row by row; numbered by the first red."""
    data = np.random.default_rng(first).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    data[:, 1, 3, 5] = 255  # a green pixel in row 3, column 5, ...
    data[:, 0, 3, 5] = data[:, 2, 3, 5] = 0  # ... that is nothing else
    data[:, 0, 0, 0] = np.arange(first, first + count)
    return data.reshape(count, 3072)


def cifar10_files(folder: Path) -> None:
    for i in range(6):
        labels = [n % 10 for n in range(i * PER_BATCH, (i + 1) * PER_BATCH)]
        batch = {"data": rows(i * PER_BATCH, PER_BATCH), "labels": labels}
        name = f"data_batch_{i + 1}" if i < 5 else "test_batch"
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(i) for i in range(10)]}))


def cifar100_files(folder: Path) -> None:
    """One file per split, with two labels per image."""
    for name, first, count in (("train", 0, TRAIN), ("test", TRAIN, PER_BATCH)):
        numbers = range(first, first + count)
        labels = {"fine_labels": [n % 100 for n in numbers], "coarse_labels": [n % 20 for n in numbers]}
        (folder / name).write_bytes(pickle.dumps({"data": rows(first, count), **labels}))
    names = {"fine_label_names": [str(i) for i in range(100)], "coarse_label_names": [str(i) for i in range(20)]}
    (folder / "meta").write_bytes(pickle.dumps(names))


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root whose files are not the published ones: only their presence is checked."""
    for name, write in (("cifar-10-batches-py", cifar10_files), ("cifar-100-python", cifar100_files)):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    monkeypatch.setattr(
        torchvision.datasets.cifar, "check_integrity", lambda path, _checksum=None: Path(path).is_file()
    )
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("validation_size", [20, 0])
@pytest.mark.parametrize("classes", [10, 100])
def test_files_in_the_data_root_are_read(root, classes, validation_size):
    dataset = load_dataset(f"cifar{classes}", {"validation_size": validation_size})
    parts = (dataset.train, dataset.validation, dataset.test)
    assert [len(part) for part in parts] == [TRAIN - validation_size, validation_size, PER_BATCH]
    assert dataset.input_shape == (3, 32, 32)
    assert (dataset.name, dataset.num_classes) == (f"cifar{classes}", classes)
    found = []
    for part in parts:
        red = part.inputs[:, 0]
        low, high = dataset.train.inputs[:, 0].min(), dataset.train.inputs[:, 0].max()
        number = ((red[:, 0, 0] - low) / (high - low) * 255).round().long()
        assert torch.equal(part.targets, number % classes)
        found.append(number)
    assert torch.equal(torch.cat(found[:2]).sort().values, torch.arange(TRAIN))
    assert torch.equal(found[2], torch.arange(TRAIN, TRAIN + PER_BATCH))
    pixel = dataset.test.inputs[:, :, 3, 5]
    limits = dataset.train.inputs.amax((0, 2, 3))[1], dataset.train.inputs.amin((0, 2, 3))[[0, 2]]
    assert torch.equal(pixel[:, 1], limits[0].expand(PER_BATCH))
    assert torch.equal(pixel[:, [0, 2]], limits[1].expand(PER_BATCH, 2))
    assert not list(root.glob(".*"))  # no lock is taken to read


@pytest.mark.parametrize("classes", [10, 100])
def test_each_channel_is_standardized(root, classes):
    assert root.exists()
    train = load_dataset(f"cifar{classes}", {"validation_size": 20}).train.inputs.double()
    torch.testing.assert_close(train.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        train.std((0, 2, 3), correction=0), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("classes", [10, 100])
def test_what_is_declared_is_what_is_loaded(root, classes):
    assert root.exists()
    traits = DATASETS.get(f"cifar{classes}").traits
    dataset = load_dataset(f"cifar{classes}", {"validation_size": 20})
    assert (traits.input_shape, traits.num_classes) == (dataset.input_shape, dataset.num_classes)


@pytest.mark.parametrize("classes", [10, 100])
def test_without_network_one_line_says_what_to_put_where_and_nothing_is_written(classes, tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise urllib.error.URLError("no network")

    root = tmp_path / "data"
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    monkeypatch.setattr(torchvision.datasets.cifar, "download_and_extract_archive", fail)
    with pytest.raises(DataError) as refusal:
        load_dataset(f"cifar{classes}", {})
    archive = f"cifar-{classes}-python.tar.gz"
    assert str(refusal.value) == (
        f"cifar{classes} is missing and cannot be downloaded (<urlopen error no network>): "
        f"put {archive} (https://www.cs.toronto.edu/~kriz/{archive}) into {root}"
    )
    assert not root.exists()
