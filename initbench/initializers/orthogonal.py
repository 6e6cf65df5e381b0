"""Orthogonal initialization."""

from __future__ import annotations

import torch
from torch import Tensor

from initbench.arguments import check_positive
from initbench.initializers.distribution import Distribution, WeightLayer
from initbench.initializers.record import Law
from initbench.registry import register_initializer


def haar_orthogonal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Return a random (rows, columns) float64 matrix with orthonormal columns, or orthonormal rows if it is wide.

    It is uniform under the Haar measure: the QR decomposition of a Gaussian matrix with the signs of R's diagonal made
    positive (Mezzadri, "How to generate random matrices from the classical compact groups", 2007, section 5).
    """
    tall = torch.randn(max(rows, columns), min(rows, columns), dtype=torch.float64, generator=generator, device="cpu")
    q: Tensor
    q, r = torch.linalg.qr(tall)
    q *= torch.where(r.diagonal() < 0, -1.0, 1.0).to(q.dtype)
    return q if rows >= columns else q.T


def orthogonal_weight(layer: WeightLayer, generator: torch.Generator) -> Tensor:
    """Return a weight whose blocks, flattened to (outputs, inputs × kernel taps), are random orthogonal matrices."""
    matrices = [haar_orthogonal(layer.outputs, layer.fan_in, generator) for _ in range(layer.blocks)]
    return layer.assemble(torch.stack(matrices).reshape(layer.blocks, layer.outputs, layer.inputs, *layer.kernel))


@register_initializer("orthogonal", reference="Saxe, McClelland & Ganguli, ICLR 2014")
def orthogonal(gain: float = 1.0, embedding_std: float = 0.02) -> Distribution:
    """Each weight, flattened to (outputs, inputs × kernel taps), is gain times a random orthogonal matrix.

    Each group of a convolution has its own matrix. A convolution with a kernel larger than 1 does not keep norms this
    way, because of its borders; see delta_orthogonal. Each gate of an RNN, LSTM or GRU has its own matrices, for its
    inputs and for its state, whose norm the latter keeps from step to step; their biases are 0.

    Args:
        gain: multiplies the matrix; 1 keeps norms in a linear layer with no more inputs than outputs.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: gain or embedding_std is not a finite number above 0.
    """
    check_positive(gain=gain)

    def draw(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, Law]:
        return gain * orthogonal_weight(layer, generator), {"law": "orthogonal", "gain": gain}

    return Distribution(draw, embedding_std, recurrent=True)
