"""PyTorch's default initialization."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from torch import nn
from torch.nn.modules.conv import _ConvNd

from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.parameter_writer import ParameterWriter, normal, own_parameter, uniform
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS, is_linear, is_linear_inputs_first


@register_initializer("pytorch_default", reference="torch.nn, reset_parameters of each layer")
def pytorch_default() -> Apply:
    """The laws of PyTorch's `reset_parameters`: uniform weights and biases with bound 1 / √fan_in.

    For linear and convolutional layers that is ``kaiming_uniform_(a=√5)``, a standard deviation of 1 / √(3 fan_in).
    Like PyTorch, this takes the fan of a transposed convolution from its stored layout, that is, from its output
    channels. Embeddings are N(0, 1); norm layers get weight 1 and bias 0; recurrent layers are uniform with bound
    1 / √hidden_size; the stacked projections of attention are Xavier uniform with zero biases. Every draw is keyed by
    the parameter's name.
    """

    def apply(model: nn.Module, context: InitializationContext) -> None:
        writer = ParameterWriter(model, context)
        for module in model.modules():
            if isinstance(module, nn.MultiheadAttention):
                _reset_attention(module, writer)
            elif isinstance(module, nn.Embedding | nn.EmbeddingBag):
                writer.draw_embeddings(module, 1.0)
            elif isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
            else:
                for parameter, bound in _uniform_parameters(module):
                    writer.draw(parameter, partial(uniform, parameter, bound))

    return apply


def _uniform_parameters(module: nn.Module) -> Iterator[tuple[nn.Parameter, float]]:
    weight, bias = own_parameter(module, "weight"), own_parameter(module, "bias")
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        for parameter in module.parameters(recurse=False):
            yield parameter, 1 / math.sqrt(module.hidden_size)
    elif weight is not None and weight.numel() and (is_linear(module) or isinstance(module, nn.Bilinear | _ConvNd)):
        fan_in = weight.shape[1] if isinstance(module, nn.Bilinear) else weight[0].numel()
        if is_linear_inputs_first(module):
            fan_in = weight.shape[0]
        yield weight, 1 / math.sqrt(fan_in)
        if bias is not None:
            yield bias, 1 / math.sqrt(fan_in)


def _reset_attention(module: nn.MultiheadAttention, writer: ParameterWriter) -> None:
    for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
        weight = own_parameter(module, name)
        if weight is not None:  # PyTorch counts the three stacked projections as one matrix
            writer.draw(weight, partial(uniform, weight, math.sqrt(6 / sum(weight.shape))))
    writer.fill(own_parameter(module, "in_proj_bias"), 0.0)
    writer.fill(own_parameter(module.out_proj, "bias"), 0.0)
    for name in ("bias_k", "bias_v"):
        bias = own_parameter(module, name)
        if bias is not None:  # of shape (1, 1, embedding): Xavier normal, with fans 1 · embedding and 1 · embedding
            writer.draw(bias, partial(normal, bias, math.sqrt(2 / (2 * bias.shape[2]))))
