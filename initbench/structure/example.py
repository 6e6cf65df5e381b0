"""An input that a model may take, where nobody has said what it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initbench.errors import InitializationError
from initbench.structure.recording import record_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.structure.run_graph import RunGraph

_SIDES = (32, 224)
_TOKENS = 2


def record_run_on_any_input(model: nn.Module) -> RunGraph:
    """Run a model on zeros of a shape that its first layer takes; see `record_run`.

    That is tokens where there are embeddings, a vector for a linear layer, and for a convolution an image, a signal or
    a volume with sides of 32, then of 224. What is found is what ran; a model that takes something else fails.

    Raises:
        InitializationError: it runs on none of them, or has no such layer.
    """
    tried = []
    for inputs in _candidates(model):
        try:
            return record_run(model, inputs)
        except InitializationError:
            tried.append("×".join(map(str, inputs.shape[1:])))
    failed = f"it does not run on inputs of {' or '.join(tried)}" if tried else "it has no layer that tells its inputs"
    raise InitializationError(f"give inputs or input_shape, for the model has to run once: {failed}")


def _candidates(model: nn.Module) -> Iterator[Tensor]:
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    layers = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag | nn.Linear | _ConvNd)]
    if any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in layers):
        yield torch.zeros(1, _TOKENS, dtype=torch.int64, device=like.device)
    first = next((layer for layer in layers if isinstance(layer, nn.Linear | _ConvNd)), None)
    if isinstance(first, nn.Linear):
        yield torch.zeros(1, first.in_features, dtype=like.dtype, device=like.device)
    elif first is not None:
        for side in _SIDES:
            sides = [side] * len(first.kernel_size)
            yield torch.zeros(1, first.in_channels, *sides, dtype=like.dtype, device=like.device)
