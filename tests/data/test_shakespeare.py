"""Tiny Shakespeare: a file with a checksum, here a made-up one."""

from __future__ import annotations

import hashlib
import shutil
import urllib.error

import pytest
import torch

from initbench.data import describe_dataset, load_dataset, shakespeare
from initbench.data.published import ChecksumError
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs

TEXT = "".join(f"Speaker {i}:\nWords, words, words {i * i}.\n\n" for i in range(200)).encode()


def no_network(*_arguments, **_options):
    raise urllib.error.URLError("no network")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file in its place, which is the published one; no network."""
    root = tmp_path / "data"
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    monkeypatch.setattr(shakespeare, "CONTENT", f"sha256:{hashlib.sha256(TEXT).hexdigest()}")
    monkeypatch.setattr("torch.hub.download_url_to_file", no_network)
    path = root / "shakespeare" / "input.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(TEXT)
    return path


def test_it_plans_without_the_file():
    described = describe_dataset("shakespeare", {"context": 32})
    assert described.inputs == Inputs((32,), 256)
    # `sha256sum` of the published file.
    assert described.content == "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def test_its_beginning_is_to_train_on_and_its_end_is_the_test(file):
    assert file.exists()
    dataset = load_dataset("shakespeare", {"context": 16})
    twentieth = len(TEXT) // 20
    parts = (TEXT[: -2 * twentieth], TEXT[-2 * twentieth : -twentieth], TEXT[-twentieth:])
    for split, text in zip((dataset.train, dataset.validation, dataset.test), parts, strict=True):
        count = (len(text) - 1) // 16
        assert bytes(split.inputs.flatten().to(torch.uint8).numpy()) == text[: 16 * count]
    assert not list(file.parents[1].glob(".*"))  # no lock is taken to read


def test_another_file_is_named(file):
    file.write_bytes(TEXT[:-1])
    with pytest.raises(ChecksumError) as refusal:
        load_dataset("shakespeare", {"context": 17})
    assert refusal.value.file == str(file)


def test_without_network_one_line_says_what_to_put_where_and_nothing_is_written(file):
    root = file.parents[1]
    shutil.rmtree(root)
    with pytest.raises(DataError) as refusal:
        load_dataset("shakespeare", {"context": 18})
    message = str(refusal.value)
    assert all(
        part in message for part in ("shakespeare", "no network", shakespeare.URL, str(file.parent), "input.txt")
    )
    assert "\n" not in message
    assert not root.exists()


def test_it_is_downloaded_once_and_checked(file, monkeypatch):
    fetched = []

    def fake(url, target, checksum, progress):
        fetched.append((url, checksum, progress))
        with open(target, "wb") as part:  # noqa: PTH123
            part.write(TEXT)

    monkeypatch.setattr("torch.hub.download_url_to_file", fake)
    file.unlink()
    for context in (19, 20):
        load_dataset("shakespeare", {"context": context})
    assert fetched == [(shakespeare.URL, hashlib.sha256(TEXT).hexdigest(), False)]
    assert file.read_bytes() == TEXT
    assert [path.name for path in file.parents[1].iterdir()] == ["shakespeare"]


@pytest.mark.parametrize("argument", ["context", "train_size"])
def test_sizes_below_one_are_refused_without_data(argument):
    with pytest.raises(ArgumentError) as refusal:
        describe_dataset("shakespeare", {argument: 0})
    assert refusal.value.argument == argument
