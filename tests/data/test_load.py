"""Datasets by name, and the random one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from initbench.data import (
    Dataset,
    Description,
    Inputs,
    Split,
    Splits,
    cache,
    content,
    content_hash,
    data_root,
    describe_dataset,
    load_dataset,
)
from initbench.errors import ArgumentError, DataError, UnknownNameError
from initbench.registry import DATASETS, register_dataset


def test_a_dataset_is_loaded_once_per_process():
    first = load_dataset("gaussian", {"train_size": 8, "image_size": 4})
    assert load_dataset("gaussian", {"image_size": 4, "train_size": 8}) is first
    assert load_dataset("gaussian", {"train_size": 8, "image_size": 4, "channels": 3}) is first  # the default
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
    for look_up in (load_dataset, describe_dataset):
        with pytest.raises(UnknownNameError, match=r"fashion-mnist.*fashion_mnist"):
            look_up("fashion-mnist", {})


@pytest.mark.parametrize("name", ["cifar10", "digits", "fashion_mnist"])
def test_every_dataset_of_images_has_subsets_and_sizes(name):
    assert {"train_size", "image_size"} <= {argument.name for argument in DATASETS.get(name).arguments}


@pytest.mark.parametrize("name", ["digits", "gaussian"])
def test_the_declared_shape_is_that_of_the_data(name):
    description, dataset = describe_dataset(name, {}), load_dataset(name, {})
    assert (description.inputs, description.outputs) == (dataset.inputs, dataset.outputs)
    assert dataset.test.inputs.shape[1:] == dataset.inputs.shape
    assert dataset.test.targets.max() < dataset.outputs


def test_arguments_change_what_is_described():
    assert describe_dataset("digits", {"image_size": 5}).inputs == Inputs((1, 5, 5))
    assert load_dataset("digits", {"image_size": 5}).inputs == Inputs((1, 5, 5))
    described = describe_dataset("gaussian", {"image_size": 4, "channels": 2, "num_classes": 7})
    assert described == Description(Inputs((2, 4, 4)), 7)


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
    for look_up in (load_dataset, describe_dataset):
        with pytest.raises(ArgumentError) as refusal:
            look_up("gaussian", {argument: 0})
        assert refusal.value.argument == argument


@pytest.fixture
def numbers(scratch_registry, tmp_path, monkeypatch):
    """A plug-in's dataset: numbers of a file that an argument names; returns the file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path))
    monkeypatch.setattr(cache, "_made", {})
    monkeypatch.setattr(content, "SETTLED", -1)

    def describe(*, file: Path, **_):
        return Description(Inputs((1,)), 2, content_hash(data_root(), {"numbers": file}, "write the numbers"))

    @register_dataset("numbers", describe=describe)
    def numbers(file: Path = Path("numbers.txt"), classes: tuple[int, ...] = (0, 1)) -> Splits:
        values = [float(line) for line in (data_root() / file).read_text().split()]
        split = Split(torch.tensor(values)[:, None], torch.tensor([classes[value > 0] for value in values]))
        return Splits(split, split, split)

    path = tmp_path / "numbers.txt"
    path.write_text("1 -1 2")
    return path


class TestFilesOfAPlugIn:
    def test_they_are_loaded_as_they_are_now(self, numbers):
        first = load_dataset("numbers", {})
        assert load_dataset("numbers", {}) is first
        assert isinstance(first, Dataset)
        numbers.write_text("1 -1 3")
        assert load_dataset("numbers", {}).train.inputs.flatten().tolist() == [1, -1, 3]

    def test_others_than_the_trials_were_planned_with_are_refused(self, numbers):
        planned = describe_dataset("numbers", {}).content
        numbers.write_text("1 -1 3")
        found = describe_dataset("numbers", {}).content
        with pytest.raises(DataError) as refusal:
            load_dataset("numbers", {}, content=planned)
        assert all(part in str(refusal.value) for part in ("numbers", planned, found))
        numbers.write_text("1 -1 2")
        assert load_dataset("numbers", {}, content=planned).train.inputs.flatten().tolist() == [1, -1, 2]

    def test_what_was_loaded_stays_what_was_planned(self, numbers):
        """A trial that runs after the file has changed gets the data that it was planned with, from memory."""
        planned = describe_dataset("numbers", {}).content
        first = load_dataset("numbers", {}, content=planned)
        numbers.unlink()
        assert load_dataset("numbers", {}, content=planned) is first

    def test_files_that_change_while_they_are_loaded_are_refused(self, numbers, monkeypatch):
        read = Path.read_text

        def change(path, *arguments, **options):
            if path == numbers:
                numbers.write_text("5 6 7 8")
            return read(path, *arguments, **options)

        monkeypatch.setattr(Path, "read_text", change)
        with pytest.raises(DataError, match="numbers"):
            load_dataset("numbers", {})

    def test_where_they_lie_makes_no_difference(self, numbers, tmp_path):
        other = tmp_path / "elsewhere" / "copy.txt"
        other.parent.mkdir()
        other.write_text(numbers.read_text())
        planned = describe_dataset("numbers", {}).content
        for place in (str(other), other, "elsewhere/copy.txt"):
            assert describe_dataset("numbers", {"file": place}).content == planned
            dataset = load_dataset("numbers", {"file": place, "classes": [1, 0]}, content=planned)
            assert dataset.train.targets.tolist() == [0, 1, 0]

    def test_missing_ones_are_named(self, numbers):
        numbers.unlink()
        for look_up in (load_dataset, describe_dataset):
            with pytest.raises(DataError) as refusal:
                look_up("numbers", {})
            assert all(part in str(refusal.value) for part in (str(numbers), "write the numbers"))

    def test_two_data_roots_are_two_datasets(self, numbers, tmp_path, monkeypatch):
        first = load_dataset("numbers", {})
        root = tmp_path / "another"
        root.mkdir()
        (root / "numbers.txt").write_text(numbers.read_text())
        monkeypatch.setenv("INITBENCH_DATA", str(root))
        assert load_dataset("numbers", {}) is not first


def register_constant(*, shape=(2,), returns=None, describe=None):
    split = Split(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    declared = {"describe": describe} if describe else {"inputs": Inputs(shape), "outputs": 1}

    @register_dataset("constant", **declared)
    def constant():
        return returns or Splits(split, split, split)


@pytest.mark.usefixtures("scratch_registry")
class TestPlugIns:
    def test_inputs_and_outputs_that_are_always_the_same_are_declared(self):
        register_constant()
        assert describe_dataset("constant", {}) == Description(Inputs((2,)), 1)
        dataset = load_dataset("constant", {})
        assert (dataset.inputs, dataset.outputs, dataset.task) == (Inputs((2,)), 1, "classification")

    def test_content_that_is_not_declared_is_not_what_was_planned(self):
        register_constant()
        with pytest.raises(DataError, match=r"constant.*sha256:0"):
            load_dataset("constant", {}, content="sha256:0")

    def test_samples_of_another_shape_than_declared_are_refused(self):
        register_constant(shape=(3,))
        with pytest.raises(DataError, match=r"constant.*\(2,\).*\(3,\)"):
            load_dataset("constant", {})

    def test_what_is_not_splits_is_refused(self):
        register_constant(returns=(1, 2, 3))
        with pytest.raises(DataError, match=r"constant.*tuple.*Splits"):
            load_dataset("constant", {})

    def test_a_value_error_of_describe_is_about_its_arguments(self):
        def describe():
            raise ValueError("not today\nnor tomorrow")

        register_constant(describe=describe)
        for look_up in (load_dataset, describe_dataset):
            with pytest.raises(ArgumentError) as refusal:
                look_up("constant", {})
            assert (refusal.value.argument, refusal.value.problem) == (None, "not today")


@pytest.mark.parametrize("name", ["cifar10", "digits", "fashion_mnist"])
@pytest.mark.parametrize("argument", ["train_size", "image_size"])
def test_sizes_that_no_dataset_has_are_refused_without_data(name, argument):
    with pytest.raises(ArgumentError) as refusal:
        describe_dataset(name, {argument: 0})
    assert refusal.value.argument == argument
