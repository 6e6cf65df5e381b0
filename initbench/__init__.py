"""initbench: the benchmarking suite for neural-network initialization methods.

The public names are loaded when first used, so that importing the package, or `initbench.reporting`, loads no torch.
They, `initbench.testing` and `initbench.reporting` are what notebooks and plug-ins may import; all else may change.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from initbench.architectures.create import create_model
    from initbench.architectures.rewrite import rewrite
    from initbench.architectures.scalars import ScalarMultiplier
    from initbench.architectures.style import BranchEnd
    from initbench.batches import Batch, move, reference_parameter
    from initbench.data.dataset import Split, Splits
    from initbench.data.load import data_root
    from initbench.errors import ArgumentError, DataError, InitbenchError, InitializationError
    from initbench.initializers.context import Apply, InitializationContext
    from initbench.initializers.distribution import Distribution, WeightLayer
    from initbench.initializers.events import Law
    from initbench.initializers.initialize import initialize
    from initbench.inputs import Inputs
    from initbench.metric import Metric
    from initbench.models.preservation import forked_rng, preserved
    from initbench.probes.context import Measure, ProbeContext
    from initbench.probes.gradient_quotient import gradient_quotient
    from initbench.probes.measurement import Curve, Measurement, PerLayer, Scalar
    from initbench.registry import (
        Description,
        Initializer,
        register_architecture,
        register_dataset,
        register_initializer,
        register_probe,
        register_scheme,
        register_task,
    )
    from initbench.reporting.frame import load_results
    from initbench.schemes.branch_ends import end_branches
    from initbench.schemes.channel_bias import remove_normalization
    from initbench.structure.attention import Attention
    from initbench.structure.find import Structure, find_structure
    from initbench.structure.layer import Layer
    from initbench.structure.residual import ResidualBranch
    from initbench.tasks.task import Task
    from initbench.training.named_recipes import register_recipe

__version__ = "0.2.0"

_PUBLIC = {
    "Apply": "initbench.initializers.context",
    "ArgumentError": "initbench.errors",
    "Attention": "initbench.structure.attention",
    "Batch": "initbench.batches",
    "BranchEnd": "initbench.architectures.style",
    "Curve": "initbench.probes.measurement",
    "DataError": "initbench.errors",
    "Description": "initbench.registry",
    "Distribution": "initbench.initializers.distribution",
    "InitbenchError": "initbench.errors",
    "InitializationContext": "initbench.initializers.context",
    "InitializationError": "initbench.errors",
    "Initializer": "initbench.registry",
    "Inputs": "initbench.inputs",
    "Law": "initbench.initializers.events",
    "Layer": "initbench.structure.layer",
    "Measure": "initbench.probes.context",
    "Measurement": "initbench.probes.measurement",
    "Metric": "initbench.metric",
    "PerLayer": "initbench.probes.measurement",
    "ProbeContext": "initbench.probes.context",
    "ResidualBranch": "initbench.structure.residual",
    "Scalar": "initbench.probes.measurement",
    "ScalarMultiplier": "initbench.architectures.scalars",
    "Split": "initbench.data.dataset",
    "Splits": "initbench.data.dataset",
    "Structure": "initbench.structure.find",
    "Task": "initbench.tasks.task",
    "WeightLayer": "initbench.initializers.distribution",
    "create_model": "initbench.architectures.create",
    "data_root": "initbench.data.load",
    "end_branches": "initbench.schemes.branch_ends",
    "find_structure": "initbench.structure.find",
    "forked_rng": "initbench.models.preservation",
    "gradient_quotient": "initbench.probes.gradient_quotient",
    "initialize": "initbench.initializers.initialize",
    "load_results": "initbench.reporting.frame",
    "move": "initbench.batches",
    "preserved": "initbench.models.preservation",
    "reference_parameter": "initbench.batches",
    "register_architecture": "initbench.registry",
    "register_dataset": "initbench.registry",
    "register_initializer": "initbench.registry",
    "register_probe": "initbench.registry",
    "register_recipe": "initbench.training.named_recipes",
    "register_scheme": "initbench.registry",
    "register_task": "initbench.registry",
    "remove_normalization": "initbench.schemes.channel_bias",
    "rewrite": "initbench.architectures.rewrite",
}

__all__ = [
    "Apply",
    "ArgumentError",
    "Attention",
    "Batch",
    "BranchEnd",
    "Curve",
    "DataError",
    "Description",
    "Distribution",
    "InitbenchError",
    "InitializationContext",
    "InitializationError",
    "Initializer",
    "Inputs",
    "Law",
    "Layer",
    "Measure",
    "Measurement",
    "Metric",
    "PerLayer",
    "ProbeContext",
    "ResidualBranch",
    "Scalar",
    "ScalarMultiplier",
    "Split",
    "Splits",
    "Structure",
    "Task",
    "WeightLayer",
    "create_model",
    "data_root",
    "end_branches",
    "find_structure",
    "forked_rng",
    "gradient_quotient",
    "initialize",
    "load_results",
    "move",
    "preserved",
    "reference_parameter",
    "register_architecture",
    "register_dataset",
    "register_initializer",
    "register_probe",
    "register_recipe",
    "register_scheme",
    "register_task",
    "remove_normalization",
    "rewrite",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'initbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
