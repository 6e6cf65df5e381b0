"""The digits that come with scikit-learn: 1,797 real 8×8 images, no download."""

from __future__ import annotations

from importlib import resources

import torch

from initbench.data.dataset import Splits
from initbench.data.prepare import images, prepare, stratified_order, take_first
from initbench.data.published import read_published
from initbench.registry import register_dataset

TRAIN, VALIDATION = 1297, 140
# SHA-256 of scikit-learn's digits.csv, decompressed: `zcat digits.csv.gz | sha256sum`.
CONTENT = "sha256:6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"


@register_dataset(
    "digits",
    describe=images((1, 8, 8), 10, CONTENT),
    reference="Alpaydin & Kaynak, 1998, as sklearn.datasets.load_digits",
)
def digits(train_size: int | None = None, image_size: int | None = None) -> Splits:
    """Handwritten digits, 1×8×8, 10 classes: 1,297 training, 140 validation and 360 test samples.

    Standardized by the training mean and deviation.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 8.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: scikit-learn's file is damaged or has changed.
    """
    from sklearn.datasets import load_digits

    read_published("digits", resources.files("sklearn.datasets.data") / "digits.csv.gz", CONTENT)
    bunch = load_digits()
    images = torch.from_numpy(bunch.images).unsqueeze(1)
    targets = torch.from_numpy(bunch.target)
    order = stratified_order(targets)
    parts = (take_first(order[:TRAIN], train_size), order[TRAIN : TRAIN + VALIDATION], order[TRAIN + VALIDATION :])
    train, validation, test = ((images[part], targets[part]) for part in parts)
    return prepare("digits", train, validation, test, image_size=image_size)
