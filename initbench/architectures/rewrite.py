"""Apply schemes to models."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from initbench.arguments import nearest
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.plugins import first_line
from initbench.registry import SCHEMES
from initbench.structure.backward import gradients, in_words, locked_branch
from initbench.structure.find import find_structure, run_on_any_input, structure_of
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
    - ``deepnorm`` (Wang et al., 2022): in post-norm Transformers, a constant multiplier ends each residual branch.
    - ``admin`` (Liu et al., 2020): in `gpt` and `transformer` with norms after additions, a learnable vector of 1s
      multiplies each shortcut.
    - schemes of plug-ins, see `register_scheme`.

    All weights keep their values; gates that branches already have become the scheme's, or 1 if they have more than one
    number. Call `initbench.initialize` afterwards. Layers within `nn.MultiheadAttention` stay as they are. A module
    that gets a part before or after it changes its name, except for a `BranchEnd`. Activations no longer write into
    their inputs, which may be shared once a normalization before them is removed.

    The model runs once to find its structure. The rewritten model runs forward and backward, so that one that fails or
    does not use the scheme's parts is refused; there is a warning if a branch is 0 and no training can change that. All
    of this is in eval mode.

    Args:
        model: any module; it is not changed.
        scheme: its registered name.
        inputs: an example batch, for which one sample is enough: a tensor, a tuple of positional arguments, or a
            dictionary of keyword arguments. None for zeros of a shape that the first layer takes.
        arguments: the scheme's own arguments.

    Raises:
        ArgumentError: the scheme is unknown, or refuses an argument.
        ArgumentError: the scheme refuses the model: it has another normalization, no residual branch is found, a branch
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
        raise ArgumentError(f"{scheme}: {error}") from error
    except ArgumentError as error:
        if error.argument is not None:
            raise
        raise ArgumentError(f"{scheme}: {error}") from error
    if not isinstance(rewritten, nn.Module):
        raise InitbenchError(f"scheme {scheme} must return a model, returned {type(rewritten).__name__}")
    _write_nothing_in_place(rewritten)
    _disable_fast_path(rewritten)
    _check_that_it_runs(rewritten, scheme, inputs, known)
    return rewritten


def _write_nothing_in_place(model: nn.Module) -> None:
    """Let activations return new tensors: without the normalization before it, one would write into a shared tensor."""
    for module in model.modules():
        if getattr(module, "inplace", False) is True and not isinstance(module, _DropoutNd):
            module.inplace = False  # type: ignore[assignment]  # an attribute of activations


def _disable_fast_path(model: nn.Module) -> None:
    """Turn off the fast path of PyTorch's Transformer encoder layers, which in evaluation bypasses their submodules."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            module.activation_relu_or_gelu = 0


def _check_that_it_runs(model: nn.Module, scheme: str, inputs: Any, known: set[int]) -> None:
    """Raise an ArgumentError if a rewritten model fails, also backward, or does not use one of its new parameters.

    Warn about a branch that no training opens.
    """
    kind = type(model).__name__
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        inputs, graph = run_on_any_input(model) if inputs is None else (inputs, record_run(model, inputs))
        on_meta = any(parameter.is_meta for parameter in model.parameters())
        if trained and not on_meta:  # where there are no numbers, there is nothing to differentiate
            gradients(model, inputs, trained)
    except InitializationError as error:
        raise ArgumentError(f"{scheme}: the rewritten {kind} does not run: {first_line(error)}") from error
    idle = [name for name in graph.unused if id(model.get_parameter(name)) not in known]
    if idle:
        others = f" and {len(idle) - 1} more" if len(idle) > 1 else ""
        raise ArgumentError(
            f"{scheme}: the rewritten {kind} does not use {idle[0]}{others}: it runs the module there in a way of its "
            "own"
        )
    locked = [] if on_meta else locked_branch(model, inputs, structure_of(graph, model))
    if locked:
        warnings.warn(f"{scheme}: in the rewritten {kind}, {in_words(locked)}", stacklevel=4)
