"""ZerO: identities and Hadamard matrices instead of random numbers."""

from __future__ import annotations

import math

import torch
from scipy.linalg import hadamard
from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.initializers.branches import known_branches, refuse_locked_branches, weights_of
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import Distribution, WeightLayer
from initbench.initializers.parameter_writer import ParameterWriter, weight_normalized_weights
from initbench.initializers.record import Law
from initbench.registry import register_initializer
from initbench.structure.find import Structure


@register_initializer(
    "zero", 2, reference="Zhao, Schäfer & Anandkumar, ZerO Initialization, TMLR 2022, algorithms 1 and 2"
)
def zero(embedding_std: float = 0.02) -> Apply:
    """Weights of zeros and ones up to a factor: an identity, or a Hadamard matrix where the width grows.

    A weight with m outputs and n inputs is the first m rows of the identity if m <= n: the first m inputs pass, the
    others are dropped. If m > n, it is the first m rows and n columns of the Hadamard matrix of order p = 2^⌈log2 m⌉,
    divided by √p. Its columns are orthonormal if m is a power of two; otherwise its singular values are at most 1, such
    as √(48/64) for m = 48, n = 16. Convolutions have this matrix in the kernel's centre tap k // 2, for even kernels
    too, and zeros around it; a convolution of stride s, such as a patch embedding, therefore sees one pixel of each s ×
    s. Every group of a convolution, and each of the stacked projections of attention, has the matrix of its own size:
    groups are equal to each other, and a depthwise convolution is the identity.

    Only embeddings, which the paper does not mention, use random numbers; the seed changes nothing else. Parameters
    that the distributions leave as built, such as gates, are as random as the model made them.

    The scale follows the authors' notebook; algorithm 1 as printed has √2 times as much if m > n. In networks with
    residual branches the last weight of every branch and the classifier are 0, as in the authors' residual networks;
    the record contains the number of branches. A gate that is also 0, as in NF-ResNets and under scheme skipinit, is
    set to 1, because neither of two factors that are both 0 has a gradient. Norm layers get weight 1 and bias 0, biases
    are 0. A model with a last weight that would stay 0 whatever the training is refused, as where an activation whose
    slope at 0 is 0 follows it.

    Args:
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: embedding_std is not a finite number above 0.
    """
    check_positive(embedding_std=embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        known_branches(context)
        ends = _ends(model, context.structure)

        def draw(layer: WeightLayer, _: torch.Generator) -> tuple[Tensor, Law]:
            if id(layer.weight) in ends:
                return torch.zeros_like(layer.weight), {"law": "zeros"}
            return _identity_or_hadamard_weight(layer)

        Distribution(draw, embedding_std)(model, context)
        writer = ParameterWriter(model, context)
        for gate in _gates(model, context.structure):
            if not gate.any():
                writer.fill(gate, 1.0)
        refuse_locked_branches(model, context)

    return apply


def _ends(model: nn.Module, structure: Structure) -> set[int]:
    """Return the ids of the last weights of each residual branch and, if there are branches, of the heads."""
    names = [end for branch in structure.branches for end in branch.ends]
    heads = structure.heads if structure.branches else ()
    return {id(weight) for weight in weights_of(model, structure, [*names, *heads])}


def _gates(model: nn.Module, structure: Structure) -> list[nn.Parameter]:
    """Return the parameters that multiply residual branches besides their last weights.

    Gains of standardized weights are among them. The g of a weight normalization is not, because it is set with its
    weight and is 0 if the weight is.
    """
    normalized = {id(weight.gain) for _, weight in weight_normalized_weights(model)}
    gains = {layer.name: layer.gains for layer in structure.layers}
    names = [name for branch in structure.branches for name in branch.gates]
    names += [name for branch in structure.branches for end in branch.ends for name in gains[end]]
    return [gate for gate in map(model.get_parameter, names) if id(gate) not in normalized]


def identity_or_hadamard(outputs: int, inputs: int) -> Tensor:
    """Return the (outputs, inputs) float64 matrix of ZerO's algorithm 1, scaled as in the authors' notebook."""
    if outputs <= inputs:
        return torch.eye(outputs, inputs, dtype=torch.float64, device="cpu")
    # The entry (i, j) is -1 to the number of bits that i and j share, so the first n columns repeat after n rows,
    # rounded up to a power of two. The whole matrix would be p × p, 4 GiB of bytes for 50257 outputs.
    order, period = _power_of_two_from(outputs), _power_of_two_from(inputs)
    columns = torch.from_numpy(hadamard(period)).to(torch.float64)[:, :inputs]
    return columns[torch.arange(outputs, device="cpu") % period] / math.sqrt(order)


def _power_of_two_from(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _identity_or_hadamard_weight(layer: WeightLayer) -> tuple[Tensor, Law]:
    matrix = identity_or_hadamard(layer.outputs, layer.inputs)
    law: Law = {"law": "identity" if layer.outputs == layer.inputs else "partial identity"}
    if layer.outputs > layer.inputs:
        law = {"law": "scaled Hadamard matrix", "order": _power_of_two_from(layer.outputs)}
    if layer.centre is not None:
        law["centre"] = layer.centre
    return layer.in_centre_taps([matrix] * layer.blocks), law
