"""Apply schemes to models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from torch import nn

from initbench.arguments import nearest
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.plugins import first_line
from initbench.registry import SCHEMES
from initbench.structure.find import find_structure, record_run_on_any_input
from initbench.structure.recording import record_run


def rewrite(model: nn.Module, scheme: str, *, inputs: Any = None, **arguments: Any) -> nn.Module:
    """Return a copy of a model with the parts of a scheme.

    - ``fixup`` (Zhang, Dauphin & Ma, 2019, rule 3): a scalar bias replaces each normalization and precedes each
      convolution and linear layer except the first; a scalar multiplier ends each residual branch, before the bias if
      the branch ends in a normalization.
    - ``skipinit`` (De & Smith, 2020, section 4): normalizations are removed, convolutions get biases, and a scalar gate
      of 0 ends each residual branch.
    - ``weight_norm`` (Salimans & Kingma, 2016): normalizations are removed, convolutions get biases, and convolutions
      and linear layers except the heads, which produce the output, are weight-normalized. With ``keep_norms=True``, or
      as ``weight_norm_beside_norm``, normalizations stay and convolutions get no biases.
    - ``channel_bias`` (Zhu et al., 2021, GradInit's networks): a bias per channel replaces each normalization; see
      `remove_normalization`.
    - schemes of plug-ins, see `register_scheme`.

    All weights keep their values; gates that branches already have become the scheme's, or 1 if they have more than one
    number. Call `initbench.initialize` afterwards. Layers within `nn.MultiheadAttention` stay as they are. A module
    that gets a part before or after it changes its name, except for a `BranchEnd`.

    The model runs once to find its structure, and the rewritten model runs once so that one that fails or does not use
    the scheme's parts is refused: both in eval mode and without gradients.

    Args:
        model: any module; it is not changed.
        scheme: its registered name.
        inputs: an example batch, for which one sample is enough: a tensor, a tuple of positional arguments, or a
            dictionary of keyword arguments. None for zeros of a shape that the first layer takes.
        arguments: the scheme's own arguments.

    Raises:
        ArgumentError: the scheme is unknown, or refuses an argument.
        ValueError: the scheme refuses the model: it has another normalization, no residual branch is found, a branch
            ends in no module that a multiplier can follow, a weight to normalize has a row of zeros or is shared, or
            the rewritten model fails on `inputs` or does not use its new parameters.
        InitbenchError: the scheme does not return a model.
    """
    known = SCHEMES.names()
    if scheme not in known:
        hint = nearest(scheme, known, list_all=False) if isinstance(scheme, str) else ""
        raise ArgumentError(f"must be one of {', '.join(known)}; got {scheme!r}{hint}", "scheme")
    return put_in(deepcopy(model), scheme, inputs, arguments)


def put_in(model: nn.Module, scheme: str, inputs: Any, arguments: Mapping[str, Any] | None = None) -> nn.Module:
    """Return a model with the parts of a scheme; may change the model itself. See `rewrite` for the arguments."""
    component = SCHEMES.get(scheme)
    known = {id(parameter) for parameter in model.parameters()}
    supplied: dict[str, Any] = {"model": model}
    try:
        if "structure" in inspect.signature(component.factory).parameters:
            supplied["structure"] = find_structure(model, inputs)
        rewritten = component.build(arguments or {}, **supplied)
    except InitializationError as error:
        raise ValueError(f"{scheme}: {error}") from error
    except ArgumentError as error:
        if error.argument is not None:
            raise
        raise ArgumentError(f"{scheme}: {error}") from error
    if not isinstance(rewritten, nn.Module):
        raise InitbenchError(f"scheme {scheme} must return a model, returned {type(rewritten).__name__}")
    _check_that_it_runs(rewritten, scheme, inputs, known)
    return rewritten


def _check_that_it_runs(model: nn.Module, scheme: str, inputs: Any, known: set[int]) -> None:
    """Raise a ValueError if a rewritten model fails or does not use one of its new parameters."""
    try:
        unused = (record_run_on_any_input(model) if inputs is None else record_run(model, inputs)).unused
    except InitializationError as error:
        raise ValueError(f"{scheme}: the rewritten {type(model).__name__} does not run: {first_line(error)}") from error
    idle = [name for name in unused if id(model.get_parameter(name)) not in known]
    if idle:
        others = f" and {len(idle) - 1} more" if len(idle) > 1 else ""
        raise ValueError(
            f"{scheme}: the rewritten {type(model).__name__} does not use {idle[0]}{others}: it runs the module there "
            "in a way of its own"
        )
