"""The structure of an architecture, for its card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.errors import InitbenchError
from initbench.inputs import Inputs

if TYPE_CHECKING:
    from initbench.registry import Component
    from initbench.structure.find import Structure

# What is tried, in this order: images of CIFAR's size and of ImageNet's, for what is built for these; bytes of text.
_INPUTS = (Inputs((3, 32, 32)), Inputs((3, 224, 224)), Inputs((16,), vocabulary=256))
_CLASSES = 10


def structure_of_default(component: Component[Any]) -> tuple[Inputs, Structure] | None:
    """Return the structure of an architecture with its default arguments, and the inputs that it was found with.

    Nothing is computed: the model is on the meta device.

    Returns:
        None for a family of architectures, where an argument has no default, or where none of the inputs is taken.
    """
    import torch

    from initbench.architectures.create import build_model
    from initbench.batches import zero_inputs
    from initbench.registry import STANDARD
    from initbench.structure.find import find_structure

    if component.name.endswith("/*") or any(argument.required for argument in component.arguments):
        return None
    for inputs in _INPUTS:
        try:
            with torch.device("meta"):
                model = build_model(component, component.resolve({}), inputs, inputs.vocabulary or _CLASSES, STANDARD)
                return inputs, find_structure(model, zero_inputs(inputs, model))
        except (InitbenchError, ValueError):
            continue
    return None
