"""Writes values into the parameters of a model and records them.

The weight of a layer under weight normalization is w = g·v/‖v‖ (Salimans & Kingma, Weight Normalization, NeurIPS 2016,
equation (2)), as computed by `torch.nn.utils.parametrizations.weight_norm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import is_parametrized

from initbench.errors import InitializationError
from initbench.initializers.context import InitializationContext
from initbench.initializers.record import Law


@dataclass(frozen=True)
class WeightNormalized:
    """The parameters of a weight w = g·v/‖v‖.

    Attributes:
        gain: g, of the weight's shape except for ones in all dimensions that a norm is taken over.
        direction: v, of the weight's shape; its length has no effect on w.
        dim: the dimension of w with one norm per index, such as 0 for the outputs; -1 for a single norm.
    """

    gain: nn.Parameter
    direction: nn.Parameter
    dim: int

    @torch.no_grad()
    def set_weight(self, w: Tensor) -> None:
        """Set v = w and g = ‖w‖, so that the weight is w up to rounding.

        If ‖w‖ is 0 there is no direction, and v = 0 would make the weight NaN; so g becomes 0 and v stays as it is, or
        becomes 1 if it was 0.
        """
        w = w.to(self.direction)
        zero = self._norms(w) == 0
        kept = torch.where(self._norms(self.direction) == 0, 1.0, self.direction)
        self.direction.copy_(torch.where(zero, kept, w))
        self.gain.copy_(torch.where(zero, 0.0, self._norms(self.direction)))

    def _norms(self, w: Tensor) -> Tensor:
        return torch.norm_except_dim(w, 2, self.dim)


def weight_normalized(module: nn.Module, name: str) -> WeightNormalized | None:
    """Return the parameters of a weight; None unless weight normalization is its only parametrization."""
    if not is_parametrized(module, name):
        return None
    stages: Any = module.get_submodule(f"parametrizations.{name}")
    if len(stages) != 1 or not isinstance(stages[0], _WeightNorm):
        return None
    return WeightNormalized(stages.original0, stages.original1, stages[0].dim)


def weight_normalized_weights(model: nn.Module) -> Iterator[tuple[str, WeightNormalized]]:
    """Yield the weight-normalized weights of a model with the names that they would have as plain parameters."""
    for prefix, module in model.named_modules():
        parametrized: Any = module.parametrizations if is_parametrized(module) else ()
        for name in parametrized:
            weight = weight_normalized(module, name)
            if weight is not None:
                yield f"{prefix}.{name}".removeprefix("."), weight


Make = Callable[[torch.Generator], "tuple[Tensor, Law]"]
"""Returns a parameter's values on the CPU, and their law."""


class ParameterWriter:
    """Writes values into parameters in place: tied ones once, under their first name; frozen ones never.

    Values written into the direction v of a weight normalization are taken as the weight w: v = w and g = ‖w‖ (see
    `WeightNormalized.set_weight`), drawn from the stream of the name that w would have as a plain parameter. If v or g
    is frozen, neither is written.
    """

    def __init__(self, model: nn.Module, context: InitializationContext) -> None:
        self._context, self._record = context, context.record
        self._waiting = {id(p): name for name, p in model.named_parameters() if p.requires_grad and p.numel()}
        normalized = reversed(list(weight_normalized_weights(model)))  # so that the first of several names is kept
        self._normalized = {id(weight.direction): (name, weight) for name, weight in normalized}

    def draw(self, parameter: nn.Parameter, make: Make) -> None:
        """Write what `make` returns for the parameter's generator, and record its law.

        An InitializationError says that the parameter is complex: the laws are of real numbers.
        """

        def weight(name: str) -> tuple[Tensor, Callable[[str], None]]:
            values, law = make(self._context.generator(name))
            return values, partial(self._record.drawn, **law, direction=True)

        if id(parameter) in self._normalized:
            self._set_normalized(parameter, weight)
        else:
            self.draw_itself(parameter, make)

    def draw_itself(self, parameter: nn.Parameter, make: Make) -> None:
        """Like `draw`, but if the parameter is the direction v of a weight, write v itself and leave g alone."""
        name = self._waiting.pop(id(parameter), None)
        if name is not None:
            if parameter.is_complex():
                raise InitializationError(
                    f"{self._record.initializer}: {name} is complex, and its law is of real numbers"
                )
            values, law = make(self._context.generator(name))
            with torch.no_grad():
                parameter.copy_(values)
            self._record.drawn(name, **law)

    def draw_embeddings(self, model: nn.Module, std: float) -> None:
        """Draw embeddings from N(0, std²) with padding rows of 0.

        Call it before drawing the layers, because a layer that shares its weight with an embedding follows the
        embedding.
        """
        for weight, padding in embeddings(model):
            self.draw(weight, partial(normal_embedding, weight, std, padding))

    def fill(self, parameter: nn.Parameter | None, value: float) -> None:
        if parameter is None:
            return
        if id(parameter) in self._normalized:
            note = partial(self._record.filled, value=value, direction=True)
            self._set_normalized(parameter, lambda _: (torch.full_like(parameter, value), note))
            return
        name = self._waiting.pop(id(parameter), None)
        if name is not None:
            with torch.no_grad():
                parameter.fill_(value)
            self._record.filled(name, value)

    def set_to(self, parameter: nn.Parameter, values: Tensor, what: str) -> None:
        """Write values that have a name in `record.SET_TO`."""
        name = self._waiting.pop(id(parameter), None)
        if name is not None:
            with torch.no_grad():
                parameter.copy_(values)
            self._record.set_to(name, what)

    def reset_norm(self, module: nn.Module) -> None:
        self.fill(own_parameter(module, "weight"), 1.0)
        self.fill(own_parameter(module, "bias"), 0.0)

    def _set_normalized(
        self, direction: nn.Parameter, make: Callable[[str], tuple[Tensor, Callable[[str], None]]]
    ) -> None:
        """Set g and v so that their weight is what `make` returns for its name, with a function that records v."""
        name, weight = self._normalized[id(direction)]
        v, g = self._waiting.pop(id(direction), None), self._waiting.pop(id(weight.gain), None)
        if v is not None and g is not None:
            values, note = make(name)
            weight.set_weight(values)
            zero = weight.gain == 0
            if zero.all():
                self._record.left(v, "zero_gain")
                self._record.filled(g, 0.0)
            else:
                note(v)
                self._record.set_to(g, "norms", **({"zeros": True} if zero.any() else {}))
        elif v is not None:
            self._record.left(v, "frozen_gain")
        elif g is not None:
            self._record.left(g, "frozen_direction")


def embeddings(model: nn.Module) -> Iterator[tuple[nn.Parameter, int | None]]:
    """Yield the weight of each embedding and its padding row."""
    for module in model.modules():
        weight = own_parameter(module, "weight") if isinstance(module, nn.Embedding | nn.EmbeddingBag) else None
        if weight is not None:
            yield weight, module.padding_idx  # type: ignore[misc]  # both kinds have it


def normal(parameter: nn.Parameter, std: float, generator: torch.Generator) -> tuple[Tensor, Law]:
    """Return entries of N(0, std²) for a parameter, drawn in float64 for float64 and in float32 for all other types."""
    dtype = torch.float64 if parameter.dtype == torch.float64 else torch.float32
    values = torch.empty(parameter.shape, dtype=dtype, device="cpu").normal_(0.0, std, generator=generator)
    return values, {"law": "normal", "std": std}


def uniform(parameter: nn.Parameter, bound: float, generator: torch.Generator) -> tuple[Tensor, Law]:
    """Return entries uniform between -bound and bound for a parameter, drawn in the types of `normal`."""
    dtype = torch.float64 if parameter.dtype == torch.float64 else torch.float32
    values = torch.empty(parameter.shape, dtype=dtype, device="cpu").uniform_(-bound, bound, generator=generator)
    return values, {"law": "uniform", "bound": bound}


def normal_embedding(
    weight: nn.Parameter, std: float, padding: int | None, generator: torch.Generator
) -> tuple[Tensor, Law]:
    """Return entries of N(0, std²) for the weight of an embedding, with 0 in the padding row."""
    values, law = normal(weight, std, generator)
    law = law | {"part": "embedding"}
    if padding is not None:
        values[padding] = 0.0
        law["padding_row"] = padding
    return values, law


def own_parameter(module: nn.Module, name: str) -> nn.Parameter | None:
    """Return the parameter to write a module's weight or bias into, see `ParameterWriter`.

    It is the module's own parameter, v if it is weight-normalized, and None if there is none or another parametrization
    computes it.
    """
    weight = weight_normalized(module, name)
    return dict(module.named_parameters(recurse=False)).get(name) if weight is None else weight.direction
