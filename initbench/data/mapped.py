"""Memory of large tensors that goes back to the system when they are freed."""

from __future__ import annotations

import math
import mmap

import torch
from torch import Tensor


def mapped_tensor(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return a tensor of zeros on the CPU whose memory is mapped for it alone.

    PyTorch asks the C library for aligned memory. glibc (2.36) cuts it out of a larger block and keeps what is left
    over on both sides for small objects, so that the hole of a freed batch is too small for the next batch of the same
    size. An epoch of 71 batches of 25 MB took 1.7 GB where two batches were alive at a time.

    Args:
        shape: of the tensor.
        dtype: of its entries.
    """
    if not math.prod(shape):
        return torch.zeros(shape, dtype=dtype)
    size = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
