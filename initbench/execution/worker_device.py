"""The device of a worker: whether it works, the share of its memory that a trial may use, and releasing that memory."""

import gc
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch.nn import functional

from initbench.data.load import keep_datasets
from initbench.execution.failure import ran_out_of_memory
from initbench.plugins import first_line

_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_NEARLY = 0.98  # because CUDA rounds requests up


def limit_memory(device: str, share: float) -> None:
    """Limit this process to its share of a GPU's memory, and let it keep only one dataset there."""
    if 0 < share < 1:
        _module(device).set_per_process_memory_fraction(share)
        keep_datasets(1)


def problem(device: str) -> str | None:
    """Return why the device does not compute, in one line; None if it does.

    After a failed assertion or an illegal memory access in a kernel, every later CUDA call of the process fails.
    """
    try:
        _module(device).synchronize()
        compute(device)
    except Exception as error:  # noqa: BLE001  # PyTorch has several types for it
        return first_line(error)
    return None


def compute(device: str) -> None:
    """Compute a convolution and a matrix product with their gradients.

    The first call in a process starts a GPU's context and libraries (cuBLAS, cuDNN). This takes seconds, which would
    otherwise count as time of the first trial.
    """
    with torch.inference_mode(mode=False), torch.enable_grad():  # whatever the caller's mode
        kernel, matrix = (torch.ones(shape, device=device, requires_grad=True) for shape in ((2, 1, 3, 3), (2, 1)))
        images = torch.ones(1, 1, 3, 3, device=device)
        (functional.conv2d(images, kernel).flatten(1) @ matrix).sum().backward()  # type: ignore[no-untyped-call]
    _module(device).synchronize()


def release_memory(device: str) -> None:
    """Give the memory that PyTorch keeps for later tensors back to the GPU, which other processes may share."""
    if device == "cpu":
        return
    gc.collect()  # cycles of a trial's objects may hold tensors
    with suppress(Exception):  # the context may be broken
        getattr(_module(device), "empty_cache", lambda: None)()


def was_crowded_out(device: str, share: float, error: Mapping[str, str]) -> bool:
    """Return whether a trial failed because the GPU's memory ran out before this process had used its share.

    Then other processes have taken the memory. Call this before `release_memory`.
    """
    if not ran_out_of_memory(error) or not 0 < share < 1:
        return False
    match = re.search(r"Tried to allocate ([\d.]+) (\w+)", error["message"])
    requested = float(match.group(1)) * _UNITS.get(match.group(2), 0) if match else 0.0
    module = _module(device)
    total = module.get_device_properties(torch.device(device)).total_memory
    return bool(module.memory_reserved() + requested < _NEARLY * share * total)


def _module(device: str) -> Any:
    return torch.get_device_module(device)
