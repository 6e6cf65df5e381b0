"""The state of a process that changes numbers, set before a trial and given back after it.

PyTorch has these switches for a whole process and no other form of them. A worker runs many trials, since starting one
takes seconds, and what a plug-in switches in one of them must not change the numbers of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from initbench.execution.memory import keep_freed_memory


@contextmanager
def process_state(threads: int, device: torch.device) -> Iterator[None]:
    """Set all that numbers depend on, and the global random state; give back at the end what was set before.

    The CPU threads of an operation are part of it: 1 and 2 give other sums.
    """
    keep_freed_memory()  # it changes no number, and cannot be given back
    cudnn = torch.backends.cudnn
    states: tuple[tuple[Callable[[Any], None], Any, Any], ...] = (  # (setter, before, during)
        (torch.set_num_threads, torch.get_num_threads(), threads),
        (torch.set_default_dtype, torch.get_default_dtype(), torch.float32),
        (torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), "highest"),
        (torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled(), False),
        (partial(setattr, cudnn, "benchmark"), cudnn.benchmark, False),
    )
    for give, _, during in states:
        give(during)
    try:
        # Whatever reads the global stream reads the same, whichever trial ran before.
        with torch.enable_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            yield
    finally:
        for give, before, _ in states:
            give(before)
