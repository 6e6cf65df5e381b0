"""What can be wrong with a tree of images, each told in one line; and what is skipped or ignored is counted."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
import torch
from image_trees import forbid, make_tree, picture

from initbench.data import cache, content, describe_dataset, load_dataset
from initbench.data.image_samples import StreamedImages
from initbench.errors import DataError, InitbenchError
from initbench.execution.preflight import check_data
from initbench.execution.trial import run_trial
from initbench.ledger import Ledger
from initbench.suite.document import parse
from initbench.suite.load import suite_of
from suites import plan_of, the_trial


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_made", {})
    monkeypatch.setattr(content, "SETTLED", -1)


@pytest.fixture
def root(tmp_path):
    return make_tree(tmp_path / "tree")


def load(root, **arguments):
    return load_dataset("image_folder", {"root": str(root), "image_size": 8, **arguments})


def refused(root, *parts, **arguments):
    """Return the one line with these parts in which a tree is refused."""
    with pytest.raises(DataError) as refusal:
        load(root, **arguments)
    assert "\n" not in str(refusal.value)
    for part in parts:
        assert str(part) in str(refusal.value)
    return str(refusal.value)


def planned_refusal(root, *parts):
    """As `refused`, and already when it is planned."""
    with pytest.raises(DataError) as refusal:
        describe_dataset("image_folder", {"root": str(root)})
    assert str(refusal.value) == refused(root, *parts)


class TestFolders:
    def test_no_such_root(self, tmp_path):
        planned_refusal(tmp_path / "nowhere", f"{tmp_path / 'nowhere'} is not a folder", "/train/CLASS/")

    def test_a_file_in_its_place(self, tmp_path):
        (tmp_path / "file").write_text("")
        planned_refusal(tmp_path / "file", "is not a folder")

    def test_below_a_folder_that_may_not_be_entered(self, root, monkeypatch):
        def refuse(path, **_):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

        monkeypatch.setattr(Path, "stat", refuse)
        planned_refusal(root, f"{root} cannot be read: Permission denied")

    @pytest.mark.parametrize("split", ["train", "test"])
    def test_a_missing_split(self, root, split):
        shutil.rmtree(root / split)
        planned_refusal(root, f"{root / split} is not a folder")

    def test_a_split_without_classes(self, root):
        shutil.rmtree(root / "train")
        (root / "train").mkdir()
        (root / "train" / "loose.png").write_bytes(picture(0))
        planned_refusal(root, root / "train", "no class folders")

    @pytest.mark.parametrize(("here", "there"), [("train", "test"), ("test", "train")])
    def test_classes_that_a_split_lacks_are_named(self, root, here, there):
        for label in ("cat", "dog"):
            shutil.copytree(root / here / "ant", root / here / label)
        planned_refusal(root, root / there, "lacks the 2 classes cat, dog", root / here)

    def test_of_many_missing_classes_ten_are_named(self, root):
        for i in range(13):
            shutil.copytree(root / "train" / "ant", root / "train" / f"c{i:02}")
        planned_refusal(root, "lacks the 13 classes c00, c01", "c09 and 3 more")

    def test_test_images_without_classes_beside_val_as_imagenet_has_them(self, root):
        shutil.move(root / "test", root / "val")
        (root / "test").mkdir()
        (root / "test" / "1.png").write_bytes(picture(0))
        planned_refusal(root, f"move {root / 'test'} away")

    def test_empty_folders_are_named(self, root):
        (root / "train" / "cat").mkdir()
        (root / "test" / "cat").mkdir()
        (root / "test" / "cat" / "notes.txt").write_text("")
        planned_refusal(root, "no images in train/cat, test/cat")

    @pytest.mark.parametrize("target", ["train/ant", "train", "."])
    def test_a_link_to_a_folder_above_it(self, root, target):
        link = root / "train" / "ant" / "inner" / "loop"
        link.parent.mkdir()
        link.symlink_to(root / target)
        planned_refusal(root, link, "above it")

    def test_a_link_to_itself(self, root):
        link = root / "train" / "ant" / "self.png"
        link.symlink_to(link)
        planned_refusal(root, link, "cannot be read")

    def test_a_link_to_another_folder_is_followed(self, root, tmp_path):
        shutil.move(root / "train" / "ant", tmp_path / "elsewhere")
        (root / "train" / "ant").symlink_to(tmp_path / "elsewhere")
        assert len(load(root, validation_size=0).train) == 20

    def test_a_link_to_nothing(self, root):
        (root / "train" / "ant" / "gone.png").symlink_to(root / "nothing")
        planned_refusal(root, root / "train" / "ant" / "gone.png", "missing")

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_a_folder_that_may_not_be_read(self, root):
        (root / "train" / "ant").chmod(0)
        planned_refusal(root, root / "train" / "ant", "Permission denied")


BROKEN = {
    "truncated.png": lambda image: image[: len(image) // 2],
    "truncated.jpg": lambda image: picture(1, size=(32, 32), kind="JPEG")[:400],
    "empty.jpg": lambda image: image[:0],
    "text.PNG": lambda image: b"<html>not found</html>",
    "flipped.png": lambda image: image[:60] + bytes([image[60] ^ 255]) + image[61:],
}


def spoil(root, count=0):
    """Put broken images into the tree: one of each kind in train, and so many more in test."""
    for name, damage in BROKEN.items():
        (root / "train" / "ant" / name).write_bytes(damage(picture(1, size=(32, 32))))
    for i in range(count):
        (root / "test" / "bee" / f"t{i:02}.jpg").write_bytes(b"")


class TestUnreadable:
    @pytest.mark.parametrize("workers", [0, 1])
    def test_all_are_named_before_training(self, root, workers):
        spoil(root)
        parts = [root / "train" / "ant" / name for name in BROKEN]
        said = refused(root, "5 images", *parts, "skip_unreadable: true", workers=workers, in_memory=False)
        assert "_io." not in said
        assert refused(root, *parts) == said  # from what is kept

    def test_of_many_ten_are_named_with_how_many_more(self, root):
        spoil(root, count=9)
        said = refused(root, "14 images", "and 4 more")
        assert sum(said.count(ending) for ending in (".png (", ".jpg (", ".PNG (")) == 10

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_without_them_the_numbers_are_those_of_the_tree_without_them(self, root, tmp_path, in_memory):
        shutil.copytree(root, tmp_path / "clean")
        spoil(root, count=3)
        clean, spoilt = (load(place, skip_unreadable=True, in_memory=in_memory) for place in (tmp_path / "clean", root))
        assert spoilt.facts == {"unreadable_images_skipped": 8}
        assert clean.facts == {}
        for name in ("train", "validation", "test"):
            ours, theirs = (getattr(dataset, name) for dataset in (clean, spoilt))
            for one, other in zip(ours.take(slice(len(ours))), theirs.take(slice(len(ours))), strict=True):
                assert torch.equal(one, other)

    def test_a_class_of_which_nothing_can_be_read(self, root):
        for path in (root / "test" / "bee").iterdir():
            path.write_bytes(b"")
        refused(root, "no image can be read in test/bee", skip_unreadable=True)


class TestForbidden:
    """Files that may not be opened: they are known when the suite is planned, as every byte is looked at then."""

    def forbidden(self, root, monkeypatch):
        paths = [root / "train" / "ant" / "0.png", root / "train" / "bee" / "3.png", root / "test" / "ant" / "2.png"]
        forbid(monkeypatch, *paths)
        return paths

    def test_all_are_named_when_it_is_planned(self, root, monkeypatch):
        paths = self.forbidden(root, monkeypatch)
        planned_refusal(root, "3 images", *(f"{path} (Permission denied)" for path in paths), "skip_unreadable: true")

    def test_without_them_it_is_the_tree_without_them(self, root, tmp_path, monkeypatch):
        """With a broken one beside them; all are counted."""
        spoil(root)
        shutil.copytree(root, tmp_path / "clean")
        paths = self.forbidden(root, monkeypatch)
        for path in paths:
            (tmp_path / "clean" / path.relative_to(root)).unlink()
        clean, rest = (load(place, skip_unreadable=True) for place in (tmp_path / "clean", root))
        assert (clean.facts, rest.facts) == ({"unreadable_images_skipped": 5}, {"unreadable_images_skipped": 8})
        for name in ("train", "validation", "test"):
            assert torch.equal(getattr(clean, name).images, getattr(rest, name).images)
        known = [
            describe_dataset("image_folder", {"root": str(place), "skip_unreadable": True}).content
            for place in (tmp_path / "clean", root)
        ]
        assert known[0] == known[1]

    def test_a_class_of_which_nothing_may_be_read(self, root, monkeypatch):
        forbid(monkeypatch, *(root / "test" / "bee").iterdir())
        refused(root, "no image can be read in test/bee", skip_unreadable=True)


class TestChanges:
    """Files that change while they are streamed: a dataset stays loaded from trial to trial."""

    @pytest.mark.parametrize("workers", [0, 1])
    @pytest.mark.parametrize("change", ["gone", "another", "broken"])
    def test_a_file_that_is_another_than_when_it_was_planned(self, root, workers, change):
        split = load(root, in_memory=False, workers=workers).train
        assert isinstance(split, StreamedImages)
        path = root / split.names[5]
        if change == "gone":
            path.unlink()
        else:
            path.write_bytes(picture(77) if change == "another" else b"")
        with pytest.raises(DataError) as refusal:
            list(split.batches([torch.arange(4), torch.arange(4, 8)]))
        assert str(refusal.value).startswith(f"{path} can no longer be read: ")
        assert "\n" not in str(refusal.value)


class TestRecord:
    def trial(self, root, **arguments):
        dataset = {"name": "image_folder", "root": str(root), "image_size": 8, **arguments}
        return the_trial(dataset=dataset, architectures=["mlp"], recipe={"epochs": 1, "batch_size": 8})

    def test_what_was_skipped_and_ignored_stands_in_the_record_and_not_among_its_numbers(self, root, tmp_path):
        clean = run_trial(self.trial(root))
        spoil(root)
        (root / "train" / "ant" / "Thumbs.db").write_bytes(b"")
        record = run_trial(self.trial(root, skip_unreadable=True))
        Ledger(tmp_path / "runs").write(record)
        [kept] = Ledger(tmp_path / "runs").records()
        found = {"unreadable_images_skipped": 5, "other_files_ignored": 1}
        assert kept.environment.items() >= found.items()
        assert not clean.environment.keys() & found.keys()
        assert (kept.metrics, kept.history) == (clean.metrics, clean.history)

    def test_the_user_is_told_before_the_run(self, root):
        (root / "test" / "bee" / "notes.txt").write_text("")
        suite = suite_of(
            parse(
                f"name: s\ndataset: {{name: image_folder, root: '{root}', image_size: 8}}\n"
                "architectures: [mlp]\ninitializers: [xavier]\n",
                "suite.yaml",
            )
        )
        assert check_data(suite, plan_of(suite).trials) == ["image_folder: other files ignored: 1"]
        (root / "test" / "bee" / "0.png").write_bytes(b"")
        with pytest.raises(InitbenchError) as refusal:
            check_data(suite, plan_of(suite).trials)
        assert (refusal.value.line, refusal.value.key) == (2, "dataset")
        assert str(root / "test" / "bee" / "0.png") in str(refusal.value)
