"""A weight-normalized ResNet of 1,000 blocks per stage: what its initialization takes, in time and in memory.

The reference of the first two rows is a forward pass of the same network with one image. Memory is what the process has
at its peak above what it had before, in units of the bytes of the parameters (on Linux alone).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import timing
import torch

from initbench import create_model, find_structure, initialize

SIZE = (1, 3, 32, 32)


def memory(name: str) -> int:
    """Return a number of bytes that Linux keeps of this process, such as its peak, ``VmHWM``."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def measure(runs: int, quick: bool, blocks: int = 1000) -> list[timing.Row]:
    """Return the rows of one network."""
    blocks = 2 if quick else blocks
    network = {"depth": 6 * blocks + 2, "norm": "none", "scheme": "weight_norm"}
    model = create_model("resnet", input_shape=SIZE[1:], **network).eval()
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    image = torch.zeros(SIZE)

    @torch.no_grad()
    def forward() -> None:
        model(image)

    initialization = partial(initialize, model, "weight_norm", input_shape=SIZE, num_classes=10)
    of_structure = timing.paired(lambda: find_structure(model, image), forward, runs)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = memory("VmRSS")
    of_initialization = timing.paired(initialization, forward, runs, warm_up=0)
    above = memory("VmHWM") - before
    case = f"resnet with {blocks:,} blocks per stage, {size / 1e9:.2f} GB of parameters"
    return [
        timing.Row.of_pairs(f"structure of a {case}", of_structure, None),
        timing.Row.of_pairs("its initialization by weight_norm", of_initialization, None),
        timing.Row("memory above the model meanwhile, in bytes of its parameters", (above / size,), bound=1.5),
    ]


if __name__ == "__main__":
    timing.main(measure, __doc__, runs=1, threads=1)
