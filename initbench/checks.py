"""Checks of hyperparameters, with messages that begin with the argument's name."""

from __future__ import annotations

import math


def check_positive(name: str, value: float) -> None:
    """Raise a ValueError unless a number is above 0 and finite."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {value}")


def check_count(name: str, value: int) -> None:
    """Raise a ValueError unless an integer is at least 1."""
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
