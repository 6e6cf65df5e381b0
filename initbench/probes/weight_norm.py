"""The norms of the parameters at initialization."""

from __future__ import annotations

import torch
from torch import nn

from initbench.batches import reference_parameter
from initbench.probes.context import Measure, Measurement, ProbeContext
from initbench.registry import register_probe


@register_probe("weight_norm")
def weight_norm() -> Measure:
    """Global L2 norm of all parameters; the conditions hold the norm of each under ``per_layer``."""

    def measure(model: nn.Module, context: ProbeContext) -> Measurement:  # noqa: ARG001 - a probe takes both
        reference_parameter(model)  # an error where there are no parameters
        named = {name: parameter.detach() for name, parameter in model.named_parameters()}
        norms = torch.stack([torch.linalg.vector_norm(p, dtype=torch.float64) for p in named.values()])
        per_layer = dict(zip(named, norms.tolist(), strict=True))
        return Measurement(float(torch.linalg.vector_norm(norms)), {"per_layer": per_layer})

    return measure
