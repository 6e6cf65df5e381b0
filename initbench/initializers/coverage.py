"""Which weights an initialization set, and which it passed over."""

from __future__ import annotations

import re
import warnings

from torch import nn
from torch.nn.utils.parametrize import type_before_parametrizations

from initbench.errors import InitializationError
from initbench.initializers.context import InitializationContext
from initbench.initializers.parameter_writer import weight_normalized
from initbench.initializers.record import Coverage, InitializationRecord, changes, describe
from initbench.structure.kinds import is_weight_layer

_LEGACY = {
    "weight_v": "legacy weight normalization, which torch.nn.utils.parametrizations.weight_norm replaces",
    "weight_orig": "legacy spectral normalization, which torch.nn.utils.parametrizations.spectral_norm replaces",
}
# A tuner's reasons for leaving the weight of a layer that it cannot handle.
_PASSED_OVER = {"not_called", "not_proportional"}
_GAINS = ("parametrizations.weight.original0", "weight_g")
_OTHER_KINDS = (nn.Bilinear, nn.Embedding, nn.EmbeddingBag, nn.RNNBase, nn.RNNCellBase)
_WEIGHTS = re.compile(r"weight|(in|q|k|v)_proj_weight|weight_(ih|hh|hr)(_l\d+(_reverse)?)?")
_NAMED = 3


def count_coverage(context: InitializationContext, *, as_built: bool) -> Coverage:
    """Return which weights were set, and warn about those that were passed over.

    If a matrix that may not be a layer's weight (positions, tables of biases) was not set, the model's structure
    decides, which takes one run with one sample. If the model does not run, the types of its modules decide, with a
    warning if the caller gave inputs.

    Args:
        context: its record says what was done.
        as_built: whether the initializer adjusts the weights that the model was built with; then a weight counts as
            passed over only if the initializer says so.

    Raises:
        InitializationError: there are weights, none was set, and the initializer gave no reason.
    """
    record, matrices = context.record, _matrices(context.model)
    reasons = {name: _why_not(record, context.model, name, as_built=as_built) for name in matrices}
    weights = _of_layers(context, matrices) if any(reasons.values()) else matrices
    passed_over = {name: reason for name in weights if (reason := reasons[name]) is not None}
    number = sum(_is_set(record, name) for name in weights)
    coverage = Coverage(len(weights), number, passed_over)
    if passed_over and not coverage.set and not as_built:
        raise InitializationError(
            f"{record.initializer} sets none of the model's {len(weights)} weights: {_named(passed_over)}"
        )
    if passed_over:
        warnings.warn(
            f"{record.initializer} passes over {len(passed_over)} of {len(weights)} weights: {_named(passed_over)}",
            stacklevel=3,
        )
    return coverage


def _matrices(model: nn.Module) -> list[str]:
    """Return the trainable parameters that may be weights of layers: two sizes above 1, or in a layer."""
    matrices = []
    for name, parameter in model.named_parameters():
        wide = sum(size > 1 for size in parameter.shape) >= 2
        of_layer = parameter.dim() >= 2 and _is_of_layer(model, name)
        if parameter.requires_grad and (wide or of_layer) and not name.endswith(_GAINS):
            matrices.append(name)
    return matrices


def _is_of_layer(model: nn.Module, name: str) -> bool:
    owner, _, attribute = name.rpartition(".")
    module = model.get_submodule(owner)
    of_kind = is_weight_layer(module) or isinstance(module, _OTHER_KINDS)
    return (of_kind and _WEIGHTS.fullmatch(attribute) is not None) or ".parametrizations." in f".{name}"


def _why_not(record: InitializationRecord, model: nn.Module, name: str, *, as_built: bool) -> str | None:
    """Return why a weight was not set or was left out by a tuner; None if it was set or was not meant to be."""
    events = record.tensors[name]
    reason = events[-1].get("reason") if events[-1]["event"] == "left" else None
    changed = as_built or _is_set(record, name)
    if reason is not None:  # either the initializer cannot handle the weight, or it is not meant to be set
        unknown = reason in _PASSED_OVER or (reason == "no_layer_weight" and not changed)
        return describe(events[-1]) if unknown else None
    if changed:
        return None
    legacy = _LEGACY.get(name.rpartition(".")[2])
    if legacy is not None:
        return f"it is under {legacy}"
    owner, parametrized, _ = f".{name}".rpartition(".parametrizations.")
    module = model.get_submodule(owner.removeprefix(".") if parametrized else name.rpartition(".")[0])
    if parametrized and weight_normalized(module, "weight") is None:
        return "another parametrization than weight normalization makes the layer's weight of it"
    return f"it is of a {type_before_parametrizations(module).__name__}"


def _of_layers(context: InitializationContext, matrices: list[str]) -> list[str]:
    try:
        structure = context.structure
        if "layers" not in structure.unknown:
            # A layer that did not run is left out, too: the loss does not depend on it.
            weights = {layer.weight for layer in structure.layers}
            return [name for name in matrices if name in weights]
    except InitializationError as error:
        if context.example is not None or context.inputs is not None:
            warnings.warn(
                f"{context.record.initializer} cannot run the model to find its weights, and finds them by the types "
                f"of its modules: {error}",
                stacklevel=4,
            )
    return [name for name in matrices if _is_of_layer(context.model, name)]


def _is_set(record: InitializationRecord, name: str) -> bool:
    """Return whether a weight was set; under weight normalization, v or its gain g is enough."""
    names = [name, f"{name.removesuffix('1')}0"] if name.endswith("weight.original1") else [name]
    return any(changes(event) for tensor in names for event in record.tensors.get(tensor, []))


def _named(passed_over: dict[str, str]) -> str:
    shown = [f"{name} ({reason})" for name, reason in list(passed_over.items())[:_NAMED]]
    return ", ".join(shown) + (", ..." if len(passed_over) > _NAMED else "")
