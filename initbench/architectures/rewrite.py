"""Schemes put into models."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from initbench.architectures.structure import Structure
from initbench.errors import ArgumentError, InitbenchError
from initbench.plugins import first_line
from initbench.registry import SCHEMES
from initbench.validation import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping


def rewrite(model: nn.Module, scheme: str, *, inputs: Tensor | None = None, **arguments: Any) -> nn.Module:
    """Return a copy of a model with the parts of a scheme.

    - ``fixup`` (Zhang, Dauphin & Ma, 2019, rule 3): a scalar bias in the place of each normalization and before each
      convolution and linear layer but the first, and a scalar multiplier at the end of each residual branch, before the
      bias where the branch ends in a normalization.
    - ``skipinit`` (De & Smith, 2020, section 4): each normalization is left out, convolutions have biases, and a scalar
      gate of 0 ends each residual branch.
    - ``weight_norm`` (Salimans & Kingma, 2016): each normalization is left out, convolutions have biases, and they and
      the linear layers but for the classifier, which is the last one, are weight-normalized.
    - ``channel_bias`` (Zhu et al., 2021, GradInit's networks): a bias for each channel in the place of each
      normalization; see `remove_normalization`.
    - Those of plug-ins, see `register_scheme`.

    Layers within `nn.MultiheadAttention` stay as they are. The values of all weights are those of the model; call
    `initbench.initialize` afterwards. Modules that something is put before or behind are found under another name, but
    for a `BranchEnd`.

    Args:
        model: any module; it stays as it is. Where a scheme needs residual branches, `torch.fx` must be able to trace
            its forward pass.
        scheme: its registered name.
        inputs: a batch of images, tokens or what else the model takes. Where it is given the rewritten model runs once
            on it, in eval mode, so that one whose forward pass reaches into a module that is no longer there is refused
            here.
        arguments: the scheme's own.

    Raises:
        ArgumentError: the scheme is unknown, or refuses an argument.
        ValueError: the scheme refuses the model: it has another normalization, no residual branch is found, a branch
            ends in no module that a multiplier can follow, a weight to normalize has a row of zeros or is shared, or
            the rewritten model fails on `inputs`.
        InitbenchError: the scheme returns no model.
    """
    known = SCHEMES.names()
    if scheme not in known:
        hint = nearest(scheme, known, list_all=False) if isinstance(scheme, str) else ""
        raise ArgumentError(f"must be one of {', '.join(known)}; got {scheme!r}{hint}", "scheme")
    return put_in(deepcopy(model), scheme, inputs, arguments)


def put_in(
    model: nn.Module, scheme: str, inputs: Tensor | None = None, arguments: Mapping[str, Any] | None = None
) -> nn.Module:
    """Return a model with the parts of a scheme; the model itself may be changed. For the arguments see `rewrite`.

    Raises:
        ValueError: the scheme refuses the model or an argument, or the rewritten model fails on `inputs`.
        InitbenchError: the scheme returns no model.
    """
    component = SCHEMES.get(scheme)
    try:
        rewritten = component.build(arguments or {}, model=model, structure=Structure(model))
    except ArgumentError as error:
        if error.argument is not None:
            raise
        raise ArgumentError(f"{scheme}: {error}") from error
    if not isinstance(rewritten, nn.Module):
        raise InitbenchError(f"scheme {scheme} must return a model, returned {type(rewritten).__name__}")
    if inputs is not None:
        _check_that_it_runs(rewritten, scheme, inputs)
    return rewritten


def _check_that_it_runs(model: nn.Module, scheme: str, inputs: Tensor) -> None:
    """Raise a ValueError where a rewritten model fails; a copy runs, so that nothing of the model changes."""
    trial = deepcopy(model).eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            trial(inputs.clone())
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise ValueError(
            f"{scheme}: the rewritten {type(model).__name__} fails on inputs of shape {tuple(inputs.shape)}: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error
