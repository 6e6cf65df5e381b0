"""The state of a process that changes numbers; it is set before a trial and restored after it.

PyTorch has these switches only for a whole process. A worker runs many trials, because starting a process takes
seconds, and a switch that a plug-in sets in one of them must not change the numbers of the next.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from initbench.models import random_state
from initbench.models.kernels import float32_products, kernel_choice

# From malloc.h of glibc. Its largest threshold for blocks mapped one by one is 32 MiB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER, _LARGEST = 2**31 - 1, 2**25


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed CPU tensors for later tensors.

    By default glibc returns it to the kernel, and each pass over a network requests it again page by page. That takes
    15 % of the time of a gradient quotient and 5 % of the time of a training step (`benchmarks/gradient_quotient.py`
    and `benchmarks/training_step.py`, without and with this call). The process then stays at its largest size. Without
    mallopt(3) in the C library, nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _NEVER)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)


@contextmanager
def process_state(threads: int, device: torch.device, *, deterministic: bool = False) -> Iterator[None]:
    """Set everything that the numbers depend on, and the global random state; restore both at the end.

    This includes the CPU threads of an operation, because 1 and 2 threads give different sums. Float32 is exact;
    training alone may choose another precision.
    """
    keep_freed_memory()  # it changes no number, and cannot be given back
    threads_before, dtype_before = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    try:
        # So readers of the global stream get the same values, whichever trial ran before.
        with torch.enable_grad(), random_state.forked(device):
            torch.manual_seed(0)
            with float32_products(), kernel_choice(deterministic=deterministic):
                yield
    finally:
        torch.set_num_threads(threads_before)
        torch.set_default_dtype(dtype_before)
