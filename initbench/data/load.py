"""Datasets by name, loaded once per process."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initbench.registry import DATASETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from initbench.data.dataset import Dataset


def data_root() -> Path:
    """Return the folder of downloaded data: ``$INITBENCH_DATA``, else ``./data``."""
    return Path(os.environ.get("INITBENCH_DATA") or "data").absolute()


def load_dataset(name: str, arguments: Mapping[str, Any], device: torch.device | str = "cpu") -> Dataset:
    """Return a dataset on a device; the last four are kept, so that the trials of a process share them.

    Args:
        name: the registered name, such as ``digits``.
        arguments: the dataset's own arguments, such as ``train_size``.
        device: where the tensors are to be.

    Raises:
        UnknownNameError: no dataset has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        DataError: the files are missing or unreadable; the message says what to put where.
    """
    return _load(name, json.dumps(arguments, sort_keys=True), str(device), data_root())


@lru_cache(maxsize=4)
def _load(name: str, arguments: str, device: str, root: Path) -> Dataset:  # noqa: ARG001 - the root is part of the key
    dataset: Dataset = DATASETS.get(name).build(json.loads(arguments))
    return dataset.to(device)
