"""Which kernels PyTorch may choose: with exact or TF32 products, deterministic or not.

PyTorch has these switches only for the whole process, so everything here restores the caller's settings.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_backends: Any = torch.backends
_cudnn, _mkldnn = _backends.cudnn, _backends.mkldnn
# The switches called `fp32_precision`, and their values here. With "none" a switch follows the more general ones, which
# come first. `mkldnn.fp32_precision` is missing, because PyTorch 2.9 to 2.14 set the precision of all devices with it.
_PRECISIONS = (
    *((switch, "none") for switch in (_backends, _cudnn, _backends.cuda.matmul, _cudnn.conv, _cudnn.rnn)),
    *((switch, "ieee") for switch in (_mkldnn.matmul, _mkldnn.conv, _mkldnn.rnn)),
)


@contextmanager
def float32_products(*, tf32: bool = False) -> Iterator[None]:
    """Compute matrix products, convolutions and RNNs in exact float32, or on a GPU in TF32, whose factors have 10 bits.

    PyTorch's defaults are mixed: cuDNN's convolutions and RNNs use TF32, and matrix products do not.

    Of PyTorch's two families of switches, the older one (`allow_tf32`) is set. If the newer one (`fp32_precision`) were
    set, `allow_tf32` and `torch.backends.cudnn.flags` would raise errors (PyTorch 2.9 to 2.14). The newer one takes
    precedence, so it is cleared.
    """
    precisions = []
    for switch, value in _PRECISIONS:
        precisions.append(switch.fp32_precision)
        switch.fp32_precision = value
    matmul, convolutions = torch.get_float32_matmul_precision(), _cudnn_allows_tf32()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    _cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        _cudnn.allow_tf32 = convolutions
        for (switch, _), precision in zip(_PRECISIONS, precisions, strict=True):
            switch.fp32_precision = precision


def _cudnn_allows_tf32() -> bool:
    """Return `cudnn.allow_tf32` while the newer switches are cleared: if it is True, reading it raises an error."""
    try:
        return bool(_cudnn.allow_tf32)
    except RuntimeError:
        return True


@contextmanager
def kernel_choice(*, deterministic: bool | None, cudnn_benchmark: bool = False) -> Iterator[None]:
    """Let PyTorch choose only deterministic kernels, or let cuDNN measure its kernels and take the fastest.

    With `deterministic`, an operation that has no deterministic kernel raises a RuntimeError with its name; None leaves
    the caller's choice.
    """
    before = torch.get_deterministic_debug_mode(), _cudnn.deterministic, _cudnn.benchmark
    mode, only = before[:2] if deterministic is None else (2 if deterministic else 0, deterministic)
    _choose(mode, deterministic=only, benchmark=cudnn_benchmark)
    try:
        yield
    finally:
        _choose(before[0], deterministic=before[1], benchmark=before[2])


def _choose(mode: int, *, deterministic: bool, benchmark: bool) -> None:
    """Set the switches; `mode` is 0 (off), 1 (warn) or 2 (raise), as in `torch.get_deterministic_debug_mode`."""
    torch.use_deterministic_algorithms(mode > 0, warn_only=mode == 1)
    _cudnn.deterministic, _cudnn.benchmark = deterministic, benchmark
