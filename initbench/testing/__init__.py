"""Tests for authors of plug-ins: `check_initializer`, or its checks one by one."""

from __future__ import annotations

from initbench.testing.kit import Check, check_initializer, checks

__all__ = ["Check", "check_initializer", "checks"]
