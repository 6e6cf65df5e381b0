"""Models by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.randomness import derive_seed
from initbench.registry import ARCHITECTURES


def create_model(
    name: str,
    *,
    scheme: str = "standard",
    input_shape: tuple[int, ...] = (3, 32, 32),
    num_classes: int = 10,
    inputs: Inputs | None = None,
    seed: int = 0,
    **arguments: Any,
) -> nn.Module:
    """Build a registered architecture on the CPU, or on the device of an enclosing ``with torch.device(...)``.

    What the layers draw on construction comes from the seed; the caller's random state is left as it was.

    Args:
        name: the architecture, such as ``wrn`` or ``timm/resnet18``.
        scheme: ``standard``, or another scheme that the architecture declares.
        input_shape: of one sample: channels, height, width.
        num_classes: the model's outputs: classes, or tokens of a vocabulary.
        inputs: what one sample is, in place of `input_shape`: tokens need it.
        seed: the trial's seed.
        arguments: the architecture's own arguments, such as ``depth``.

    Returns:
        A model in training mode; of an image classifier from (N, *input_shape) to logits (N, num_classes).

    Raises:
        UnknownNameError: no architecture has this name.
        ArgumentError: an argument is unknown, of the wrong type or refused.
        InitbenchError: the architecture does not have the scheme.
    """
    component = ARCHITECTURES.get(name)
    if scheme not in component.traits.schemes:
        has = ", ".join(component.traits.schemes)
        raise InitbenchError(f"scheme: architecture {name} has no scheme {scheme!r} (it has: {has})")
    # The CPU generator alone is seeded and restored: to touch those of GPUs would start a context on each.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights", "construction"))
        model: nn.Module = component.build(
            arguments, inputs=inputs or Inputs(tuple(input_shape)), outputs=num_classes, scheme=scheme
        )
    return model
