"""Building blocks of the architectures: activations, normalization, dropout and stochastic depth."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_unary, has_torch_function_variadic

from initbench.errors import ArgumentError

Activation = Literal["relu", "swish", "beta_swish", "tanh", "linear"]
Norm = Literal["none", "batch", "group"]
CHANNELS_PER_GROUP = 16

# Like PyTorch's own functions, the next three can be replaced by a `torch.overrides.TorchFunctionMode`, because some
# are differentiated three times.


def beta_swish(x: Tensor, beta: Tensor) -> Tensor:
    """Return x·sigmoid(βx), for any shape of x and β of shape (1,).

    Source: Ramachandran, Zoph & Le, Searching for Activation Functions, 2017, section 3.
    """
    if has_torch_function_variadic(x, beta):
        return handle_torch_function(beta_swish, (x, beta), x, beta)
    return x * torch.sigmoid(beta * x)


def tanh_gelu(x: Tensor) -> Tensor:
    """Return x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³))), for any shape.

    Source: Hendrycks & Gimpel, Gaussian Error Linear Units, 2016, section 2.
    """
    if has_torch_function_unary(x):
        return handle_torch_function(tanh_gelu, (x,), x)
    return functional.gelu(x, approximate="tanh")


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Return PyTorch's layer normalization of x, (..., features), over the last dimension.

    Source: Ba, Kiros & Hinton, Layer Normalization, 2016, equation (4).
    """
    if has_torch_function_variadic(x, weight):
        return handle_torch_function(layer_norm, (x, weight), x, weight, bias, eps)
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


class BetaSwish(nn.Module):
    """β-Swish with one learnable scalar β that starts at 0, where the activation is x / 2.

    Source: Ramachandran et al., 2017; the initial β of 0: Dauphin & Schoenholz, 2019 (MetaInit), section 4.2.
    """

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return beta_swish(x, self.beta)


class TanhGELU(nn.Module):
    """GELU in its tanh form, as in GPT-2."""

    def forward(self, x: Tensor) -> Tensor:
        return tanh_gelu(x)


class LayerNorm(nn.LayerNorm):
    """PyTorch's layer normalization over the last dimension, computed by `layer_norm`."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the base class has this name
        return layer_norm(input, self.weight, self.bias, self.eps)


_ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "swish": nn.SiLU,
    "beta_swish": BetaSwish,
    "tanh": nn.Tanh,
    "linear": nn.Identity,
}


def make_activation(name: Activation) -> nn.Module:
    """Return a new activation layer; every β-Swish layer has its own β."""
    return _ACTIVATIONS[name]()


def make_norm(name: Norm, features: int, dimensions: Literal[1, 2], argument: str = "features") -> nn.Module:
    """Return a normalization layer; the identity for ``none``.

    ``group`` standardizes each sample over groups of 16 channels, so wider layers have more groups. `dimensions` is 2
    for images (N, C, H, W), 1 for vectors (N, C); `argument` is the name of `features` in an error message.

    Source: Ioffe & Szegedy, Batch Normalization, ICML 2015; Wu & He, Group Normalization, ECCV 2018.
    """
    if name == "none":
        return nn.Identity()
    if name == "group":
        if features % CHANNELS_PER_GROUP:
            raise ArgumentError(f"must be a multiple of {CHANNELS_PER_GROUP} for norm group, got {features}", argument)
        return nn.GroupNorm(features // CHANNELS_PER_GROUP, features)
    return nn.BatchNorm2d(features) if dimensions == 2 else nn.BatchNorm1d(features)


def check_rate(name: str, rate: float) -> None:
    if not 0 <= rate < 1:
        raise ArgumentError(f"must be at least 0 and less than 1, got {rate}", name)


def make_dropout(rate: float) -> nn.Module:
    check_rate("dropout", rate)
    return nn.Dropout(rate) if rate else nn.Identity()


def make_drop_path(rate: float) -> nn.Module:
    """Return a `DropPath`, or the identity for a rate of 0."""
    check_rate("drop_path", rate)
    return DropPath(rate) if rate else nn.Identity()


class DropPath(nn.Module):
    """Drop a residual branch at random in training, as torchvision's ``StochasticDepth(rate, "row")`` does.

    For each sample the branch is zero with probability `rate` and otherwise divided by 1 - rate, so that its mean is
    the branch that evaluation uses. Huang et al., Deep Networks with Stochastic Depth, ECCV 2016, drop the branch for a
    whole mini-batch and multiply it by 1 - rate at evaluation instead.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training:
            return branch
        shape = [len(branch), *[1] * (branch.dim() - 1)]
        kept = torch.empty(shape, dtype=branch.dtype, device=branch.device).bernoulli_(1 - self.rate)
        return branch * kept.div_(1 - self.rate)
