"""Datasets by name, held on the device, and the types that a plug-in's dataset is made of.

These names are public, as are those of `initbench.data.prepare` (stratified subsets, resizing, standardization).
"""

from __future__ import annotations

from initbench.data.content import content_hash
from initbench.data.dataset import Dataset, Samples, Split, Splits
from initbench.data.load import data_root, describe_dataset, load_dataset
from initbench.errors import DataError
from initbench.inputs import Inputs
from initbench.registry import Description

__all__ = [
    "DataError",
    "Dataset",
    "Description",
    "Inputs",
    "Samples",
    "Split",
    "Splits",
    "content_hash",
    "data_root",
    "describe_dataset",
    "load_dataset",
]
