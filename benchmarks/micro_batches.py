"""The gradient quotient in micro-batches against the whole batch: peak memory and time.

Memory is what the process has at its peak above what it had before all of them (on Linux alone). They go from the
smallest to the largest: what the process keeps of the memory that one frees is less than the next one takes.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path

import timing
import torch

import initbench

NETWORK = {"name": "wrn", "depth": 16, "width": 2, "norm": "none", "activation": "beta_swish"}
BATCH, MICRO_BATCH = 64, 8


def memory(name: str) -> int:
    """Return a number of bytes that Linux keeps of this process, such as its peak, ``VmHWM``."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def peak(function: Callable[[], object], before: int) -> float:
    """Return the peak of a call above `before`, in MB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    function()
    return max(memory("VmHWM") - before, resource.getpagesize()) / 1e6  # one that fits into what was freed takes none


def measure(runs: int, quick: bool) -> list[timing.Row]:
    """Return the rows of the value and of its derivative."""
    torch.manual_seed(0)
    size, micro = (4, 2) if quick else (BATCH, MICRO_BATCH)
    model = initbench.create_model(**(NETWORK | ({"width": 1} if quick else {})))
    initbench.initialize(model, "kaiming")
    model.eval()
    inputs, targets = torch.randn(size, 3, 32, 32), torch.randint(10, (size,))

    @torch.no_grad()
    def value(micro_batch_size: int | None = None) -> object:
        return initbench.gradient_quotient(model, inputs, targets, micro_batch_size=micro_batch_size)

    def derivative(micro_batch_size: int | None = None) -> object:
        quotient = initbench.gradient_quotient(model, inputs, targets, micro_batch_size=micro_batch_size)
        return torch.autograd.grad(quotient, list(model.parameters()))

    model(inputs[:micro])  # what a process loads once
    before = memory("VmRSS")
    order = [partial(value, micro), partial(derivative, micro), value, derivative]
    peaks = [peak(function, before) for function in order]
    case = "{name}-{depth}-{width}, norm {norm}, {activation}".format_map(NETWORK) + f", batch {size}"
    rows = []
    for index, (name, slower) in enumerate((("quotient", 1.8), ("quotient and derivative", 2.2))):
        parts, whole = order[index], order[2 + index]
        pairs = timing.paired(parts, whole, runs, warm_up=0)
        rows += [
            timing.Row.of_pairs(f"{name} of {case}, in micro-batches of {micro} against whole", pairs, slower),
            timing.Row("its peak memory against whole", (peaks[index] / peaks[2 + index],), bound=0.3),
            timing.Row("its peak memory", (peaks[index],), "MB"),
            timing.Row("peak memory whole", (peaks[2 + index],), "MB"),
        ]
    return rows


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=3, threads=1)
