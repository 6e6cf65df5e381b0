"""What the distributions share: which weights they draw, and how.

They draw the weights of Linear, of all convolutions and transposed convolutions (grouped or not), and of the
projections of MultiheadAttention, and set their biases to 0. Norm layers get weight 1 and bias 0. Embeddings, for which
these laws are not meant, are drawn from N(0, `embedding_std`²), as are layers that share their weight with one; padding
rows are 0. Everything else (scalars, gates) keeps the value that the model was built with.

The weights of RNN, LSTM and GRU are left as built, too, unless the law is meant for them (`recurrent`): then each gate
has a matrix of its own, and all biases are 0.

A weight under weight normalization, w = g·v/‖v‖, is drawn as if it were a plain weight: v = w and g = ‖w‖. A weight
under another parametrization, such as spectral normalization, keeps its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initbench.arguments import check_positive
from initbench.initializers.context import InitializationContext
from initbench.initializers.parameter_writer import ParameterWriter, own_parameter
from initbench.initializers.record import Law
from initbench.structure.kinds import NORM_LAYERS, is_linear_inputs_first

Family = Literal["normal", "uniform"]


@dataclass(frozen=True)
class WeightLayer:
    """A weight that maps inputs to outputs, seen as one or more independent blocks of (outputs, inputs, *kernel).

    Attributes:
        weight: the parameter; its blocks follow one another along its first dimension. Under weight normalization this
            is v, which `ParameterWriter` treats as the weight.
        bias: the layer's bias, if it has one.
        blocks: groups of a convolution; 3 for the stacked query, key and value projections of attention; the gates of a
            recurrent layer; otherwise 1.
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
        """Inputs per output: input channels × kernel taps of one group.

        In a transposed convolution of stride s only one of s taps per dimension meets an input; it counts all.
        """
        return self.inputs * math.prod(self.kernel)

    @property
    def fan_out(self) -> int:
        """Outputs that one input reaches: output channels × kernel taps of one group (`nn.init` counts all groups)."""
        return self.outputs * math.prod(self.kernel)

    @property
    def dtype(self) -> torch.dtype:
        """The type to draw in: float64 for float64 weights, float32 for all others."""
        return torch.float64 if self.weight.dtype == torch.float64 else torch.float32

    @property
    def centre(self) -> list[int] | None:
        """The centre tap k // 2 per dimension if a size is even, so that the choice matters; None if all are odd."""
        return [size // 2 for size in self.kernel] if any(size % 2 == 0 for size in self.kernel) else None

    def assemble(self, blocks: Tensor) -> Tensor:
        """Return (blocks, outputs, inputs, *kernel) in the layout of the weight."""
        stored = blocks.transpose(1, 2) if self.transposed else blocks
        return stored.reshape(self.weight.shape)

    def in_centre_taps(self, matrices: Iterable[Tensor]) -> Tensor:
        """Return a weight that is zero except at the centre tap k // 2 of each dimension.

        Args:
            matrices: one (outputs, inputs) matrix per block.
        """
        blocks = torch.zeros(self.blocks, self.outputs, self.inputs, *self.kernel, dtype=torch.float64, device="cpu")
        taps = blocks
        for size in reversed(self.kernel):
            taps = taps[..., size // 2]
        taps.copy_(torch.stack(list(matrices)))
        return self.assemble(blocks)


Draw = Callable[[WeightLayer, torch.Generator], "tuple[Tensor, Law]"]
"""Returns a weight's values on the CPU, and their law."""


@dataclass(frozen=True)
class Distribution:
    """An initializer that draws every `WeightLayer` from one law.

    Attributes:
        draw: draws a weight.
        embedding_std: standard deviation of embeddings, for which the law is not meant.
        recurrent: whether the weights of RNN, LSTM and GRU, and of their cells, are drawn, too.

    Raises:
        ArgumentError: embedding_std is not a finite number above 0.
    """

    draw: Draw
    embedding_std: float = 0.02
    recurrent: bool = False

    def __post_init__(self) -> None:
        check_positive(embedding_std=self.embedding_std)

    def __call__(self, model: nn.Module, context: InitializationContext) -> None:
        """Set the model's weights, biases and norm layers in place."""
        writer = ParameterWriter(model, context)
        writer.draw_embeddings(model, self.embedding_std)
        for module in model.modules():
            recurrent = recurrent_layers(module) if self.recurrent else ()
            for layer in (*weight_layers(module), *recurrent):
                writer.draw(layer.weight, partial(self.draw, layer))
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)


def weight_layers(module: nn.Module) -> Iterator[WeightLayer]:
    """Yield the weights of one module (without its children) that the distributions draw."""
    weight, bias = own_parameter(module, "weight"), own_parameter(module, "bias")
    if isinstance(module, _ConvNd) and weight is not None:
        groups = module.groups
        channels = (module.out_channels // groups, module.in_channels // groups)
        yield WeightLayer(weight, bias, groups, *channels, tuple(weight.shape[2:]), module.transposed)
    elif isinstance(module, nn.Linear) and weight is not None:
        yield WeightLayer(weight, bias, 1, *weight.shape)
    elif is_linear_inputs_first(module) and weight is not None:
        yield WeightLayer(weight, bias, 1, weight.shape[1], weight.shape[0], transposed=True)
    elif isinstance(module, nn.MultiheadAttention):
        bias = own_parameter(module, "in_proj_bias")
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = own_parameter(module, name)
            if weight is not None:
                blocks = 3 if name == "in_proj_weight" else 1
                yield WeightLayer(weight, bias, blocks, weight.shape[0] // blocks, weight.shape[1])


def recurrent_layers(module: nn.Module) -> Iterator[WeightLayer]:
    """Yield the weights of one RNN, LSTM, GRU or cell of these: a block per gate, or the projection of an LSTM."""
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        for name, weight in module.named_parameters(recurse=False):
            if name.startswith("weight"):
                bias = own_parameter(module, name.replace("weight", "bias"))
                blocks = 1 if name.startswith("weight_hr") else weight.shape[0] // module.hidden_size
                yield WeightLayer(weight, bias, blocks, weight.shape[0] // blocks, weight.shape[1])


def independent(std: Callable[[WeightLayer], float], family: Family, embedding_std: float) -> Distribution:
    """Return the distribution of independent entries of mean 0, with a standard deviation for each layer."""
    return Distribution(lambda layer, generator: sample(layer, std(layer), family, generator), embedding_std)


def sample(layer: WeightLayer, std: float, family: Family, generator: torch.Generator) -> tuple[Tensor, Law]:
    """Return independent entries of mean 0 for a layer's weight, and their law.

    `std` is also the standard deviation of the uniform law: its bound is √3 std.
    """
    values = torch.empty(layer.weight.shape, dtype=layer.dtype, device="cpu")
    if family == "normal":
        values.normal_(0.0, std, generator=generator)
    else:
        values.uniform_(-math.sqrt(3) * std, math.sqrt(3) * std, generator=generator)
    return values, {"law": family, "std": std}
