"""Measuring a model with a registered probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from initbench.probes.context import ProbeContext
from initbench.probes.measurement import entries
from initbench.registry import PROBES, Initializer


def measure(name: str, arguments: Mapping[str, Any], model: nn.Module, context: ProbeContext) -> list[dict[str, Any]]:
    """Return what a record holds of a probe: one entry for each of its measurements."""
    return entries(label(name, arguments), PROBES.get(name).build(arguments)(model, context))


def label(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a probe's name with the arguments that are not at their defaults: ``gradient_quotient[mode=train]``."""
    component = PROBES.get(name)
    resolved = component.resolve(arguments)
    default = component.resolve({a.name: resolved[a.name] for a in component.arguments if a.required})
    always = {a.name for a in component.arguments if a.required}
    changed = {key: value for key, value in resolved.items() if key in always or value != default[key]}
    shown = (f"{key}={value.name if isinstance(value, Initializer) else value}" for key, value in changed.items())
    return name + (f"[{', '.join(shown)}]" if changed else "")
