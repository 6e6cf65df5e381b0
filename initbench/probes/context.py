"""What a probe is given, and what it returns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import nn

from initbench.batches import Batch, DataKind, LossFunction, RealBatches, random_batches
from initbench.errors import DataError
from initbench.randomness import generator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def median(values: Sequence[float]) -> float:
    """Return the median, a NaN counting as the worst outcome, +∞."""
    return statistics.median(math.inf if math.isnan(value) else value for value in values)


@dataclass(frozen=True)
class Measurement:
    """What a probe measured.

    Attributes:
        value: the number that tables show.
        conditions: what it was measured under and its details; numbers, texts, lists and mappings of them.
    """

    value: float
    conditions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeContext:
    """What a probe may use.

    Attributes:
        seed: the trial's seed.
        input_shape: (channels, height, width) of one input.
        num_classes: number of classes.
        loss_fn: mean loss of a batch from (outputs, targets).
        real_batches: batches of the training split; None where there is no data.
    """

    seed: int
    input_shape: tuple[int, ...]
    num_classes: int
    loss_fn: LossFunction = F.cross_entropy
    real_batches: RealBatches | None = None

    def batches(self, data: DataKind, batch_size: int, count: int) -> Iterator[Batch]:
        """Yield the same batches at every call with the same arguments: probes and initializers see equal data.

        Args:
            data: ``random`` (see `random_batches`) or ``real``.
            batch_size: samples per batch.
            count: number of batches.

        Raises:
            DataError: real batches are wanted and there are none, or fewer than `count`.
        """
        order = generator(self.seed, "probe_batches", data)
        if data == "random":
            yield from islice(random_batches((batch_size, *self.input_shape), self.num_classes, order), count)
            return
        if self.real_batches is None:
            raise DataError("data: real needs a dataset; use data: random without one")
        given = 0
        for batch in islice(self.real_batches(batch_size, order), count):
            given += 1
            yield batch
        if given < count:
            raise DataError(f"batches: {count} of {batch_size} samples are wanted, the data has {given}")


Measure = Callable[[nn.Module, ProbeContext], Measurement]
"""What a probe's factory returns. It leaves the model (modes, buffers, gradients, `requires_grad`) as it was."""
