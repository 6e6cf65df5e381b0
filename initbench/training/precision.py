"""The precision that a model runs in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from initbench.models.calls import tensor_of
from initbench.training.recipe import Precision

# Of x86 and of Arm, by the names of `torch.cpu.get_capabilities` and of /proc/cpuinfo.
_BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "sve_bf16", "svebf16"})
_CPUINFO = Path("/proc/cpuinfo")


def compute_outputs(model: nn.Module, inputs: Tensor, precision: Precision) -> Tensor:
    """Return a model's outputs, (N, ...).

    With ``bf16`` the model runs under `torch.autocast`, which takes matrix products and convolutions in bfloat16. The
    outputs come back in float32, so that losses are computed and added in float32 on every device.
    """
    if precision == "fp32":
        outputs: Tensor = tensor_of(model(inputs))
        return outputs
    with torch.autocast(inputs.device.type, torch.bfloat16):
        outputs = tensor_of(model(inputs))
    return outputs.float()


def bf16_is_emulated(device: torch.device | str = "cpu", flags: Collection[str] | None = None) -> bool:
    """Return whether a device computes in bfloat16 without instructions for it, which takes far longer than float32.

    A training step of WRN-16-4 took 12.7 times as long as in float32 on a processor without them, .47 on one with them.
    `flags` names what the processor can do, None to ask it. If nothing is known of it, nothing is said to be emulated.
    """
    device = torch.device(device)
    if device.type == "cuda":
        with torch.cuda.device(device):
            return not torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    known = _processor_flags() if flags is None else set(flags)
    return bool(known) and known.isdisjoint(_BF16_INSTRUCTIONS)


def _processor_flags() -> set[str]:
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # a later one than PyTorch 2.9
    names = {name for name, there in capabilities.items() if there is True}
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return names
    for line in lines:
        key, _, words = line.partition(":")
        if key.strip() in {"flags", "Features"}:  # of x86, of Arm; each processor's are the same
            return names | set(words.split())
    return names
