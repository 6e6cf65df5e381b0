"""Layer normalization that can be computed in another way where it is differentiated three times."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_variadic


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """Return PyTorch's layer normalization over the last dimension.

    Like a function of PyTorch it can be computed in another way by a `torch.overrides.TorchFunctionMode`.

    Source: Ba, Kiros & Hinton, Layer Normalization, 2016, equation (4).

    Args:
        x: (..., features).
        weight: (features,).
        bias: (features,), or None.
        eps: added to the variance.
    """
    if has_torch_function_variadic(x, weight):
        result: Tensor = handle_torch_function(layer_norm, (x, weight), x, weight, bias, eps)
        return result
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


class LayerNorm(nn.LayerNorm):
    """PyTorch's layer normalization over the last dimension, by `layer_norm`."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the base class has this name
        """Return a tensor of the shape of the input."""
        return layer_norm(input, self.weight, self.bias, self.eps)
