"""The user's own images: an ImageFolder tree, such as ImageNet's, held in memory or decoded during training.

The files are ``ROOT/train/CLASS/*`` and ``ROOT/test/CLASS/*``, as torchvision reads them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from initbench.arguments import check_counts
from initbench.data.content import Content, listed, readable_content
from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.prepare import check_sizes, hold_out_validation, take_first
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs
from initbench.registry import Description, register_dataset

# torchvision.datasets.folder.IMG_EXTENSIONS, which is not public.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
TRAIN, TEST, VAL = "train", "test", "val"

_NAME = "image_folder"
# Mean and deviation of ImageNet's training images, as used for torchvision's pretrained models.
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_LARGEST_VALIDATION = 5000
_Channels = tuple[float, float, float]


@dataclass(frozen=True)
class ImageTree:
    """The images of a tree: their paths relative to its root, sorted by class, folder and name.

    Attributes:
        classes: names of the class folders, sorted; a class is an index into them.
        train: training and validation images.
        others: number of files in the class folders that are not images by their extension.
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
        return self.train + self.test


def instructions(root: Path) -> str:
    return f"put images into {root}/{TRAIN}/CLASS/ and {root}/{TEST}/CLASS/ (or {VAL}), a folder for each class"


def not_a_folder(root: Path) -> DataError:
    return DataError(f"{root} is not a folder: {instructions(root)}")


def find_images(root: Path) -> ImageTree:
    """Return the images of a tree; ``val`` holds the test images if there is no ``test``."""
    if not _is_folder(root):
        raise not_a_folder(root)
    test = TEST if _is_folder(root / TEST) or not _is_folder(root / VAL) else VAL
    splits = {name: _classes(root, name) for name in (TRAIN, test)}
    _check_same(root, splits[TRAIN], splits[test], TRAIN, test)
    _check_same(root, splits[test], splits[TRAIN], test, TRAIN)
    classes = tuple(splits[TRAIN])
    paths: dict[str, list[str]] = {TRAIN: [], test: []}
    targets: dict[str, list[int]] = {TRAIN: [], test: []}
    others, empty = 0, []
    for name in (TRAIN, test):
        for index, label in enumerate(classes):
            images, rest = _images(root, f"{name}/{label}")
            paths[name] += images
            targets[name] += [index] * len(images)
            others += rest
            empty += [f"{name}/{label}"] * (not images)
    if empty:
        raise DataError(f"{root}: no images in {listed(empty)}: {instructions(root)}")
    return ImageTree(
        root, classes, tuple(paths[TRAIN]), tuple(paths[test]), tuple(targets[TRAIN]), tuple(targets[test]), others
    )


def _classes(root: Path, split: str) -> list[str]:
    if not _is_folder(root / split):
        raise DataError(f"{root / split} is not a folder: {instructions(root)}")
    names = sorted(entry.name for entry in _entries(root / split)[0])
    if not names:
        raise DataError(f"{root / split} has no class folders: {instructions(root)}{_unlabelled(root, split)}")
    return names


def _check_same(root: Path, names: list[str], others: list[str], split: str, other: str) -> None:
    known = set(others)
    if missing := [name for name in names if name not in known]:
        classes = "class" if len(missing) == 1 else f"{len(missing)} classes"
        raise DataError(
            f"{root / other} lacks the {classes} {listed(missing)}, which {root / split} has{_unlabelled(root, other)}"
        )


def _unlabelled(root: Path, split: str) -> str:
    """Return a hint if the tree is like ImageNet's, whose test images have no classes."""
    if split != TEST or not _is_folder(root / VAL):
        return ""
    return f"; to use {VAL} as the test split, move {root / TEST} away"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _images(root: Path, folder: str) -> tuple[list[str], int]:
    """Return the images in and below a class's folder, in torchvision's order, and the number of other files."""
    by_folder: list[tuple[str, list[str]]] = []
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
        by_folder.append((inner, images))
    return [f"{inner}/{name}" for inner, names in sorted(by_folder) for name in names], others


def _entries(folder: Path) -> tuple[list[os.DirEntry[str]], list[str]]:
    """Return the folders in a folder, and the names of everything else."""
    folders, files, path = [], [], str(folder)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = entry.path
                if entry.is_dir():
                    folders.append(entry)
                else:
                    files.append(entry.name)
    except OSError as error:  # such as a link that leads to itself
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return folders, files


def _describe(
    *,
    root: Path,
    image_size: int,
    resize: int | None,
    train_size: int | None,
    validation_size: int | None,
    standardize: str,
    mean: _Channels | None,
    std: _Channels | None,
    skip_unreadable: bool,
    classes: int | None,
    workers: int,
    **_: object,
) -> Description:
    check_sizes(train_size, image_size, validation_size or 0)
    if resize is not None and resize < image_size:
        raise ArgumentError(f"must be at least image_size, {image_size}; got {resize}", "resize")
    if workers < 0:
        raise ArgumentError(f"must be at least 0, got {workers}", "workers")
    check_counts(classes=classes)
    if (mean is None) != (std is None):
        given, missing = ("std", "mean") if mean is None else ("mean", "std")
        raise ArgumentError(f"needs {missing}", given)
    if mean is not None and standardize != "train":
        raise ArgumentError(f"cannot be combined with mean and std, got {standardize}", "standardize")
    if std is not None and min(std) <= 0:
        raise ArgumentError(f"must be above 0, got {list(std)}", "std")
    inputs, folder = Inputs((3, image_size, image_size)), data_root() / root
    if classes is not None and not os.path.lexists(folder):
        return Description(inputs, classes, absent=str(not_a_folder(folder)))
    tree, content = _tree_and_content(folder, classes, skip_unreadable=skip_unreadable)
    return Description(inputs, len(tree.classes), content.hash)


@register_dataset(
    _NAME,
    describe=_describe,
    reading=("classes", "in_memory", "workers"),
    reference="torchvision.datasets.ImageFolder",
)
def image_folder(
    root: Path = Path("images"),
    image_size: int = 224,
    resize: int | None = None,
    *,
    train_size: int | None = None,
    validation_size: int | None = None,
    standardize: Literal["train", "imagenet"] = "train",
    mean: tuple[float, float, float] | None = None,
    std: tuple[float, float, float] | None = None,
    skip_unreadable: bool = False,
    classes: int | None = None,
    in_memory: bool | None = None,
    workers: int = 0,
) -> Splits:
    """Colour images in folders: ROOT/train/CLASS/*.jpg and ROOT/test/CLASS/*.jpg, or val instead of test.

    Files are read as by torchvision's ImageFolder: the same extensions, all images as RGB, classes named by their
    folders. Every image is resized and center-cropped in bytes as by torchvision's transforms v2, `Resize(resize)` and
    `CenterCrop(image_size)`. A recipe's `random_resized_crop` takes its boxes from the central square of side `resize`.

    Args:
        root: the folder, absolute or relative to the data root.
        image_size: side of the square that a model receives.
        resize: pixels of the shorter side before the central square is cut out; null for `image_size`.
        train_size: size of a stratified subset of the training split; null for all.
        validation_size: samples held out of the training images; null for a tenth of them, at most 5,000.
        standardize: source of the mean and deviation of each channel: ``train``, the center-cropped training split (the
            same numbers in memory and not), or ``imagenet``, the published values for ImageNet.
        mean: mean of each channel, for pixels between 0 and 1, instead of `standardize`; requires `std`.
        std: deviation of each channel, likewise.
        skip_unreadable: whether to go on without images that cannot be read or decoded; the record contains their
            number.
        classes: expected number of classes; null for any number. With it a suite can be planned, and smoke-run on
            random data, before the folder exists. It changes no number and no trial's id.
        in_memory: whether to hold the decoded images, as bytes, in memory instead of decoding them in each epoch; null
            to hold them if that takes at most 2 GiB. It changes no trial's id, and no number except that on a GPU the
            random resized crops of images that are not in memory can differ in their last digits.
        workers: processes that decode ahead if images are not in memory; 0 for the trial's own process. It changes no
            trial's id, and a number only as `in_memory` does.

    Raises:
        ArgumentError: an argument is impossible.
        DataError: a folder is missing or empty, the splits have different classes, or images cannot be read.
    """
    from initbench.data.image_decoding import Framing
    from initbench.data.image_samples import Names, read_splits

    tree, content = _tree_and_content(data_root() / root, classes, skip_unreadable=skip_unreadable)
    train, test = _readable(tree, content, workers, skip_unreadable=skip_unreadable)
    targets, test_targets = torch.tensor(tree.train_targets)[train], torch.tensor(tree.test_targets)[test]
    if validation_size is None:
        validation_size = min(_LARGEST_VALIDATION, len(targets) // 10)
    kept, held_out = hold_out_validation(targets, validation_size)
    kept = take_first(kept, train_size)
    given = IMAGENET if standardize == "imagenet" else None
    splits = read_splits(
        tree.root,
        content.hash,
        Names.of(tree.train, train[kept], targets[kept]),
        Names.of(tree.train, train[held_out], targets[held_out]),
        Names.of(tree.test, test, test_targets),
        framing=Framing(resize or image_size, image_size),
        standardize=given if mean is None or std is None else (mean, std),
        in_memory=in_memory,
        workers=workers,
    )
    facts = {
        "unreadable_images_skipped": len(tree.files) - len(train) - len(test),
        "other_files_ignored": tree.others,
    }
    return replace(splits, facts={name: number for name, number in facts.items() if number})


def _tree_and_content(root: Path, classes: int | None, *, skip_unreadable: bool) -> tuple[ImageTree, Content]:
    tree = find_images(root)
    if classes is not None and classes != len(tree.classes):
        raise ArgumentError(f"must be {len(tree.classes)}, the folders in {root / 'train'}; got {classes}", "classes")
    content = readable_content(root, tree.files, instructions(root))
    if content.unreadable and not skip_unreadable:
        raise _refusal(root, content.unreadable)
    return tree, content


def _refusal(root: Path, broken: Mapping[str, str]) -> DataError:
    """Return the error for unreadable images: path relative to the root → reason."""
    images = "an image" if len(broken) == 1 else f"{len(broken)} images"
    why = [f"{root / name} ({reason})" for name, reason in broken.items()]
    return DataError(
        f"{_NAME}: {images} cannot be read: {listed(why)}; repair or remove them, or set skip_unreadable: true"
    )


def _readable(tree: ImageTree, content: Content, workers: int, *, skip_unreadable: bool) -> tuple[Tensor, Tensor]:
    """Return the indices of the training and test images that can be decoded."""
    from initbench.data.image_samples import unreadable

    broken = unreadable(tree.root, tree.files, content, workers)
    if broken and not skip_unreadable:
        raise _refusal(tree.root, broken)
    readable = []
    for names, targets in ((tree.train, tree.train_targets), (tree.test, tree.test_targets)):
        kept = [i for i, name in enumerate(names) if name not in broken]
        with_images = {targets[i] for i in kept}
        if empty := [label for i, label in enumerate(tree.classes) if i not in with_images]:
            folders = [f"{names[0].partition('/')[0]}/{label}" for label in empty]
            raise DataError(f"{_NAME}: no image can be read in {listed(folders)} of {tree.root}")
        readable.append(torch.tensor(kept))
    return readable[0], readable[1]
