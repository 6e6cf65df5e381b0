"""CIFAR-10, from small files of its format."""

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

PER_BATCH = 20
TRAIN = 5 * PER_BATCH


def rows(first: int, count: int) -> np.ndarray:
    """Images as CIFAR stores them: 1,024 red, 1,024 green, 1,024 blue values, row by row; numbered by the first red."""
    data = np.random.default_rng(first).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    data[:, 1, 3, 5] = 255  # a green pixel in row 3, column 5, ...
    data[:, 0, 3, 5] = data[:, 2, 3, 5] = 0  # ... that is nothing else
    data[:, 0, 0, 0] = np.arange(first, first + count)
    return data.reshape(count, 3072)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root whose files are not the published ones: only their presence is checked."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for i in range(6):
        labels = [n % 10 for n in range(i * PER_BATCH, (i + 1) * PER_BATCH)]
        batch = {"data": rows(i * PER_BATCH, PER_BATCH), "labels": labels}
        name = f"data_batch_{i + 1}" if i < 5 else "test_batch"
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(i) for i in range(10)]}))
    monkeypatch.setattr(
        torchvision.datasets.cifar, "check_integrity", lambda path, _checksum=None: Path(path).is_file()
    )
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("validation_size", [20, 0])
def test_files_in_the_data_root_are_read(root, validation_size):
    dataset = load_dataset("cifar10", {"validation_size": validation_size})
    parts = (dataset.train, dataset.validation, dataset.test)
    assert [len(part) for part in parts] == [TRAIN - validation_size, validation_size, PER_BATCH]
    assert dataset.input_shape == (3, 32, 32)
    found = []
    for part in parts:
        red = part.inputs[:, 0]
        low, high = dataset.train.inputs[:, 0].min(), dataset.train.inputs[:, 0].max()
        number = ((red[:, 0, 0] - low) / (high - low) * 255).round().long()
        assert torch.equal(part.targets, number % 10)
        found.append(number)
    assert torch.equal(torch.cat(found[:2]).sort().values, torch.arange(TRAIN))
    assert torch.equal(found[2], torch.arange(TRAIN, TRAIN + PER_BATCH))
    pixel = dataset.test.inputs[:, :, 3, 5]
    limits = dataset.train.inputs.amax((0, 2, 3))[1], dataset.train.inputs.amin((0, 2, 3))[[0, 2]]
    assert torch.equal(pixel[:, 1], limits[0].expand(PER_BATCH))
    assert torch.equal(pixel[:, [0, 2]], limits[1].expand(PER_BATCH, 2))
    assert not list(root.glob(".*"))  # no lock is taken to read


def test_each_channel_is_standardized(root):
    assert root.exists()
    train = load_dataset("cifar10", {"validation_size": 20}).train.inputs.double()
    torch.testing.assert_close(train.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        train.std((0, 2, 3), correction=0), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-5
    )


def test_without_network_one_line_says_what_to_put_where_and_nothing_is_written(tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        raise urllib.error.URLError("no network")

    root = tmp_path / "data"
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    monkeypatch.setattr(torchvision.datasets.cifar, "download_and_extract_archive", fail)
    with pytest.raises(DataError) as refusal:
        load_dataset("cifar10", {})
    assert str(refusal.value) == (
        "cifar10 is missing and cannot be downloaded (<urlopen error no network>): "
        f"put cifar-10-python.tar.gz (https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz) into {root}"
    )
    assert not root.exists()
