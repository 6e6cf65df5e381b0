"""CIFAR-10 and CIFAR-100, from small files of their formats."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import tarfile
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision

from initbench.data import load_dataset
from initbench.data.published import ChecksumError
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


FOLDERS = {10: ("cifar-10-batches-py", cifar10_files), 100: ("cifar-100-python", cifar100_files)}


def checksum(path):
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A data root with small files in CIFAR's formats, which are the published ones; no network."""
    root = tmp_path / "data"
    for classes, (name, write) in FOLDERS.items():
        folder, source = root / name, getattr(torchvision.datasets, f"CIFAR{classes}")
        folder.mkdir(parents=True)
        write(folder)
        for part in ("train_list", "test_list"):
            published = [[file, checksum(folder / file)] for file, _ in getattr(source, part)]
            monkeypatch.setattr(source, part, published)
        meta = source.meta["filename"]
        monkeypatch.setattr(source, "meta", source.meta | {"md5": checksum(folder / meta)})
    monkeypatch.setattr(torchvision.datasets.utils, "download_url", no_network)
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    return root


def no_network(*_arguments, **_options):
    raise urllib.error.URLError("no network")


def packed(root, classes, place, monkeypatch):
    """Put the files of a data root into an archive, which is the published one."""
    name, source = FOLDERS[classes][0], getattr(torchvision.datasets, f"CIFAR{classes}")
    archive = place / source.filename
    with tarfile.open(archive, "w:gz") as file:
        file.add(root / name, name)
    shutil.rmtree(root / name)
    monkeypatch.setattr(source, "tgz_md5", checksum(archive))
    return archive


@pytest.mark.parametrize("validation_size", [20, 0])
@pytest.mark.parametrize("classes", [10, 100])
def test_files_in_the_data_root_are_read(root, classes, validation_size):
    dataset = load_dataset(f"cifar{classes}", {"validation_size": validation_size})
    parts = (dataset.train, dataset.validation, dataset.test)
    assert [len(part) for part in parts] == [TRAIN - validation_size, validation_size, PER_BATCH]
    assert dataset.inputs.shape == (3, 32, 32)
    assert (dataset.name, dataset.task, dataset.outputs) == (f"cifar{classes}", "classification", classes)
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
def test_a_file_that_is_not_the_published_one_is_named(root, classes):
    for path in sorted((root / FOLDERS[classes][0]).iterdir()):
        content = path.read_bytes()
        published = f"md5:{checksum(path)}"
        path.write_bytes(content[:-1])
        with pytest.raises(ChecksumError) as refusal:
            load_dataset(f"cifar{classes}", {"validation_size": 20})
        error = refusal.value
        assert (error.file, error.checksum, error.published) == (str(path), f"md5:{checksum(path)}", published)
        path.write_bytes(content)


@pytest.mark.parametrize("classes", [10, 100])
def test_an_archive_in_the_data_root_is_unpacked(root, classes, monkeypatch):
    archive = packed(root, classes, root, monkeypatch)
    dataset = load_dataset(f"cifar{classes}", {"validation_size": 20, "train_size": 30})
    assert len(dataset.train) == 30
    assert archive.is_file()
    assert not list(root.glob(".*"))
    assert {path.name for path in root.iterdir()} == {archive.name, *(name for name, _ in FOLDERS.values())}


def test_an_archive_that_is_not_the_published_one_is_named(root, monkeypatch):
    archive = packed(root, 10, root, monkeypatch)
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(ChecksumError) as refusal:
        load_dataset("cifar10", {"validation_size": 20})
    assert refusal.value.file == str(archive)
    assert not (root / FOLDERS[10][0]).exists()


def test_missing_files_are_downloaded_and_those_that_are_wrong_are_replaced(root, tmp_path, monkeypatch):
    folder = root / FOLDERS[10][0]
    complete = {path.name: path.read_bytes() for path in folder.iterdir()}
    archive, fetched = packed(root, 10, tmp_path, monkeypatch), []

    def fake(url, folder, filename, md5):
        fetched.append((url, md5))
        shutil.copy(archive, Path(folder, filename))

    monkeypatch.setattr(torchvision.datasets.utils, "download_url", fake)
    folder.mkdir()
    (folder / "test_batch").write_bytes(b"of a download that broke off")
    load_dataset("cifar10", {"validation_size": 20, "train_size": 40})
    load_dataset("cifar10", {"validation_size": 20, "train_size": 50})
    assert fetched == [(torchvision.datasets.CIFAR10.url, checksum(archive))]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == complete
    assert not list(root.glob("*.gz"))


@pytest.mark.parametrize("classes", [10, 100])
def test_without_network_one_line_says_what_to_put_where_and_nothing_is_written(root, classes):
    shutil.rmtree(root)
    with pytest.raises(DataError) as refusal:
        load_dataset(f"cifar{classes}", {})
    assert not isinstance(refusal.value, ChecksumError)
    archive = f"cifar-{classes}-python.tar.gz"
    named = [f"cifar{classes}", "no network", archive, f"https://www.cs.toronto.edu/~kriz/{archive}", str(root)]
    assert all(part in str(refusal.value) for part in named)
    assert "\n" not in str(refusal.value)
    assert not root.exists()
