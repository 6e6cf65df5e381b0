"""Build models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from initbench.architectures.rewrite import put_in
from initbench.arguments import nearest
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs
from initbench.models import random_state
from initbench.models.batches import zero_inputs
from initbench.randomness import derive_seed
from initbench.registry import ARCHITECTURES, STANDARD, Component, scheme_names
from initbench.registry import scheme_arguments as checked_arguments

_SAMPLES = 2


def create_model(
    name: str,
    *,
    scheme: str = STANDARD,
    scheme_arguments: Mapping[str, Any] | None = None,
    input_shape: tuple[int, ...] = (3, 32, 32),
    num_classes: int = 10,
    inputs: Inputs | None = None,
    seed: int = 0,
    **arguments: Any,
) -> nn.Module:
    """Build a registered architecture on the CPU, or on the device of an enclosing ``with torch.device(...)``.

    Random numbers that the layers draw on construction come from the seed; the caller's random state is left unchanged.

    Args:
        name: the architecture, such as ``wrn`` or ``timm/resnet18``.
        scheme: ``standard``, or the name of a registered scheme.
        scheme_arguments: the scheme's own arguments.
        input_shape: shape of one sample: channels, height, width.
        num_classes: number of outputs: classes, or tokens of a vocabulary.
        inputs: describes one sample, instead of `input_shape`; required for tokens.
        seed: the trial's seed.
        arguments: the architecture's own arguments, such as ``depth``.

    Returns:
        A model in training mode; an image classifier maps (N, *input_shape) to logits (N, num_classes).

    Raises:
        UnknownNameError: no architecture has this name, or the library that it comes from is not installed.
        ArgumentError: an argument is unknown, of the wrong type or refused, or the scheme does not fit the
            architecture; an argument of a scheme is named ``scheme.ARGUMENT``.
        InitbenchError: there is no such scheme.
    """
    component = ARCHITECTURES.get(name)
    known = scheme_names(component)
    if scheme not in known:
        raise InitbenchError(f"scheme: unknown scheme {scheme!r}{nearest(scheme, known)}")
    scheme_arguments = checked_arguments(component, scheme, scheme_arguments or {})
    # Besides the CPU's generator, only the default device's: touching another GPU's would start a context there.
    with random_state.forked(torch.get_default_device(), seed=derive_seed(seed, "weights", "construction")):
        resolved, inputs = component.resolve(arguments), inputs or Inputs(tuple(input_shape))
        return build_model(component, resolved, inputs, num_classes, scheme, scheme_arguments)


def build_model(
    architecture: Component[Any],
    arguments: Mapping[str, Any],
    inputs: Inputs,
    outputs: int,
    scheme: str,
    scheme_arguments: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Build an architecture under a scheme: by the scheme's transform, unless it builds that network itself.

    A transformed model is run on two samples.
    """
    model: nn.Module = architecture.call(arguments, inputs=inputs, outputs=outputs, scheme=scheme)
    if scheme in {STANDARD, *architecture.traits.schemes}:
        return model
    try:
        return put_in(model, scheme, zero_inputs(inputs, model, _SAMPLES), scheme_arguments)
    except ArgumentError as error:
        if error.argument is None:
            raise
        raise ArgumentError(error.problem, f"scheme.{error.argument}") from error
