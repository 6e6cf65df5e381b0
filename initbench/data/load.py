"""Datasets by name, loaded once per process."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from initbench.data.dataset import Dataset, Splits
from initbench.errors import ArgumentError, DataError
from initbench.plugins import first_line
from initbench.registry import DATASETS, Component, DatasetTraits, Description


def data_root() -> Path:
    """Return the folder of downloaded data: ``$INITBENCH_DATA``, or ``./data``."""
    return Path(os.environ.get("INITBENCH_DATA") or "data").absolute()


def describe_dataset(name: str, arguments: Mapping[str, Any]) -> Description:
    """Return a dataset's requirements for a model and the hash of its content.

    It is computed at each call because files may change: for published data it costs nothing, for data in files no more
    than looking at their sizes and times (`initbench.data.content_hash`). It raises an UnknownNameError, an
    ArgumentError (a plug-in's ValueError counts as one), or a DataError if required files are absent or unreadable.
    """
    component = DATASETS.get(name)
    return describe_component(component, component.resolve(arguments))


def load_dataset(
    name: str, arguments: Mapping[str, Any], device: torch.device | str = "cpu", content: str | None = None
) -> Dataset:
    """Return a dataset on a device; the last four are kept, so that the trials of a process share them.

    `content` is the expected hash of the source, as it was when the trials were planned; None for the current one. It
    raises the errors of `describe_dataset`, and a DataError if the files differ from the expected ones, or the dataset
    contradicts its description.
    """
    component = DATASETS.get(name)
    resolved = component.resolve(arguments)
    wanted = describe_component(component, resolved).content if content is None else content
    # A kept dataset had the expected content when it was read; changes of its files since then are not noticed.
    return _kept(component, json.dumps(component.plain(resolved), sort_keys=True), str(device), data_root(), wanted)


def describe_component(component: Component[DatasetTraits], resolved: Mapping[str, Any]) -> Description:
    try:
        with torch.device("cpu"):
            return component.traits.describe(**resolved)
    except ArgumentError:
        raise
    except ValueError as error:
        raise ArgumentError(first_line(error)) from error


def keep_datasets(most: int) -> None:
    """Keep this many datasets of those that `load_dataset` loads from now on."""
    global _kept  # noqa: PLW0603  # a cache of another size
    _kept = lru_cache(maxsize=most)(_load)


def _load(
    component: Component[DatasetTraits],
    arguments: str,
    device: str,
    root: Path,  # part of the key: the same arguments mean other files below another root
    content: str | None,
) -> Dataset:
    resolved = component.resolve(json.loads(arguments))
    description = describe_component(component, resolved)
    _check_content(component.name, description.content, content)
    with torch.device("cpu"):  # whatever the default device; a dataset is read there and then moved
        splits = component.call(resolved)
    # Again, because files may have changed in between.
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
        raise DataError(f"{name}: the data differ from those that the trials were planned with: {actual}, not {wanted}")


_kept = lru_cache(maxsize=4)(_load)
