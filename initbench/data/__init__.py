"""Datasets by name, held on the device."""

from __future__ import annotations

from initbench.data.dataset import Dataset, Split, Splits
from initbench.data.load import data_root, load_dataset

__all__ = ["Dataset", "Split", "Splits", "data_root", "load_dataset"]
