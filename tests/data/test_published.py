"""The constants that stand for published data, against the data and what its publishers say."""

from __future__ import annotations

import gzip
import hashlib
import pickle
import struct
from importlib import resources

import pytest
import torchvision

from initbench.data import describe_dataset, fashion_mnist
from initbench.data.published import ChecksumError, read_published
from initbench.errors import DataError


def test_what_is_published_is_known_without_data(tmp_path, monkeypatch):
    """These stand in the ids of all trials: another hash is another dataset."""
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(fashion_mnist, "SYSTEM_FOLDER", tmp_path / "system")
    contents = {
        name: describe_dataset(name, {}).content
        for name in ("cifar10", "cifar100", "digits", "fashion_mnist", "gaussian")
    }
    assert contents == {
        "cifar10": "md5:c58f30108f718f92721af3b95e74349a",
        "cifar100": "md5:eb9058c3a382ffc7106e4002c42a8d85",
        "digits": "sha256:6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8",
        "fashion_mnist": "sha256:d0a13531871adf77cb1d75902c9d2a2fdf613723748f5e8c24e0169faf064dc8",
        "gaussian": None,
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["cifar10", "digits", "fashion_mnist"])
def test_arguments_are_not_part_of_the_content(name):
    assert describe_dataset(name, {"train_size": 100, "image_size": 5}).content == describe_dataset(name, {}).content


@pytest.mark.parametrize("name", ["CIFAR10", "CIFAR100"])
def test_cifar_is_known_by_the_checksum_that_torchvision_downloads_by(name):
    source = getattr(torchvision.datasets, name)
    assert describe_dataset(name.lower(), {}).content == f"md5:{source.tgz_md5}"


def test_digits_are_the_file_of_scikit_learn():
    packed = (resources.files("sklearn.datasets.data") / "digits.csv.gz").read_bytes()
    found = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    assert describe_dataset("digits", {}).content == f"sha256:{found}"


@pytest.mark.skipif(
    not fashion_mnist.SYSTEM_FOLDER.is_dir(), reason="the Debian package dataset-fashion-mnist is not installed"
)
class TestFashionMnist:
    def test_the_files_are_those_that_are_installed(self):
        for name, published in fashion_mnist.FILES.items():
            packed = (fashion_mnist.SYSTEM_FOLDER / f"{name}.gz").read_bytes()
            assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == published

    def test_they_are_those_that_torchvision_downloads(self):
        """Debian takes name and time out of the gzip header; put back, the published MD5 is found bit for bit."""
        published = dict(torchvision.datasets.FashionMNIST.resources)
        for name in fashion_mnist.FILES:
            packed = (fashion_mnist.SYSTEM_FOLDER / f"{name}.gz").read_bytes()
            assert packed[3] == 0, "the header holds a name"
            seconds = 1504176606 if name.startswith("train") else 1504176627  # 31 August 2017, 10:50 UTC
            header = b"\x1f\x8b\x08\x08" + struct.pack("<I", seconds) + packed[8:10] + name.encode() + b"\0"
            original = header + packed[10:]
            assert hashlib.md5(original, usedforsecurity=False).hexdigest() == published[f"{name}.gz"]


def test_a_file_is_read_where_its_checksum_is_right(tmp_path):
    path, text = tmp_path / "file.gz", b"content"
    path.write_bytes(gzip.compress(text))
    assert read_published("name", path, f"sha256:{hashlib.sha256(text).hexdigest()}") == text
    packed = f"md5:{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
    assert read_published("name", path, packed, decompress=False) == path.read_bytes()


def test_another_file_is_an_error_with_fields_that_reaches_other_processes(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"other")
    published, found = (f"sha256:{hashlib.sha256(text).hexdigest()}" for text in (b"content", b"other"))
    with pytest.raises(ChecksumError) as refusal:
        read_published("name", path, published)
    error = pickle.loads(pickle.dumps(refusal.value))  # noqa: S301 - our own
    assert (error.dataset, error.file, error.checksum, error.published) == ("name", str(path), found, published)
    assert all(part in str(error) for part in ("name", str(path), found, published))
    assert "missing" not in str(error)


@pytest.mark.parametrize("damage", ["absent", "cut", "no archive", "wrong block"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, damage):
    path, packed = tmp_path / "file.gz", gzip.compress(b"content" * 100)
    broken = {"cut": packed[:-9], "no archive": b"content", "wrong block": packed[:10] + b"\xff" + packed[11:]}
    if damage in broken:
        path.write_bytes(broken[damage])
    with pytest.raises(DataError) as refusal:
        read_published("name", path, "sha256:0")
    assert not isinstance(refusal.value, ChecksumError)
    assert str(path) in str(refusal.value)
