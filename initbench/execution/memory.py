"""What the C library does with memory that is freed."""

from __future__ import annotations

import ctypes

# From malloc.h of glibc. Its largest threshold for blocks mapped one by one is 32 MiB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER, _LARGEST = 2**31 - 1, 2**25


def keep_freed_memory() -> None:
    """Let this process keep the memory of tensors that are freed on the CPU, for the tensors to come.

    By itself glibc gives it back to the kernel, and each pass over a network gets it again page by page: that is 15 %
    of the time of a gradient quotient and 5 % of that of a training step (`benchmarks/gradient_quotient.py` and
    `benchmarks/training_step.py`, without and with this call). The process stays as large as it once was. Nothing
    happens where the C library has no mallopt(3).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _NEVER)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST)
