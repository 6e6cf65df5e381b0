"""The size and spread of the entries of each parameter."""

from __future__ import annotations

from torch import nn

from initbench.models.batches import reference_parameter
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer
from initbench.registry import register_probe

REFERENCE = "Zhu et al., GradInit, NeurIPS 2021, Figures 4 to 10"


@register_probe("weight_magnitude", reference=REFERENCE)
def weight_magnitude() -> Measure:
    """Mean absolute value of the entries of each parameter, and their ``standard_deviation``.

    The first is the averaged per-dimension weight magnitude of GradInit's Figures 4 to 10, ‖W‖ / d, where ‖W‖ is the
    sum of the absolute values of the d entries. If a tuner scales a weight, this value scales with it. The second is
    the population's, √(mean w² − (mean w)²). Neither needs a gradient.
    """

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        reference_parameter(model)  # raises an error if there are no parameters
        named = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
        return {
            "per_layer": PerLayer({name: float(w.abs().mean()) for name, w in named.items()}),
            "standard_deviation": PerLayer({name: float(w.std(correction=0)) for name, w in named.items()}),
        }

    return measure
