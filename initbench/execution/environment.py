"""The environment of a trial: the part that must be equal for bitwise equal numbers, and information for the reader."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import initbench

if TYPE_CHECKING:
    import torch

    from initbench.training.recipe import Recipe

# The numbers depend on these; the rest of the environment is for the reader.
DECISIVE = ("processor", "device", "torch", "torchvision", "timm", "numpy", "cuda", "cudnn")


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
        "device": _device_name(torch.device(device)),
        "bf16": "emulated" if bf16_is_emulated(device) else "native",
    } | (_gpu(device) if torch.device(device).type == "cuda" else {})


def trial_environment(recipe: Recipe, device: str) -> dict[str, Any]:
    """Return the `environment` of a trial, on a GPU with the choices of its recipe that decide which kernels ran."""
    here = environment(device)
    if here["device"] == "cpu":
        return here
    bits = "not promised"
    if recipe.cudnn_benchmark:
        bits = "not promised: cudnn_benchmark takes the kernels that are fastest at the time"
    if recipe.deterministic:
        bits = "promised: deterministic"
    return here | {
        "precision": recipe.precision,
        "deterministic": recipe.deterministic,
        "cudnn_benchmark": recipe.cudnn_benchmark,
        "equal_bits_for_equal_id": bits,
    }


def known_environment(device: str) -> dict[str, Any]:
    """Return the `environment`, or only the host if the device does not respond, so that a failure can be recorded."""
    with suppress(Exception):
        return environment(device)
    return {"host": platform.node()}


def differences(recorded: dict[str, Any], current: dict[str, Any], *further: str) -> list[str]:
    """Return which of the decisive keys, and further ones, differ between two environments.

    The processor is decisive only for trials that run on it: for a GPU's, it only draws random numbers and reads data.
    """
    on_gpu = current.get("device", "cpu") != "cpu"
    names = [name for name in (*DECISIVE, *further) if not (on_gpu and name == "processor")]
    pairs = {name: (recorded[name], current.get(name)) for name in names if name in recorded}
    return [f"{name}: {before} → {now}" for name, (before, now) in pairs.items() if before != now]


def _device_name(device: torch.device) -> str:
    """Return a GPU's model, or the type of another device."""
    import torch

    name = getattr(torch.get_device_module(device), "get_device_name", None)
    return device.type if name is None else str(name(device))


def _gpu(device: str) -> dict[str, Any]:
    import torch

    backends: Any = torch.backends
    kernels = {
        "flash": backends.cuda.flash_sdp_enabled(),
        "memory-efficient": backends.cuda.mem_efficient_sdp_enabled(),
        "cudnn": backends.cuda.cudnn_sdp_enabled(),
        "math": backends.cuda.math_sdp_enabled(),
    }
    return {
        "cuda": torch.version.cuda or f"ROCm {torch.version.hip}",
        "driver": _driver(),
        "cudnn": backends.cudnn.version(),
        "compute_capability": ".".join(map(str, torch.cuda.get_device_capability(device))),
        "attention_kernels": ", ".join(name for name, allowed in kernels.items() if allowed),
    }


def _driver() -> str | None:
    """Return the version of NVIDIA's driver; None if unknown."""
    with suppress(OSError):
        match = re.search(r"\b\d+\.\d+(\.\d+)*\b", Path("/proc/driver/nvidia/version").read_text(encoding="utf-8"))
        return match and match.group()
    return None


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
