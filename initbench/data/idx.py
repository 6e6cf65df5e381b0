"""The IDX format of the MNIST family, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from typing import TYPE_CHECKING

import torch

from initbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_UNSIGNED_BYTE = 8


def read_idx(path: Path) -> Tensor:
    """Return the array of unsigned bytes that an IDX file holds.

    The header is two zero bytes, the type, the number of dimensions, and each dimension's size as a big-endian 32-bit
    integer (LeCun, the MNIST database).

    Args:
        path: the file; gzipped where its name ends in ``.gz``.

    Raises:
        DataError: the file cannot be read or is not such a file.
    """
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    dimensions = content[3] if len(content) > 3 else 0
    header = 4 + 4 * dimensions
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4)]
    if (
        content[:3] != bytes([0, 0, _UNSIGNED_BYTE])
        or len(content) != header + math.prod(shape)
        or not math.prod(shape)
    ):
        raise DataError(f"{path} is not a complete IDX file of unsigned bytes: put the original file in its place")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header).reshape(shape)
