"""initbench: the benchmarking suite for neural-network initialization methods.

The public names are loaded when first used, so importing the package, or `initbench.reporting`, does not load torch.
Notebooks and plug-ins may import them, `initbench.testing` and `initbench.reporting`; everything else may change.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and the documentation; `as` marks a name as public
    from initbench.architectures.create import create_model as create_model
    from initbench.architectures.rewrite import rewrite as rewrite
    from initbench.architectures.scalars import ScalarMultiplier as ScalarMultiplier
    from initbench.architectures.style import BranchEnd as BranchEnd
    from initbench.data.dataset import Split as Split
    from initbench.data.dataset import Splits as Splits
    from initbench.data.load import data_root as data_root
    from initbench.errors import ArgumentError as ArgumentError
    from initbench.errors import DataError as DataError
    from initbench.errors import InitbenchError as InitbenchError
    from initbench.errors import InitializationError as InitializationError
    from initbench.initializers.context import Apply as Apply
    from initbench.initializers.context import InitializationContext as InitializationContext
    from initbench.initializers.distribution import Distribution as Distribution
    from initbench.initializers.distribution import WeightLayer as WeightLayer
    from initbench.initializers.initialize import initialize as initialize
    from initbench.initializers.record import Law as Law
    from initbench.inputs import Inputs as Inputs
    from initbench.inspection.audit import audit as audit
    from initbench.inspection.check import check as check
    from initbench.inspection.diff import diff as diff
    from initbench.inspection.fingerprint import fingerprint as fingerprint
    from initbench.metric import Metric as Metric
    from initbench.models.batches import Batch as Batch
    from initbench.models.batches import move as move
    from initbench.models.batches import reference_parameter as reference_parameter
    from initbench.models.state import forked_rng as forked_rng
    from initbench.models.state import preserved as preserved
    from initbench.probes.context import Measure as Measure
    from initbench.probes.context import ProbeContext as ProbeContext
    from initbench.probes.gradient_quotient import gradient_quotient as gradient_quotient
    from initbench.probes.measurement import Curve as Curve
    from initbench.probes.measurement import Measurement as Measurement
    from initbench.probes.measurement import PerLayer as PerLayer
    from initbench.probes.measurement import Scalar as Scalar
    from initbench.registry import Description as Description
    from initbench.registry import Initializer as Initializer
    from initbench.registry import register_architecture as register_architecture
    from initbench.registry import register_dataset as register_dataset
    from initbench.registry import register_initializer as register_initializer
    from initbench.registry import register_probe as register_probe
    from initbench.registry import register_scheme as register_scheme
    from initbench.registry import register_task as register_task
    from initbench.reporting.frame import load_results as load_results
    from initbench.schemes.branch_ends import end_branches as end_branches
    from initbench.schemes.channel_bias import remove_normalization as remove_normalization
    from initbench.structure.attention import Attention as Attention
    from initbench.structure.find import Structure as Structure
    from initbench.structure.find import find_structure as find_structure
    from initbench.structure.layer import Layer as Layer
    from initbench.structure.residual import ResidualBranch as ResidualBranch
    from initbench.tasks.task import Task as Task
    from initbench.training.named_recipes import register_recipe as register_recipe

__version__ = "0.2.0"

_PUBLIC_BY_MODULE = {
    "initbench.architectures.create": ["create_model"],
    "initbench.architectures.rewrite": ["rewrite"],
    "initbench.architectures.scalars": ["ScalarMultiplier"],
    "initbench.architectures.style": ["BranchEnd"],
    "initbench.data.dataset": ["Split", "Splits"],
    "initbench.data.load": ["data_root"],
    "initbench.errors": ["ArgumentError", "DataError", "InitbenchError", "InitializationError"],
    "initbench.initializers.context": ["Apply", "InitializationContext"],
    "initbench.initializers.distribution": ["Distribution", "WeightLayer"],
    "initbench.initializers.initialize": ["initialize"],
    "initbench.initializers.record": ["Law"],
    "initbench.inputs": ["Inputs"],
    "initbench.inspection.audit": ["audit"],
    "initbench.inspection.check": ["check"],
    "initbench.inspection.diff": ["diff"],
    "initbench.inspection.fingerprint": ["fingerprint"],
    "initbench.metric": ["Metric"],
    "initbench.models.batches": ["Batch", "move", "reference_parameter"],
    "initbench.models.state": ["forked_rng", "preserved"],
    "initbench.probes.context": ["Measure", "ProbeContext"],
    "initbench.probes.gradient_quotient": ["gradient_quotient"],
    "initbench.probes.measurement": ["Curve", "Measurement", "PerLayer", "Scalar"],
    "initbench.registry": [
        "Description",
        "Initializer",
        "register_architecture",
        "register_dataset",
        "register_initializer",
        "register_probe",
        "register_scheme",
        "register_task",
    ],
    "initbench.reporting.frame": ["load_results"],
    "initbench.schemes.branch_ends": ["end_branches"],
    "initbench.schemes.channel_bias": ["remove_normalization"],
    "initbench.structure.attention": ["Attention"],
    "initbench.structure.find": ["Structure", "find_structure"],
    "initbench.structure.layer": ["Layer"],
    "initbench.structure.residual": ["ResidualBranch"],
    "initbench.tasks.task": ["Task"],
    "initbench.training.named_recipes": ["register_recipe"],
}
_PUBLIC = {name: module for module, names in _PUBLIC_BY_MODULE.items() for name in names}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'initbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
