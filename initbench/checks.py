"""Checks of hyperparameters, with messages that begin with the argument's name."""

from __future__ import annotations

import math

from initbench.errors import ArgumentError


def check_positive(name: str, value: float) -> None:
    """Raise an ArgumentError unless a number is above 0 and finite."""
    if not (math.isfinite(value) and value > 0):
        raise ArgumentError(f"must be a finite number above 0, got {value}", name)


def check_count(name: str, value: int) -> None:
    """Raise an ArgumentError unless an integer is at least 1."""
    if value < 1:
        raise ArgumentError(f"must be at least 1, got {value}", name)


def check_optional_count(name: str, value: int | None) -> None:
    """Raise an ArgumentError unless an integer is at least 1, or None."""
    if value is not None:
        check_count(name, value)
