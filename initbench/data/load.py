"""Datasets by name, loaded once per process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initbench.data.dataset import Dataset, Splits
from initbench.errors import ArgumentError, DataError
from initbench.plugins import first_line
from initbench.registry import DATASETS, Component, DatasetTraits, Description

if TYPE_CHECKING:
    import torch


def data_root() -> Path:
    """Return the folder of downloaded data: ``$INITBENCH_DATA``, else ``./data``."""
    return Path(os.environ.get("INITBENCH_DATA") or "data").absolute()


def describe_dataset(name: str, arguments: Mapping[str, Any]) -> Description:
    """Return what a dataset asks of a model, and what it is.

    It is asked anew each time, as files may change: what is published costs nothing, and what lies in files no more
    than to look at their sizes and times (`initbench.data.content_hash`).

    Args:
        name: the registered name, such as ``digits``.
        arguments: the dataset's own arguments, such as ``train_size``.

    Raises:
        UnknownNameError: no dataset has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused; a ValueError of a plug-in's counts as one.
        DataError: files that it needs to know are absent or unreadable.
    """
    component = DATASETS.get(name)
    return describe_component(component, component.resolve(arguments))


def load_dataset(
    name: str, arguments: Mapping[str, Any], device: torch.device | str = "cpu", content: str | None = None
) -> Dataset:
    """Return a dataset on a device; the last four are kept, so that the trials of a process share them.

    Args:
        name: the registered name, such as ``digits``.
        arguments: the dataset's own arguments, such as ``train_size``.
        device: where the tensors are to be.
        content: the hash of the source that is wanted, as it was when the trials were planned; None for what is there.

    Raises:
        UnknownNameError: no dataset has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        DataError: the files are missing or unreadable, and the message says what to put where; they are others than
            are wanted; or the dataset is not what it says of itself.
    """
    component = DATASETS.get(name)
    resolved = component.resolve(arguments)
    wanted = describe_component(component, resolved).content if content is None else content
    # What is kept was what is wanted when it was read: files that have changed since are not looked at again.
    return _load(component, json.dumps(component.plain(resolved), sort_keys=True), str(device), data_root(), wanted)


def describe_component(component: Component[DatasetTraits], resolved: Mapping[str, Any]) -> Description:
    try:
        return component.traits.describe(**resolved)
    except ArgumentError:
        raise
    except ValueError as error:
        raise ArgumentError(first_line(error)) from error


@lru_cache(maxsize=4)
def _load(
    component: Component[DatasetTraits],
    arguments: str,
    device: str,
    root: Path,  # part of the key: the same arguments are other files there
    content: str | None,
) -> Dataset:
    resolved = component.resolve(json.loads(arguments))
    description = describe_component(component, resolved)
    _check_content(component.name, description.content, content)
    splits = component.call(resolved)
    # Again, as files may have changed between the two.
    _check_content(component.name, describe_component(component, resolved).content, content)
    if not isinstance(splits, Splits):
        raise DataError(f"{component.name} returns {type(splits).__name__}, not initbench.Splits")
    shape = splits.train.sample_shape
    if shape != description.inputs.shape:
        raise DataError(f"{component.name}: samples are of shape {shape}, described as {description.inputs.shape}")
    task = description.task or component.traits.task
    return Dataset(component.name, task, description.inputs, description.outputs, splits.to(device))


def _check_content(name: str, actual: str | None, wanted: str | None) -> None:
    if actual != wanted:
        raise DataError(f"{name}: the data here are others than the trials were planned with: {actual}, not {wanted}")
