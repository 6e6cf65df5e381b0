"""The standard library as text: the files themselves, each in one split."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from initbench.data import cache, describe_dataset, load_dataset, python_library
from initbench.data.content import combined
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs

LIBRARY = Path(argparse.__file__).parent
IDENTITY = """
import hashlib
from initbench.data import load_dataset
d = load_dataset("python_library", {"context": 64, "train_size": 500})
for split in (d.train, d.validation, d.test):
    print(hashlib.sha256(split.inputs.numpy().tobytes() + split.targets.numpy().tobytes()).hexdigest())
"""


def joined(names):
    return b"\0".join((LIBRARY / name).read_bytes() for name in names)


def test_every_file_is_in_one_split_in_the_order_of_names():
    every = [name for names in python_library.FILES for name in names]
    assert len(every) == len(set(every)) > 200
    assert all(list(names) == sorted(names) for names in python_library.FILES)
    assert not [name for name in every if {"test", "tests"} & set(name.split("/"))]


def test_shares_of_the_splits():
    sizes = [len(joined(names)) for names in python_library.FILES]
    assert 5e6 < sum(sizes) < 8e6
    shares = [size / sum(sizes) for size in sizes]
    # Of Python 3.11 they are 85, 5 and 10 %; of 3.14 some 82, 5 and 12 %.
    assert 0.8 < shares[0] < 0.87
    assert 0.04 < shares[1] < 0.06
    assert 0.09 < shares[2] < 0.14


def test_blocks_are_the_bytes_of_the_files():
    dataset = load_dataset("python_library", {"context": 100})
    assert (dataset.task, dataset.inputs, dataset.outputs) == ("language_modelling", Inputs((100,), 256), 256)
    assert dataset.splits.token_bytes is None
    for split, names in zip((dataset.train, dataset.validation, dataset.test), python_library.FILES, strict=True):
        text = np.frombuffer(joined(names), np.uint8)
        count = (len(text) - 1) // 100
        assert split.inputs.shape == (count, 100)
        assert bytes(split.inputs.flatten().to(torch.uint8).numpy()) == text[: count * 100].tobytes()
        assert bytes(split.targets.flatten().to(torch.uint8).numpy()) == text[1 : count * 100 + 1].tobytes()


def test_its_identity_is_the_files():
    names = [name for names in python_library.FILES for name in names]
    digests = {name: hashlib.sha256((LIBRARY / name).read_bytes()).hexdigest() for name in names}
    assert describe_dataset("python_library", {}).content == combined(digests)


def test_another_release_of_python_is_another_dataset(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})
    other = tmp_path / "python3.99"
    for names in python_library.FILES:
        for name in names:
            (other / name).parent.mkdir(parents=True, exist_ok=True)
            (other / name).write_bytes((LIBRARY / name).read_bytes())
    own = describe_dataset("python_library", {}).content
    monkeypatch.setattr(python_library, "library", lambda: other)
    assert describe_dataset("python_library", {}).content == own  # wherever it is installed
    (other / "ast.py").write_bytes((other / "ast.py").read_bytes() + b"\n")
    assert describe_dataset("python_library", {}).content != own
    with pytest.raises(DataError, match="python_library"):
        load_dataset("python_library", {}, content=own)
    (other / "ast.py").unlink()
    with pytest.raises(DataError, match=r"ast\.py.*source"):
        describe_dataset("python_library", {})


@pytest.mark.slow
def test_another_process_has_the_same_blocks():
    one, two = (
        subprocess.run([sys.executable, "-c", IDENTITY], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert one == two
    assert len(set(one.split())) == 3


@pytest.mark.parametrize("argument", ["context", "train_size"])
def test_sizes_below_one_are_refused(argument):
    for look_up in (load_dataset, describe_dataset):
        with pytest.raises(ArgumentError) as refusal:
            look_up("python_library", {argument: 0})
        assert refusal.value.argument == argument
