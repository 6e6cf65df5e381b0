"""What the distributions share: which weights are drawn, their fans, and how they are drawn.

Drawn are the weights of Linear, of every convolution and transposed convolution (grouped or not), and of the
projections of MultiheadAttention. Their biases are zeroed. Norm layers get weight 1 and bias 0. Everything else
(scalars, embeddings, gates) keeps the value that the model was built with.

A weight under weight normalization, w = g·v/‖v‖, is drawn as it would be without: v = w and g = ‖w‖. One under another
parametrization, such as spectral normalization, keeps its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initbench.architectures.layers import NORM_LAYERS
from initbench.initializers.weight_normalized import weight_normalized, weight_normalized_weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from initbench.initializers.context import InitializationContext

Shape = Literal["normal", "uniform"]


@dataclass(frozen=True)
class WeightLayer:
    """A weight that maps inputs to outputs, seen as one or more independent blocks of (outputs, inputs, *kernel).

    Attributes:
        weight: the parameter; its blocks lie one after another along its first dimension. Under weight normalization
            v, which `ParameterWriter` takes for the weight.
        bias: the layer's bias, if it has one.
        blocks: groups of a convolution; 3 for the stacked query, key and value projections of attention; else 1.
        outputs: output channels of one block.
        inputs: input channels of one block.
        kernel: kernel size per spatial dimension; empty for a linear layer.
        transposed: whether the weight's blocks are stored as (inputs, outputs, *kernel).
    """

    weight: nn.Parameter
    bias: nn.Parameter | None
    blocks: int
    outputs: int
    inputs: int
    kernel: tuple[int, ...] = ()
    transposed: bool = False

    @property
    def fan_in(self) -> int:
        """Inputs of one output: input channels × kernel taps, of one group."""
        return self.inputs * math.prod(self.kernel)

    @property
    def fan_out(self) -> int:
        """Outputs that one input reaches: output channels × kernel taps, of one group (`nn.init` counts all groups)."""
        return self.outputs * math.prod(self.kernel)

    @property
    def dtype(self) -> torch.dtype:
        """What is drawn in: float64 for float64 weights, float32 for all others."""
        return torch.float64 if self.weight.dtype == torch.float64 else torch.float32

    def assemble(self, blocks: Tensor) -> Tensor:
        """Return (blocks, outputs, inputs, *kernel) in the layout of the weight."""
        stored = blocks.transpose(1, 2) if self.transposed else blocks
        return stored.reshape(self.weight.shape)

    def in_centre_taps(self, matrices: Iterable[Tensor]) -> Tensor:
        """Return the weight whose kernels are zero but for the centre tap k // 2 of each dimension.

        Args:
            matrices: (outputs, inputs) of each block.
        """
        blocks = torch.zeros(self.blocks, self.outputs, self.inputs, *self.kernel, dtype=torch.float64)
        taps = blocks
        for size in reversed(self.kernel):
            taps = taps[..., size // 2]
        taps.copy_(torch.stack(list(matrices)))
        return self.assemble(blocks)


Draw = Callable[[WeightLayer, torch.Generator], tuple[Tensor, str]]
"""Returns a weight's values on the CPU, and what they are in words."""


@dataclass(frozen=True)
class Distribution:
    """An initializer that draws every `WeightLayer` from one law.

    Attributes:
        draw: the law.
    """

    draw: Draw

    def __call__(self, model: nn.Module, context: InitializationContext) -> None:
        """Set the model's weights, biases and norm layers in place."""
        writer = ParameterWriter(model, context)
        for module in model.modules():
            for layer in weight_layers(module):
                writer.draw(layer.weight, lambda generator, layer=layer: self.draw(layer, generator))  # type: ignore[misc]
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)


class ParameterWriter:
    """Writes values into parameters in place, each once (tied ones under their first name), frozen ones never.

    What is written into the direction v of a weight normalization is the weight w: v = w and g = ‖w‖ (see
    `WeightNormalized.set_weight`), drawn from the stream of the name that the weight would have without it. Where v or
    g is frozen neither is written.

    Args:
        model: whose parameters.
        context: gives the generators and takes the notes.
    """

    def __init__(self, model: nn.Module, context: InitializationContext) -> None:
        self._context = context
        self._waiting = {id(p): name for name, p in model.named_parameters() if p.requires_grad and p.numel()}
        normalized = reversed(list(weight_normalized_weights(model)))  # so that of several names the first is kept
        self._normalized = {id(weight.direction): (name, weight) for name, weight in normalized}

    def draw(self, parameter: nn.Parameter, make: Callable[[torch.Generator], tuple[Tensor, str]]) -> None:
        """Write what `make` returns for the parameter's generator, and note what it says."""
        if id(parameter) in self._normalized:
            self._set_normalized(parameter, lambda name: make(self._context.generator(name)), "drawn: ")
        else:
            self.draw_itself(parameter, make)

    def draw_itself(self, parameter: nn.Parameter, make: Callable[[torch.Generator], tuple[Tensor, str]]) -> None:
        """Write as `draw` does, but into v itself, whatever g is, where the parameter is that of a weight."""
        name = self._waiting.pop(id(parameter), None)
        if name is not None:
            values, what = make(self._context.generator(name))
            with torch.no_grad():
                parameter.copy_(values)
            self._context.record.note(name, f"drawn: {what}")

    def fill(self, parameter: nn.Parameter | None, value: float) -> None:
        """Set all entries to one value."""
        if parameter is None:
            return
        what = "zeroed" if value == 0 else f"set to {value:g}"
        if id(parameter) in self._normalized:
            self._set_normalized(parameter, lambda _: (torch.full_like(parameter, value), what))
            return
        name = self._waiting.pop(id(parameter), None)
        if name is not None:
            with torch.no_grad():
                parameter.fill_(value)
            self._context.record.note(name, what)

    def reset_norm(self, module: nn.Module) -> None:
        """Set a norm layer's weight to 1 and its bias to 0."""
        self.fill(own_parameter(module, "weight"), 1.0)
        self.fill(own_parameter(module, "bias"), 0.0)

    def _set_normalized(
        self, direction: nn.Parameter, make: Callable[[str], tuple[Tensor, str]], how: str = ""
    ) -> None:
        """Set g and v so that their weight is what `make` returns for its name."""
        name, weight = self._normalized[id(direction)]
        v, g = self._waiting.pop(id(direction), None), self._waiting.pop(id(weight.gain), None)
        if v is not None and g is not None:
            values, what = make(name)
            weight.set_weight(values)
            zero = weight.gain == 0
            self._context.record.note(v, "kept: its gain is 0" if zero.all() else f"{how}{what}, as v")
            size = "set to ‖v‖, 0 where the weight is 0" if zero.any() else "set to ‖v‖"
            self._context.record.note(g, "zeroed" if zero.all() else size)
        elif v is not None:
            self._context.record.note(v, "untouched: its gain is frozen")
        elif g is not None:
            self._context.record.note(g, "untouched: its direction is frozen")


def own_parameter(module: nn.Module, name: str) -> nn.Parameter | None:
    """Return the parameter that a module's weight or bias is written into, see `ParameterWriter`.

    That is the module's own, v where it is weight-normalized, and None where there is none or another parametrization
    computes it.
    """
    weight = weight_normalized(module, name)
    return dict(module.named_parameters(recurse=False)).get(name) if weight is None else weight.direction


def weight_layers(module: nn.Module) -> Iterator[WeightLayer]:
    """Yield the weights of one module (not of its children) that the distributions draw."""
    weight, bias = own_parameter(module, "weight"), own_parameter(module, "bias")
    if isinstance(module, _ConvNd) and weight is not None:
        groups = module.groups
        channels = (module.out_channels // groups, module.in_channels // groups)
        yield WeightLayer(weight, bias, groups, *channels, tuple(weight.shape[2:]), module.transposed)
    elif isinstance(module, nn.Linear) and weight is not None:
        yield WeightLayer(weight, bias, 1, *weight.shape)
    elif isinstance(module, nn.MultiheadAttention):
        bias = own_parameter(module, "in_proj_bias")
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = own_parameter(module, name)
            if weight is not None:
                blocks = 3 if name == "in_proj_weight" else 1
                yield WeightLayer(weight, bias, blocks, weight.shape[0] // blocks, weight.shape[1])


def sample(layer: WeightLayer, std: float, shape: Shape, generator: torch.Generator) -> tuple[Tensor, str]:
    """Return independent entries of mean 0 for a layer's weight, and their law in words.

    Args:
        layer: whose weight.
        std: standard deviation, of the uniform law too: its bound is √3 std.
        shape: ``normal`` or ``uniform``.
        generator: on the CPU.
    """
    values = torch.empty(layer.weight.shape, dtype=layer.dtype)
    if shape == "normal":
        values.normal_(0.0, std, generator=generator)
    else:
        values.uniform_(-math.sqrt(3) * std, math.sqrt(3) * std, generator=generator)
    return values, f"{shape}, std {std:.4g}"
