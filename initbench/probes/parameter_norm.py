"""The norms of the parameters at initialization."""

from __future__ import annotations

import torch
from torch import nn

from initbench.models.batches import reference_parameter
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer, Scalar
from initbench.registry import register_probe


@register_probe("parameter_norm")
def parameter_norm() -> Measure:
    """L2 norm of all parameters together, and as ``per_layer`` the norm of each parameter."""

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        reference_parameter(model)  # raises an error if there are no parameters
        named = {name: parameter.detach() for name, parameter in model.named_parameters()}
        norms = torch.stack([torch.linalg.vector_norm(p, dtype=torch.float64) for p in named.values()])
        per_layer = dict(zip(named, norms.tolist(), strict=True))
        return {"": Scalar(float(torch.linalg.vector_norm(norms))), "per_layer": PerLayer(per_layer)}

    return measure
