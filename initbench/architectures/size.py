"""The size of a model, before it is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from initbench.inputs import Inputs
from initbench.registry import ArchitectureTraits, Component

_SIZES = ("depth", "width", "layers", "layer", "size", "embd", "dim", "model", "heads", "inner", "experts")


@dataclass(frozen=True)
class Size:
    """The size of a model: its parameters, a tied tensor once, and the bytes of its parameters and buffers.

    `bytes_of_shallow` is for the shallow network that a plan tries instead; the model's own if there is none.
    """

    parameters: int
    bytes: int
    bytes_of_shallow: int


def size_of(model: nn.Module) -> Size:
    tensors = [*model.parameters(), *model.buffers()]
    in_bytes = sum(t.numel() * t.element_size() for t in tensors)
    return Size(sum(p.numel() for p in model.parameters()), in_bytes, in_bytes)


def model_size(
    component: Component[ArchitectureTraits], arguments: Mapping[str, Any], *, inputs: Inputs, outputs: int
) -> Size:
    """Return the size of an architecture's standard network without building it.

    It is built on the meta device, where tensors have shapes but no values. The size of a network of many equal blocks
    follows exactly from two shallow ones.
    """

    def counted(changed: Mapping[str, Any]) -> Size:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            model: nn.Module = component.call(
                {**arguments, **changed}, inputs=inputs, outputs=outputs, scheme="standard"
            )
        return size_of(model)

    shallow = component.shallow(arguments)
    if shallow is None:
        return counted({})
    base, more = counted(shallow.arguments), counted(shallow.more)
    return Size(
        base.parameters + shallow.times * (more.parameters - base.parameters),
        base.bytes + shallow.times * (more.bytes - base.bytes),
        base.bytes,
    )


def available_memory() -> float:
    """Return how many bytes of memory a process can still get; infinity if the system does not say.

    In a container with a limit it is the rest of that limit (cgroup v2: memory.max and memory.current).
    """
    free = math.inf
    with suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), free)
    with suppress(OSError, ValueError):
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text("ascii")) for name in ("max", "current"))
        free = min(free, limit - used)
    return free


def too_large(name: str, arguments: Mapping[str, Any], size: Size) -> str | None:
    """Return why a model does not fit into this machine's memory, in one line, or None if it does."""
    available = available_memory()
    if size.bytes <= available:
        return None
    numbers = {name: value for name, value in arguments.items() if type(value) is int and value > 1}
    shrink = [f"{name} {value}" for name, value in numbers.items() if set(name.split("_")) & {*_SIZES}]
    advice = f"a smaller one has less than {', '.join(shrink[:4])}" if shrink else "take a smaller one"
    return (
        f"{name} has {size.parameters:,} parameters, which take {size.bytes / 1e9:.3g} GB, and "
        f"{available / 1e9:.3g} GB of memory are free: {advice}"
    )
