"""Fashion-MNIST, from small files of its format and from the real ones where they are installed."""

from __future__ import annotations

import gzip
import urllib.error
from pathlib import Path

import pytest
import torch
import torchvision

from initbench.data import fashion_mnist as module
from initbench.data import load_dataset
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
    """An empty data root, and nothing installed."""
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(module, "SYSTEM_FOLDER", tmp_path / "system")
    return tmp_path / "data"


def numbers(split, dataset):
    """The images' numbers, by undoing the standardization: pixels are 0 to 255."""
    pixels = torch.cat([part.inputs.flatten() for part in (dataset.train, dataset.validation, dataset.test)])
    return ((split.inputs[:, 0, 0, 0] - pixels.min()) / (pixels.max() - pixels.min()) * 255).round().long()


def check(dataset):
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [TRAIN - 10, 10, TEST]
    assert dataset.input_shape == (1, 28, 28)
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
    assert str(refusal.value) == (
        "fashion_mnist is missing and cannot be downloaded (<urlopen error no network>): put "
        "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz "
        f"into {root}/FashionMNIST/raw, or install the Debian package dataset-fashion-mnist"
    )
    assert not root.exists()


@pytest.mark.parametrize("damage", ["cut", "not an archive", "other type"])
def test_damaged_files_are_named(root, damage):
    write(root / "FashionMNIST" / "raw", zipped=True)
    path = root / "FashionMNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    content = contents()["t10k-images-idx3-ubyte"]
    damaged = {
        "cut": gzip.compress(content[:-1]),
        "not an archive": content,
        "other type": gzip.compress(content[:2] + b"\x0d" + content[3:]),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz "):
        load_dataset("fashion_mnist", {"validation_size": 10})


def test_too_large_a_validation_split_is_refused(root):
    write(root / "FashionMNIST" / "raw", zipped=False)
    with pytest.raises(ArgumentError) as refusal:
        load_dataset("fashion_mnist", {})
    assert str(refusal.value) == f"validation_size must be less than {TRAIN}, got 5000"
    with pytest.raises(ArgumentError, match=r"^validation_size must be at least 0, got -1$"):
        load_dataset("fashion_mnist", {"validation_size": -1})


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
