"""Tests of initialization: assertions about models, and the checks of an initializer for authors of plug-ins.

The names are loaded when first used, so the pytest plug-in beside them loads no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; `as` marks a name as public
    from initbench.testing.assertions import assert_healthy as assert_healthy
    from initbench.testing.assertions import assert_initialized as assert_initialized
    from initbench.testing.assertions import assert_matches_fingerprint as assert_matches_fingerprint
    from initbench.testing.assertions import assert_same_initialization as assert_same_initialization
    from initbench.testing.kit import Check as Check
    from initbench.testing.kit import check_initializer as check_initializer
    from initbench.testing.kit import checks as checks

_PUBLIC_BY_MODULE = {
    "initbench.testing.assertions": [
        "assert_healthy",
        "assert_initialized",
        "assert_matches_fingerprint",
        "assert_same_initialization",
    ],
    "initbench.testing.kit": ["Check", "check_initializer", "checks"],
}
_PUBLIC = {name: module for module, names in _PUBLIC_BY_MODULE.items() for name in names}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'initbench.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
