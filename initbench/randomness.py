"""Named random streams, which provide every random number of a trial.

A stream is a `torch.Generator` on the CPU whose seed is the first 63 bits of the SHA-256 of ``seed/key/key/...``.
Streams with different keys are independent, so adding a draw to one never shifts another, and two initializers with the
same seed get the same data in the same order (a paired design).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Stream = Literal["weights", "data_order", "augmentation", "dropout", "tuner_batches", "probe_batches", "search"]


def derive_seed(seed: int, stream: Stream, *keys: str) -> int:
    """Return the 63-bit seed of a stream, a pure function of the trial's seed, the stream's name and further keys."""
    text = "/".join([str(seed), stream, *keys])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, stream: Stream, *keys: str) -> torch.Generator:
    """Return a fresh CPU generator at the start of a stream; arguments as in `derive_seed`."""
    import torch

    return torch.Generator().manual_seed(derive_seed(seed, stream, *keys))
