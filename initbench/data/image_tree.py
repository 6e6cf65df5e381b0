"""The files of an ImageFolder tree: ``ROOT/train/CLASS/*`` and ``ROOT/test/CLASS/*``, as torchvision reads it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from initbench.data.content import listed
from initbench.errors import DataError

# torchvision.datasets.folder.IMG_EXTENSIONS, which is no public name.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
TRAIN, TEST, VAL = "train", "test", "val"


@dataclass(frozen=True)
class ImageTree:
    """The images of a tree.

    Attributes:
        root: its folder.
        classes: names of the folders of classes, sorted: a class is its index here.
        train: path below the root of each image for training and validation, sorted by class, folder and name.
        test: the same of the test images.
        train_targets: class of each image for training and validation.
        test_targets: class of each test image.
        others: how many files in the folders of classes are no images by their extension.
    """

    root: Path
    classes: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    train_targets: tuple[int, ...]
    test_targets: tuple[int, ...]
    others: int

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all images below the root."""
        return self.train + self.test


def instructions(root: Path) -> str:
    """Return what to put where."""
    return f"put images into {root}/{TRAIN}/CLASS/ and {root}/{TEST}/CLASS/ (or {VAL}), a folder for each class"


def not_a_folder(root: Path) -> DataError:
    """Return the error of a root that is missing or a file."""
    return DataError(f"{root} is not a folder: {instructions(root)}")


def find_images(root: Path) -> ImageTree:
    """Return the images of a tree; ``val`` holds the test images where there is no ``test``.

    Args:
        root: the folder that holds ``train``, and ``test`` or ``val``.

    Raises:
        DataError: a folder is missing, empty or not readable, a class has no images in a split, or a symbolic link
            leads back to a folder above it.
    """
    if not _is_folder(root):
        raise not_a_folder(root)
    test = TEST if _is_folder(root / TEST) or not _is_folder(root / VAL) else VAL
    splits = {name: _classes(root, name) for name in (TRAIN, test)}
    _check_same(root, splits[TRAIN], splits[test], TRAIN, test)
    _check_same(root, splits[test], splits[TRAIN], test, TRAIN)
    classes = tuple(splits[TRAIN])
    found: dict[str, list[str]] = {TRAIN: [], test: []}
    targets: dict[str, list[int]] = {TRAIN: [], test: []}
    others, empty = 0, []
    for name in (TRAIN, test):
        for index, label in enumerate(classes):
            images, rest = _images(root, f"{name}/{label}")
            found[name] += images
            targets[name] += [index] * len(images)
            others += rest
            empty += [f"{name}/{label}"] * (not images)
    if empty:
        raise DataError(f"{root}: no images in {listed(empty)}: {instructions(root)}")
    return ImageTree(
        root, classes, tuple(found[TRAIN]), tuple(found[test]), tuple(targets[TRAIN]), tuple(targets[test]), others
    )


def _classes(root: Path, split: str) -> list[str]:
    """Return the names of the folders of a split, sorted."""
    if not _is_folder(root / split):
        raise DataError(f"{root / split} is not a folder: {instructions(root)}")
    names = sorted(entry.name for entry in _entries(root / split)[0])
    if not names:
        raise DataError(f"{root / split} has no folder of a class: {instructions(root)}{_unlabelled(root, split)}")
    return names


def _check_same(root: Path, names: list[str], others: list[str], split: str, other: str) -> None:
    """Refuse classes that one split has and the other has not."""
    known = set(others)
    if missing := [name for name in names if name not in known]:
        classes = "class" if len(missing) == 1 else f"{len(missing)} classes"
        raise DataError(
            f"{root / other} lacks the {classes} {listed(missing)}, which {root / split} has{_unlabelled(root, other)}"
        )


def _unlabelled(root: Path, split: str) -> str:
    """Return a hint where the tree is as ImageNet's, whose test images have no classes."""
    if split != TEST or not _is_folder(root / VAL):
        return ""
    return f"; where {VAL} is to be the test split, move {root / TEST} away"


def _is_folder(path: Path) -> bool:
    """Return whether a path leads to a folder.

    Raises:
        DataError: a folder above it may not be entered.
    """
    try:
        return path.is_dir()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _images(root: Path, folder: str) -> tuple[list[str], int]:
    """Return the images in a class's folder and below, in torchvision's order, and how many other files there are."""
    found: list[tuple[str, list[str]]] = []
    others = 0
    real = Path(root / folder).resolve()
    waiting = [(folder, (*reversed(real.parents), real))]
    while waiting:
        inner, above = waiting.pop()
        folders, files = _entries(root / inner)
        for entry in folders:
            real = Path(entry.path).resolve() if entry.is_symlink() else above[-1] / entry.name
            if real in above:
                raise DataError(f"{entry.path} is a link to {real}, a folder above it: remove it")
            waiting.append((f"{inner}/{entry.name}", (*above, real)))
        images = sorted(name for name in files if name.lower().endswith(EXTENSIONS))
        others += len(files) - len(images)
        found.append((inner, images))
    return [f"{inner}/{name}" for inner, names in sorted(found) for name in names], others


def _entries(folder: Path) -> tuple[list[os.DirEntry[str]], list[str]]:
    """Return the folders in a folder, and the names of what else is there."""
    folders, files, place = [], [], str(folder)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                place = entry.path
                if entry.is_dir():
                    folders.append(entry)
                else:
                    files.append(entry.name)
    except OSError as error:  # such as a link that leads to itself
        raise DataError(f"{place} cannot be read: {error.strerror}") from error
    return folders, files
