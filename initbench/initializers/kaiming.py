"""Kaiming (He) initialization."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import weights_of
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import Distribution, Draw, Family, WeightLayer, sample, weight_layers
from initbench.initializers.parameter_writer import embeddings
from initbench.initializers.record import Law
from initbench.registry import register_initializer


@register_initializer("kaiming", reference="He et al., Delving Deep into Rectifiers, ICCV 2015, section 2.2")
def kaiming(
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    distribution: Family = "normal",
    gain: float = math.sqrt(2),
    embedding_std: float = 0.02,
    classifier_std: float | None = None,
) -> Apply:
    """Entries of standard deviation gain / √fan, which keeps the variance through ReLU layers.

    Equations (10) (fan_in, activations) and (14) (fan_out, gradients) of the paper; the defaults follow (10), which
    assumes that ReLUs follow. The authors of Fixup and GradInit use fan_out in their code. Each group of a convolution
    counts separately; in a transposed convolution all kernel taps count, whatever its stride.

    Args:
        mode: whether to keep the variance of activations or of gradients.
        distribution: normal, or uniform with the same variance.
        gain: √2 for ReLU; 1 for linear layers.
        embedding_std: standard deviation of embeddings.
        classifier_std: standard deviation of the normal law for the weights of all layers that produce an output; null
            for the law of the other layers. Biases are 0 in both cases. GradInit's authors use 0.01 for VGG
            (``models/vgg.py`` of zhuchen03/gradinit@777c407, as in torchvision), where √(2 / 10 classes) would be 0.45.

    Raises:
        ArgumentError: gain, embedding_std or classifier_std is not a finite number above 0.
    """
    check_positive(gain=gain, embedding_std=embedding_std, classifier_std=classifier_std)

    def draw(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, Law]:
        fan = layer.fan_in if mode == "fan_in" else layer.fan_out
        return sample(layer, gain / math.sqrt(fan), distribution, generator)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        law = draw if classifier_std is None else _with_classifier(draw, _classifiers(model, context), classifier_std)
        Distribution(law, embedding_std)(model, context)

    return apply


def _with_classifier(draw: Draw, classifiers: set[int], std: float) -> Draw:
    """Return a law that is N(0, std²) for the weights with these ids, and `draw` for all others."""

    def drawn(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, Law]:
        if id(layer.weight) not in classifiers:
            return draw(layer, generator)
        values, law = sample(layer, std, "normal", generator)
        return values, law | {"part": "classifier"}

    return drawn


def _classifiers(model: nn.Module, context: InitializationContext) -> set[int]:
    structure = context.structure
    if "heads" in structure.unknown:
        raise InitializationError(f"kaiming: the classifier cannot be determined: {structure.unknown['heads']}")
    drawn = {id(layer.weight) for module in model.modules() for layer in weight_layers(module)}
    drawn -= {id(weight) for weight, _ in embeddings(model)}
    classifiers: set[int] = set()
    for head in structure.heads:
        weights = {id(weight) for weight in weights_of(model, structure, [head])}
        if not weights <= drawn:
            raise InitializationError(
                f"kaiming: classifier_std does not reach the weight of {head}, which is tied to an embedding or "
                "computed by a parametrization"
            )
        classifiers |= weights
    return classifiers
