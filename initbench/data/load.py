"""Datasets by name, loaded once per process."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initbench.data.dataset import Dataset
from initbench.errors import DataError
from initbench.registry import DATASETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from initbench.data.dataset import Splits
    from initbench.registry import Description


def data_root() -> Path:
    """Return the folder of downloaded data: ``$INITBENCH_DATA``, else ``./data``."""
    return Path(os.environ.get("INITBENCH_DATA") or "data").absolute()


def describe_dataset(name: str, arguments: Mapping[str, Any]) -> Description:
    """Return what a dataset asks of a model, and what it is.

    Args:
        name: the registered name, such as ``digits``.
        arguments: the dataset's own arguments, such as ``train_size``.

    Raises:
        UnknownNameError: no dataset has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        DataError: files that it needs to know are absent or unreadable.
    """
    component = DATASETS.get(name)
    return component.traits.describe(**component.resolve(arguments))


def load_dataset(
    name: str, arguments: Mapping[str, Any], device: torch.device | str = "cpu", content: str | None = None
) -> Dataset:
    """Return a dataset on a device; the last four are kept, so that the trials of a process share them.

    Args:
        name: the registered name, such as ``digits``.
        arguments: the dataset's own arguments, such as ``train_size``.
        device: where the tensors are to be.
        content: the hash of the source that is wanted, as it was when the trials were planned; None for any.

    Raises:
        UnknownNameError: no dataset has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        DataError: the files are missing or unreadable, and the message says what to put where; or they are others.
    """
    found = describe_dataset(name, arguments).content
    if content is not None and found != content:
        raise DataError(f"{name}: the data here are others than the trials were planned with: {found}, not {content}")
    return _load(name, json.dumps(arguments, sort_keys=True), str(device), data_root())


@lru_cache(maxsize=4)
def _load(name: str, arguments: str, device: str, root: Path) -> Dataset:  # noqa: ARG001 - the root is part of the key
    component, given = DATASETS.get(name), json.loads(arguments)
    description = describe_dataset(name, given)
    splits: Splits = component.build(given)
    task = description.task or component.traits.task
    return Dataset(name, task, description.inputs, description.outputs, splits.to(device))
