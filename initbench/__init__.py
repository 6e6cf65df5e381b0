"""initbench: the benchmarking suite for neural-network initialization methods.

The public names are loaded when first used, so that importing the package, or `initbench.reporting`, loads no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from initbench.architectures.create import create_model
    from initbench.architectures.rewrite import remove_normalization, rewrite
    from initbench.errors import InitbenchError, InitializationError
    from initbench.initializers.initialize import initialize
    from initbench.probes.gradient_quotient import gradient_quotient
    from initbench.registry import register_architecture, register_dataset, register_initializer, register_probe
    from initbench.reporting.frame import load_results

__version__ = "0.2.0"

_PUBLIC = {
    "InitbenchError": "initbench.errors",
    "InitializationError": "initbench.errors",
    "create_model": "initbench.architectures.create",
    "gradient_quotient": "initbench.probes.gradient_quotient",
    "initialize": "initbench.initializers.initialize",
    "load_results": "initbench.reporting.frame",
    "register_architecture": "initbench.registry",
    "register_dataset": "initbench.registry",
    "register_initializer": "initbench.registry",
    "register_probe": "initbench.registry",
    "remove_normalization": "initbench.architectures.rewrite",
    "rewrite": "initbench.architectures.rewrite",
}

__all__ = [
    "InitbenchError",
    "InitializationError",
    "create_model",
    "gradient_quotient",
    "initialize",
    "load_results",
    "register_architecture",
    "register_dataset",
    "register_initializer",
    "register_probe",
    "remove_normalization",
    "rewrite",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'initbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
