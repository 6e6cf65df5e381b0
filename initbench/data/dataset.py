"""A dataset: three splits of tensors, small enough to live on the device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Split:
    """The samples of one split.

    Attributes:
        inputs: float32, (N, C, H, W).
        targets: class indices, int64, (N,).
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.targets)

    def to(self, device: torch.device | str) -> Split:
        """Return the split on a device."""
        return Split(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Dataset:
    """A dataset whose training, validation and test samples are disjoint.

    Attributes:
        name: the registered name.
        train: what the model is trained on.
        validation: what hyperparameters are chosen by; may be empty.
        test: what is reported.
        num_classes: number of classes.
        input_shape: channels, height, width.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    num_classes: int
    input_shape: tuple[int, int, int]

    def to(self, device: torch.device | str) -> Dataset:
        """Return the dataset on a device."""
        return replace(
            self, train=self.train.to(device), validation=self.validation.to(device), test=self.test.to(device)
        )
