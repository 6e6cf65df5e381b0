"""A plug-in for `gpu_parts.py`: an initializer that makes its trial fail on the GPU."""

import torch
from torch import nn

import initbench


@initbench.register_initializer("gpu_fault")
def gpu_fault(index: int = 0, gigabytes: float = 0.0) -> initbench.Apply:
    """Keep the weights; read one number beyond the end of a tensor, or request memory.

    Args:
        index: the position to read in a tensor of one number; above 0 the GPU's kernel fails an assertion.
        gigabytes: memory to request, in 10⁹ bytes.
    """

    def apply(model: nn.Module, context: initbench.InitializationContext) -> None:
        device = next(model.parameters()).device
        torch.ones(1, device=device)[torch.tensor([index], device=device)].sum().item()
        torch.empty(int(gigabytes * 1e9), dtype=torch.uint8, device=device)

    return apply
