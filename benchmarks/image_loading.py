"""An epoch of images that are decoded while they are trained on: image_folder against torchvision's ImageFolder.

Both read the same JPEG files with two worker processes, resize the shorter side, cut out the middle, and standardize.
The reference is `ImageFolder` with torchvision's transforms v2 in a `DataLoader`, which starts its workers as PyTorch
does by default. Nothing is trained: an epoch is over when its last batch is there. With tiny sizes it is checked that
both have the same images.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import timing
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from initbench.data import load_dataset
from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches
from initbench.data.dataset import Samples

WORKERS, BATCH, CLASSES = 2, 64, 10
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# Width and height of ImageNet's typical image.
SHAPE = (500, 375)


def make_tree(root: Path, images: int) -> None:
    """Write JPEG images of smooth noise, so many for training and one of each class for test."""
    random = np.random.default_rng(0)
    for index in range(images + CLASSES):
        path = root / ("train" if index < images else "test") / f"class{index % CLASSES}" / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (SHAPE[1] // 8, SHAPE[0] // 8, 3), dtype=np.uint8))
        coarse.resize(SHAPE, Image.Resampling.BICUBIC).save(path, quality=90)


def of_initbench(root: Path, resize: int, image_size: int) -> Samples:
    """Return the training split as initbench streams it."""
    arguments = {
        "root": str(root),
        "resize": resize,
        "image_size": image_size,
        "validation_size": 0,
        "mean": MEAN,
        "std": STD,
        "in_memory": False,
        "workers": WORKERS,
    }
    return load_dataset("image_folder", arguments).train


def of_torchvision(root: Path, resize: int, image_size: int) -> ImageFolder:
    """Return the same images with torchvision's transforms."""
    steps = [v2.PILToTensor(), v2.Resize(resize), v2.CenterCrop(image_size)]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return ImageFolder(root / "train", v2.Compose(steps))


def same_images(ours: Samples, theirs: ImageFolder) -> None:
    """Check that both have the same images, whatever their order, by their classes and sums."""
    batch = next(iter(DataLoader(theirs, batch_size=len(theirs))))
    inputs, targets = ours.take(slice(len(ours)))
    mine, other = (
        sorted((int(label), image) for image, label in zip(x.flatten(1).sum(1).tolist(), y, strict=True))
        for x, y in ((inputs, targets), batch)
    )
    if mine != other:
        raise AssertionError("the two sides have other images")


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return the row of an epoch."""
    images, resize, image_size = (2 * BATCH, 40, 32) if quick else (20 * BATCH, 256, 224)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_tree(root, images)
        ours, theirs = of_initbench(root, resize, image_size), of_torchvision(root, resize, image_size)
        if quick:
            same_images(ours, theirs)
        batches = TrainingBatches(ours, BATCH, Augmentation(), seed=0)
        loader = DataLoader(theirs, BATCH, shuffle=True, num_workers=WORKERS)
        pairs = timing.paired(lambda: sum(1 for _ in batches.epoch()), lambda: sum(1 for _ in loader), runs)
    case = f"epoch of {images} JPEG images of {SHAPE[0]}×{SHAPE[1]} to {image_size}×{image_size}, {WORKERS} workers"
    return [timing.Row.of_pairs(case, pairs, 1.1)]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=5, threads=1)
