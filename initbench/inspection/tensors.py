"""The contents of a tensor, measured in float64: moments, tails, quantiles, singular values, equal rows."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from initbench.inspection.roles import TensorRole

QUANTILES = tuple(index / 20 for index in range(21))
"""The levels of `TensorSummary.quantiles`, from the smallest entry to the largest."""
_LARGEST_GRAM = 4096  # rows of a Gram matrix whose eigenvalues take seconds
_MOST_SORTED = 2**18
_FIRST = 16
_MOST_BLOCKS = 64  # matrices of one tensor whose singular values are computed, evenly spaced


@dataclass(frozen=True)
class TensorSummary:
    """The values of one tensor.

    All numbers but the counts are of the finite entries.

    Attributes:
        role: the tensor's role and sizes.
        dtype: such as ``float32``.
        mean: the mean of its entries.
        std: their standard deviation around the mean, with divisor n.
        excess_kurtosis: m₄/m₂² - 3: 0 for a normal law, -1.2 for a uniform one; None if all entries are equal.
        quantiles: at the levels `QUANTILES`.
        bulk_std: the root mean square of the entries that are no outliers, around 0.
        outliers: entries further than 8 normal deviations from the median, with the deviation taken from the quartiles.
        zeros: the number of entries that are exactly 0.
        subnormal: nonzero entries below the smallest normal number of the dtype, which have fewer digits.
        rounded_to: ``float16`` or ``bfloat16`` if the dtype is wider, but that one holds every entry.
        first: the first 16 entries.
        digest: equal for equal shapes and entries.
        not_finite: the number of NaN and infinite entries.
        singular_values: of the blocks (see `TensorRole.matrices`), (blocks, min(outputs, inputs)), each in descending
            order; None except for weights with at most 4,096 rows or columns.
        rank: the smallest numerical rank of a block: the number of singular values above 1e-6 × the largest. Float32
            entries do not resolve smaller ones.
        equal_rows: rows (outputs) that equal another row of their block, zeros apart.
        negated_rows: rows that are another row times -1, zeros apart.
        zero_rows: rows of zeros, if the tensor is not all zeros.
    """

    role: TensorRole
    dtype: str
    mean: float
    std: float
    excess_kurtosis: float | None
    quantiles: tuple[float, ...]
    bulk_std: float = 0.0
    outliers: int = 0
    zeros: int = 0
    subnormal: int = 0
    rounded_to: str | None = None
    first: tuple[float, ...] = field(default=(), repr=False)
    digest: str = field(default="", repr=False)
    not_finite: int = 0
    singular_values: Tensor | None = None
    rank: int | None = None
    equal_rows: int = 0
    negated_rows: int = 0
    zero_rows: int = 0

    @property
    def entries(self) -> int:
        """The number of entries."""
        return int(torch.Size(self.role.shape).numel())

    @property
    def constant(self) -> float | None:
        """The value of all entries, if they are equal; otherwise None."""
        return self.quantiles[0] if self.quantiles and self.quantiles[0] == self.quantiles[-1] else None

    @property
    def condition(self) -> float | None:
        """The largest ratio of a block's largest to its smallest singular value; None without singular values."""
        if self.singular_values is None or not self.singular_values.numel():
            return None
        ratios = self.singular_values[:, 0] / self.singular_values[:, -1]
        return float(ratios.nan_to_num(float("inf"), posinf=float("inf")).max())

    def __str__(self) -> str:
        size = "×".join(map(str, self.role.shape)) or "scalar"
        return f"{self.role.name} ({self.role.role}, {size}): mean {self.mean:.3g}, σ {self.std:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON, with the extreme singular values in place of all."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.repr and one.name != "role"}
        singular = self.singular_values
        extremes = None if singular is None or not singular.numel() else [float(singular.max()), float(singular.min())]
        condition = self.condition
        return (
            asdict(self.role)
            | values
            | {
                "singular_values": extremes,
                "condition": condition if condition is not None and condition < float("inf") else None,
                "constant": self.constant,
            }
        )


@torch.no_grad()
def summarize(tensor: Tensor, role: TensorRole, *, matrices: bool = True) -> TensorSummary:
    """Return the summary of a tensor.

    Args:
        tensor: real floating-point numbers, of the role's shape.
        role: its role.
        matrices: whether to look at the singular values and rows of a weight, which takes most of the time.
    """
    values = tensor.detach().to(device="cpu", dtype=torch.float64)
    finite = values[values.isfinite()] if not bool(values.isfinite().all()) else values.flatten()
    mean, std, kurtosis = _moments(finite)
    quantiles = _quantiles(finite)
    bulk, outliers = _bulk(finite, quantiles)
    summary = TensorSummary(
        role,
        str(tensor.dtype).removeprefix("torch."),
        mean,
        std,
        kurtosis,
        quantiles,
        bulk,
        outliers,
        zeros=int((finite == 0).sum()),
        subnormal=int(((finite != 0) & (finite.abs() < torch.finfo(tensor.dtype).tiny)).sum()),
        rounded_to=_rounded_to(tensor, std),
        first=tuple(values.flatten()[:_FIRST].tolist()),
        digest=_digest(tensor),
        not_finite=values.numel() - finite.numel(),
    )
    if not matrices or not (role.is_weight or role.role == "embedding") or summary.not_finite or not std:
        return summary
    blocks = role.matrices(values)
    singular = singular_values(blocks)
    rank = None if singular is None else int((singular > 1e-6 * singular[:, :1]).sum(1).min())
    equal, negated, zero = _repeated_rows(blocks)
    return replace(summary, singular_values=singular, rank=rank, equal_rows=equal, negated_rows=negated, zero_rows=zero)


def _moments(values: Tensor) -> tuple[float, float, float | None]:
    if not values.numel():
        return 0.0, 0.0, None
    if bool((values == values[0]).all()):
        return float(values[0]), 0.0, None
    mean = values.mean()
    deviations = values - mean
    variance = deviations.square().mean()
    kurtosis = float(deviations.square().square().mean() / variance.square()) - 3
    return float(mean), float(variance.sqrt()), kurtosis


def _bulk(values: Tensor, quantiles: tuple[float, ...]) -> tuple[float, int]:
    if not values.numel():
        return 0.0, 0
    reach = 8 * (quantiles[15] - quantiles[5]) / 1.349  # the distance between the quartiles of N(0, 1)
    if max(quantiles[-1] - quantiles[10], quantiles[10] - quantiles[0]) <= reach or not reach:
        return float(values.square().mean().sqrt()), 0
    bulk = values[(values - quantiles[10]).abs() <= reach]
    return float(bulk.square().mean().sqrt()), values.numel() - bulk.numel()


def _rounded_to(tensor: Tensor, std: float) -> str | None:
    if tensor.dtype in {torch.float16, torch.bfloat16} or not std:
        return None
    few = tensor.flatten()[:_FIRST]  # almost always enough to tell
    for narrow in (torch.bfloat16, torch.float16):
        if all(bool((values.to(narrow).to(values.dtype) == values).all()) for values in (few, tensor)):
            return str(narrow).removeprefix("torch.")
    return None


def _digest(tensor: Tensor) -> str:
    contents = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return hashlib.sha256(contents.tobytes() + str(tuple(tensor.shape)).encode()).hexdigest()


def quantile_step(entries: int) -> int:
    """Return the distance of the evenly spaced entries from which the quantiles of a large tensor are computed."""
    step = -(-entries // _MOST_SORTED)
    while step > 1 and math.gcd(step, entries) > 1:
        step += 1  # a step that divides a size would take the same taps of every kernel
    return step


def _quantiles(values: Tensor) -> tuple[float, ...]:
    if not values.numel():
        return ()
    taken = values[:: quantile_step(values.numel())]
    ordered = torch.from_numpy(np.sort(taken.numpy()))  # several times as fast as torch's
    # Torch's `quantile` refuses large inputs; this is its linear interpolation.
    positions = torch.tensor(QUANTILES, dtype=torch.float64) * (ordered.numel() - 1)
    lower = positions.floor().long()
    upper = (lower + 1).clamp(max=ordered.numel() - 1)
    quantiles = (ordered[lower] + (ordered[upper] - ordered[lower]) * (positions - lower)).tolist()
    return (float(values.min()), *quantiles[1:-1], float(values.max()))


def singular_values(blocks: Tensor) -> Tensor | None:
    """Return the singular values of matrices in descending order, (blocks, min(rows, columns)), from Gram matrices.

    Squaring loses half of the digits, so values below about 1e-8 × the largest are rounding. Of more than 64 matrices,
    64 evenly spaced ones are taken. The blocks are (blocks, rows, columns), float64. None if both sizes exceed 4,096.
    """
    if min(blocks.shape[1:]) > _LARGEST_GRAM or 0 in blocks.shape:
        return None
    taken = blocks if len(blocks) <= _MOST_BLOCKS else blocks[:: -(-len(blocks) // _MOST_BLOCKS)]
    wide = taken if taken.shape[1] <= taken.shape[2] else taken.transpose(1, 2)
    eigenvalues = torch.linalg.eigvalsh(wide @ wide.transpose(1, 2))
    return eigenvalues.clamp(min=0).sqrt().flip(1)


def _repeated_rows(blocks: Tensor) -> tuple[int, int, int]:
    """Return the numbers of rows with an equal twin, with a negated twin, and of zeros, over all blocks.

    A random projection sorts the rows, so that twins are neighbours.
    """
    equal = negated = zero = 0
    if blocks.shape[1] < 2 or blocks.shape[2] < 2:
        return equal, negated, zero
    generator = torch.Generator("cpu").manual_seed(0)
    direction = torch.randn(blocks.shape[2], dtype=torch.float64, generator=generator)
    for block in blocks[:: -(-len(blocks) // _MOST_BLOCKS)]:
        nonzero = block[block.any(1)]
        zero += len(block) - len(nonzero)
        rows = nonzero[(nonzero @ direction).abs().sort().indices]
        equal += _rows_with_twin((rows[1:] == rows[:-1]).all(1))
        negated += _rows_with_twin((rows[1:] == -rows[:-1]).all(1))
    return equal, negated, zero


def _rows_with_twin(pairs: Tensor) -> int:
    """Return how many rows belong to a pair of neighbours."""
    padded = torch.zeros(len(pairs) + 1, dtype=torch.bool)
    padded[:-1] |= pairs
    padded[1:] |= pairs
    return int(padded.sum())
