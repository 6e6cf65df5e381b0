"""Delta-orthogonal initialization of convolutions."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import Distribution, WeightLayer
from initbench.initializers.orthogonal import haar_orthogonal
from initbench.initializers.record import Law
from initbench.registry import register_initializer


@register_initializer("delta_orthogonal", reference="Xiao et al., ICML 2018, section 3.1, algorithm 1")
def delta_orthogonal(gain: float = 1.0, embedding_std: float = 0.02) -> Apply:
    """Convolutions that are zero except at the kernel's centre tap, which is gain times a random orthogonal matrix.

    A convolution of stride 1 with no more inputs than outputs then multiplies the norm of every input by gain, whatever
    the padding; one of stride s keeps the norm of the pixels it visits, on average 1 / s of the whole. TensorFlow and
    JAX refuse more inputs than outputs; here the matrix then has orthonormal rows, so a random input keeps on average
    √(outputs / inputs) of its norm, and one warning names the first such convolution. The centre of an even kernel k is
    tap k // 2. Each group of a convolution has its own matrix. Linear layers are orthogonal.

    Args:
        gain: multiplies the matrix; 1 for linear layers, as in MetaInit's experiments, √2 if ReLUs follow.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: gain or embedding_std is not a finite number above 0.
    """
    check_positive(gain=gain)

    def draw(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, Law]:
        matrices = [gain * haar_orthogonal(layer.outputs, layer.inputs, generator) for _ in range(layer.blocks)]
        law: Law = {"law": "delta_orthogonal", "gain": gain}
        if layer.centre is not None:
            law["centre"] = layer.centre
        if layer.kernel and layer.inputs > layer.outputs:
            law["keeps_norm"] = False
        return layer.in_centre_taps(matrices), law

    distribution = Distribution(draw, embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        distribution(model, context)
        events = context.record.tensors.items()
        narrowing = [name for name, (*_, last) in events if last.get("keeps_norm") is False]
        if narrowing:
            warnings.warn(
                f"delta_orthogonal does not keep the norm in {len(narrowing)} convolutions that have more inputs than "
                f"outputs, the first of them {narrowing[0]}",
                stacklevel=2,
            )

    return apply
