"""The environment of a trial: the part that must be equal for bitwise equal numbers, and information for the reader."""

import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import initbench

# The numbers depend on these; the rest of the environment is for the reader.
DECISIVE = ("processor", "device", "torch", "torchvision", "timm", "numpy")


@cache
def environment(device: str) -> dict[str, Any]:
    import torch

    from initbench.training.precision import bf16_is_emulated

    return {
        "initbench": initbench.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "torchvision": version("torchvision"),
        "timm": version("timm"),
        "host": platform.node(),
        "system": platform.system(),
        "processor": _processor(),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "bf16": "emulated" if bf16_is_emulated(device) else "native",
    }


def known_environment(device: str) -> dict[str, Any]:
    """Return the `environment`, or only the host if the device does not respond, so that a failure can be recorded."""
    with suppress(Exception):
        return environment(device)
    return {"host": platform.node()}


def differences(recorded: dict[str, Any], current: dict[str, Any], *further: str) -> list[str]:
    """Return which of the decisive keys, and further ones, differ between two environments.

    The processor is decisive only for trials on it: with a GPU, it computes nothing but random numbers and data.
    """
    on_gpu = current.get("device", "cpu") != "cpu"
    names = [name for name in (*DECISIVE, *further) if not (on_gpu and name == "processor")]
    return [f"{k}: {recorded[k]} → {current[k]}" for k in names if k in recorded and recorded[k] != current[k]]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text(encoding="utf-8", errors="replace")
        name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
        # Processors with the same model name can have different instruction sets, which select different kernels.
        flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
        vector = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if flags and f in flags.group(1).split()]
        if name:
            return " ".join([name.group(1).strip(), *vector])
    return platform.processor() or platform.machine()
