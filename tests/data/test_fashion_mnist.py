"""Fashion-MNIST, from small files of its format and from the real ones where they are installed."""

from __future__ import annotations

import gzip
import hashlib
import urllib.error
from pathlib import Path

import pytest
import torch
import torchvision

from initbench.data import fashion_mnist as module
from initbench.data import load_dataset
from initbench.data.published import ChecksumError
from initbench.errors import ArgumentError, DataError

TRAIN, TEST = 60, 20


def idx(values: torch.Tensor) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.dim()]) + sizes + bytes(values.flatten().tolist())


def contents() -> dict[str, bytes]:
    """Images whose first pixel is their number and whose label is the number's last digit."""

    def images(first, count):
        pixels = torch.randint(256, (count, 28, 28), generator=torch.Generator().manual_seed(first))
        pixels[:, 0, 0] = torch.arange(first, first + count)
        return pixels

    return {
        "train-images-idx3-ubyte": idx(images(0, TRAIN)),
        "train-labels-idx1-ubyte": idx(torch.arange(TRAIN) % 10),
        "t10k-images-idx3-ubyte": idx(images(TRAIN, TEST)),
        "t10k-labels-idx1-ubyte": idx(torch.arange(TRAIN, TRAIN + TEST) % 10),
    }


def write(folder: Path, *, zipped: bool) -> None:
    folder.mkdir(parents=True)
    for name, content in contents().items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty data root, and nothing installed; the small files are the published ones."""
    published = {name: hashlib.sha256(content).hexdigest() for name, content in contents().items()}
    monkeypatch.setattr(module, "FILES", published)
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(module, "SYSTEM_FOLDER", tmp_path / "system")
    return tmp_path / "data"


def numbers(split, dataset):
    """The images' numbers, by undoing the standardization: pixels are 0 to 255."""
    pixels = torch.cat([part.inputs.flatten() for part in (dataset.train, dataset.validation, dataset.test)])
    return ((split.inputs[:, 0, 0, 0] - pixels.min()) / (pixels.max() - pixels.min()) * 255).round().long()


def check(dataset):
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [TRAIN - 10, 10, TEST]
    assert dataset.inputs.shape == (1, 28, 28)
    assert (dataset.name, dataset.task, dataset.outputs) == ("fashion_mnist", "classification", 10)
    found = [numbers(part, dataset) for part in (dataset.train, dataset.validation, dataset.test)]
    assert torch.equal(torch.cat(found[:2]).sort().values, torch.arange(TRAIN))
    assert torch.equal(found[2], torch.arange(TRAIN, TRAIN + TEST))
    for part, number in zip((dataset.train, dataset.validation, dataset.test), found, strict=True):
        assert torch.equal(part.targets, number % 10)
    assert dataset.validation.targets.sort().values.tolist() == list(range(10))  # stratified


@pytest.mark.parametrize("zipped", [True, False])
def test_files_in_the_data_root_are_read(root, zipped):
    write(root / "FashionMNIST" / "raw", zipped=zipped)
    check(load_dataset("fashion_mnist", {"validation_size": 10}))


def test_installed_files_are_read_where_the_root_is_empty(root):
    write(module.SYSTEM_FOLDER, zipped=True)
    check(load_dataset("fashion_mnist", {"validation_size": 10}))
    assert not root.exists()


def test_missing_files_are_downloaded_once(root, monkeypatch):
    calls = []

    def fake(folder, *, download):
        calls.append(download)
        write(Path(folder) / "FashionMNIST" / "raw", zipped=False)

    monkeypatch.setattr(torchvision.datasets, "FashionMNIST", fake)
    check(load_dataset("fashion_mnist", {"validation_size": 10}))
    check(load_dataset("fashion_mnist", {"validation_size": 10, "train_size": TRAIN - 10}))
    assert calls == [True]
    assert sorted(p.name for p in root.rglob("*") if p.is_file()) == sorted(contents())


def test_without_network_one_line_says_what_to_put_where_and_nothing_is_written(root, monkeypatch):
    def fake(_folder, *, download):
        assert download
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(torchvision.datasets, "FashionMNIST", fake)
    with pytest.raises(DataError) as refusal:
        load_dataset("fashion_mnist", {})
    assert not isinstance(refusal.value, ChecksumError)
    named = [
        "no network",
        str(root / "FashionMNIST" / "raw"),
        "dataset-fashion-mnist",
        *(f"{n}.gz" for n in contents()),
    ]
    assert all(part in str(refusal.value) for part in named)
    assert "\n" not in str(refusal.value)
    assert not root.exists()


@pytest.mark.parametrize("name", contents())
@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_is_not_the_published_one_is_named(root, monkeypatch, name, zipped):
    monkeypatch.setattr(torchvision.datasets, "FashionMNIST", pytest.fail)
    write(root / "FashionMNIST" / "raw", zipped=zipped)
    path = root / "FashionMNIST" / "raw" / (f"{name}.gz" if zipped else name)
    content = contents()[name]
    changed = content[:-1] + bytes([content[-1] ^ 1])  # the last pixel, or label
    path.write_bytes(gzip.compress(changed) if zipped else changed)
    with pytest.raises(ChecksumError) as refusal:
        load_dataset("fashion_mnist", {"validation_size": 10})
    assert refusal.value.file == str(path)
    assert refusal.value.checksum == f"sha256:{hashlib.sha256(changed).hexdigest()}"
    assert refusal.value.published == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_a_damaged_archive_is_named(root):
    write(root / "FashionMNIST" / "raw", zipped=True)
    path = root / "FashionMNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError) as refusal:
        load_dataset("fashion_mnist", {"validation_size": 10})
    assert str(path) in str(refusal.value)


def test_too_large_a_validation_split_is_refused(root):
    write(root / "FashionMNIST" / "raw", zipped=False)
    for size in (5000, TRAIN, -1):
        with pytest.raises(ArgumentError, match=f"{size}$") as refusal:
            load_dataset("fashion_mnist", {"validation_size": size})
        assert refusal.value.argument == "validation_size"


@pytest.mark.skipif(
    not module.SYSTEM_FOLDER.is_dir(), reason="the Debian package dataset-fashion-mnist is not installed"
)
class TestPublishedFiles:
    @pytest.fixture(autouse=True)
    def empty_root(self, tmp_path, monkeypatch):
        monkeypatch.setenv("INITBENCH_DATA", str(tmp_path))

    def test_sizes_and_classes(self):
        dataset = load_dataset("fashion_mnist", {})
        assert dataset.train.targets.bincount().tolist() == [5500] * 10
        assert dataset.validation.targets.bincount().tolist() == [500] * 10
        assert dataset.test.targets.bincount().tolist() == [1000] * 10

    def test_mean_and_deviation_of_the_training_images(self):
        # The values that every tutorial normalizes by: 0.2860 and 0.3530 of pixels from 0 to 1.
        train = load_dataset("fashion_mnist", {"validation_size": 0}).train.inputs
        assert len(train) == 60_000
        assert train.min().item() == pytest.approx((0 - 0.2860) / 0.3530, abs=5e-4)
        assert train.max().item() == pytest.approx((1 - 0.2860) / 0.3530, abs=5e-4)

    def test_a_stratified_subset_of_smaller_images(self):
        dataset = load_dataset("fashion_mnist", {"train_size": 1000, "image_size": 14})
        assert dataset.train.inputs.shape == (1000, 1, 14, 14)
        assert dataset.train.targets.bincount().tolist() == [100] * 10
