"""GELU by its tanh form, that of GPT-2."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_unary


def tanh_gelu(x: Tensor) -> Tensor:
    """Return x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³))), for any shape.

    Like a function of PyTorch it can be computed in another way by a `torch.overrides.TorchFunctionMode`.

    Source: Hendrycks & Gimpel, Gaussian Error Linear Units, 2016, section 2.
    """
    if has_torch_function_unary(x):
        result: Tensor = handle_torch_function(tanh_gelu, (x,), x)
        return result
    return functional.gelu(x, approximate="tanh")


class TanhGELU(nn.Module):
    """GELU by `tanh_gelu`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return tanh_gelu(x)
