"""The precision in which a model runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from initbench.models.calls import tensor_of
from initbench.models.kernels import float32_products, kernel_choice
from initbench.training.recipe import Precision, Recipe

# For x86 and Arm, as named by `torch.cpu.get_capabilities` and /proc/cpuinfo.
_BF16_INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "sve_bf16", "svebf16"})
_CPUINFO = Path("/proc/cpuinfo")


def compute_outputs(model: Callable[[Tensor], object], inputs: Tensor, precision: Precision) -> Tensor:
    """Return a model's outputs, (N, ...).

    With ``bf16`` the model runs under `torch.autocast`, which computes matrix products and convolutions in bfloat16.
    The outputs are converted to float32, so that losses are computed and added in float32 on every device.
    """
    if precision != "bf16":
        return tensor_of(model(inputs))
    with torch.autocast(inputs.device.type, torch.bfloat16):
        outputs = tensor_of(model(inputs))
    return outputs.float()


@contextmanager
def recipe_kernels(recipe: Recipe) -> Iterator[None]:
    """Use the kernels that a recipe asks for; a caller's own request for deterministic ones stays."""
    with (
        float32_products(tf32=recipe.precision == "tf32"),
        kernel_choice(deterministic=recipe.deterministic or None, cudnn_benchmark=recipe.cudnn_benchmark),
    ):
        yield


def tf32_is_supported(device: torch.device | str) -> bool:
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_tf32_supported()


def bf16_is_emulated(device: torch.device | str = "cpu", flags: Collection[str] | None = None) -> bool:
    """Return whether a device computes in bfloat16 without hardware support, which is much slower than float32.

    A training step of WRN-16-4 took 12.7 times as long in bfloat16 as in float32 on a processor without support, and
    0.47 times as long on one with it. `flags` lists the processor's capabilities; None to detect them. If nothing is
    known, the result is False.
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
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # added after PyTorch 2.9
    names = {name for name, there in capabilities.items() if there is True}
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return names
    for line in lines:
        key, _, words = line.partition(":")
        if key.strip() in {"flags", "Features"}:  # on x86 and on Arm; equal for all processors
            return names | set(words.split())
    return names
