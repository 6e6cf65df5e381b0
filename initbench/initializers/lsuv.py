"""LSUV: scale layers in the order in which they run until their outputs have a given standard deviation.

Mishkin & Matas, "All you need is a good init", ICLR 2016, Algorithm 1.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initbench.arguments import check_counts, check_positive
from initbench.errors import InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.parameter_writer import embeddings, own_parameter, weight_normalized
from initbench.initializers.record import InitializationRecord
from initbench.models.batches import NOT_FINITE, is_finite
from initbench.models.calls import LayerRun, run_visiting
from initbench.registry import Initializer, register_initializer
from initbench.registry.traits import DataKind
from initbench.structure.find import find_structure
from initbench.structure.kinds import is_linear, stores_inputs_first


@register_initializer(
    "lsuv",
    data="real",
    reference="Mishkin & Matas, All you need is a good init, ICLR 2016, Algorithm 1",
)
def lsuv(
    base: Initializer | None = Initializer("orthogonal"),
    std: float = 1.0,
    tolerance: float = 1e-3,
    data: DataKind = "real",
    remove_mean: bool = False,
    batch_size: int = 128,
) -> Apply:
    """Scale the weight of each convolution and linear layer so that its outputs have one standard deviation.

    The deviation is taken over all outputs of a layer on one batch, before the activation. The paper divides a weight
    by it and measures again until it is close to 1. Here the scale s with Var(s·Wx + b) = std² is solved for, a
    quadratic equation, while the batch flows through the layer, so that one forward pass sets all layers. A second pass
    measures the result: LSUV costs two forward passes. Without biases both methods are one division; with biases the
    paper's iteration, if it converges, converges to the same s.

    Layers are visited in the order in which they run, including the first, and the mean is left alone, as in the paper;
    the widely used LSUV-pytorch skips the first layer and always removes the mean. The model is in eval mode meanwhile:
    BatchNorm uses its running statistics.

    Some weights are left alone. A warning reports a layer whose own forward pass does not follow the scale of its
    weight, because it standardizes it, and a weight that is passed to a function without calling its layer, as in the
    attention of BEiT or torchvision's Swin. A weight shared with an embedding, such as the tied head of a language
    model, is skipped without a warning, because scaling it would change the inputs of all previous layers.

    The deviation of 1 and the orthogonal base are the paper's. The authors' Caffe code takes up to 20 passes per layer,
    until the variance is within .02 of 1, and recommends large batches and inputs of variance 1. The batch of 128 and
    the tolerance, which only triggers a warning here, are this library's choice.

    Args:
        base: initializer that draws the weights; null keeps the model as it is.
        std: standard deviation of each layer's outputs.
        tolerance: warn if a layer's final deviation differs from `std` by more than this fraction.
        data: ``real`` or ``random`` inputs.
        remove_mean: also shift each layer's bias, if it has one, so that the mean of all its outputs is 0, as
            LSUV-pytorch does.
        batch_size: samples in the one batch.

    Raises:
        ArgumentError: an argument is out of range.
    """
    check_positive(std=std, tolerance=tolerance)
    check_counts(batch_size=batch_size)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        context.apply(base, model)
        model.eval()
        layers = {name: module for name, module in model.named_modules() if _is_layer(module)}
        inputs, _ = next(context.batches(data, batch_size))
        if not is_finite([inputs]):
            raise InitializationError(f"lsuv: the batch {NOT_FINITE}")
        embedded = {id(weight) for weight, _ in embeddings(model)}
        visitor = _Visitor(std, tolerance, remove_mean, embedded)
        run_visiting(model, inputs, layers, visitor)
        scales = visitor.scales()
        reached = _measure(model, inputs, layers)
        given = _given_to_functions(model, inputs) if any(name not in reached for name in layers) else {}
        _write_record(context.record, model, layers, scales, visitor.shifts(), reached, embedded, given)
        context.record.cost = {"forward": 2, "backward": 0}
        context.record.conditions |= {
            "std": std,
            "remove_mean": remove_mean,
            "mode": "eval",
            "batch_shape": list(inputs.shape),
            "std_at_end": reached,
        }
        missed = [
            name
            for name, stds in reached.items()
            if (weight := _scalable(layers[name])) is not None
            and id(weight) not in embedded
            and not all(abs(value / std - 1) <= tolerance for value in stds)
        ]
        if missed:
            warnings.warn(
                f"lsuv: {', '.join(missed)}: the standard deviation is not within {tolerance:g} of {std:g} at the end "
                "(the layer runs more than once, its outputs are not proportional to its weight, it shares its weight, "
                "the type is too coarse, such as bfloat16, or the model is not deterministic)",
                stacklevel=3,
            )

    return apply


def _is_layer(module: nn.Module) -> bool:
    return isinstance(module, _ConvNd) or is_linear(module)


def _scalable(module: nn.Module) -> nn.Parameter | None:
    """Return the parameter that a layer's weight is proportional to; None if there is none or it must not change."""
    normalized = weight_normalized(module, "weight")
    weight = own_parameter(module, "weight") if normalized is None else normalized.gain
    return weight if weight is not None and weight.requires_grad else None


def _is_proportional(module: nn.Module) -> bool:
    """Return whether the outputs without the bias are certainly proportional to the weight.

    This holds for PyTorch's own layers and Hugging Face's `Conv1D`. A custom forward pass may do otherwise, for example
    standardize the weight.
    """
    defined_in = next(c for c in type(module).__mro__ if "forward" in vars(c))
    return defined_in.__module__.startswith("torch.nn.modules.") or stores_inputs_first(defined_in)


class _Visitor:
    """Scales each layer's weight and outputs when the layer runs."""

    def __init__(self, std: float, tolerance: float, remove_mean: bool, left: set[int]) -> None:
        self._std, self._tolerance, self._remove_mean = std, tolerance, remove_mean
        self._seen = set(left)
        # By layer, on the device so that nothing waits: scale, variances of Wx and b; and what b is lowered by.
        self._solutions: dict[str, Tensor] = {}
        self._lowered: dict[str, Tensor] = {}

    def __call__(self, run: LayerRun) -> Tensor:
        """Scale the weight of a layer on its first run; return its new outputs."""
        module, outputs = run.layer, run.outputs
        weight = _scalable(module)
        if weight is None or id(weight) in self._seen:
            return outputs
        self._seen.add(id(weight))
        bias: Any = module.bias
        channels = 1 if isinstance(module, _ConvNd) else outputs.dim() - 1
        others = [d for d in range(outputs.dim()) if d != channels]
        shift = None if bias is None else bias.view([-1 if d == channels else 1 for d in range(outputs.dim())])
        if shift is not None:
            outputs.sub_(shift)
        wide = outputs.double()
        variance, means = wide.var(correction=0), wide.mean(others)
        b = wide.new_zeros(1) if bias is None else bias.double()
        # Var(s·y + b) = s² Var(y) + 2 s Cov(y, b) + Var(b), because b is constant within a channel. The paper's
        # iteration s ← s / std converges to the larger root, where the deviation grows with s.
        covariance = ((means - means.mean()) * (b - b.mean())).mean()
        rest = b.var(correction=0) - self._std**2
        scale = (-covariance + (covariance**2 - variance * rest).sqrt()) / variance
        solution = torch.stack([scale, variance, b.var(correction=0)])
        if not _is_proportional(module):
            return self._scaled_and_repeated(run, weight, solution)
        self._solutions[run.name] = solution
        weight.mul_(scale.to(weight.dtype))
        outputs.mul_(scale.to(outputs.dtype))
        if self._remove_mean and bias is not None and bias.requires_grad:
            self._lowered[run.name] = scale * means.mean() + b.mean()
            bias.sub_(self._lowered[run.name].to(bias.dtype))
        return outputs if shift is None else outputs.add_(shift)

    def _scaled_and_repeated(self, run: LayerRun, weight: nn.Parameter, solution: Tensor) -> Tensor:
        """Return the outputs of a layer with a custom forward pass; restore its weight if scaling it had no effect."""
        before = weight.clone()
        weight.mul_(solution[0].to(weight.dtype))
        outputs = run.repeat()
        reaches_std = abs(outputs.double().std(correction=0) / self._std - 1) <= self._tolerance
        if not reaches_std:  # or the scale is NaN
            weight.copy_(before)
        else:
            self._solutions[run.name] = solution
            bias: Any = run.layer.bias
            if not self._remove_mean or bias is None or not bias.requires_grad:
                return outputs
            self._lowered[run.name] = outputs.double().mean()
            bias.sub_(self._lowered[run.name].to(bias.dtype))
        return run.repeat()

    def scales(self) -> dict[str, float]:
        if not self._solutions:
            raise InitializationError("lsuv: no convolution or linear layer with a scalable weight has run")
        numbers = torch.stack(list(self._solutions.values())).tolist()
        for name, (scale, variance, bias_variance) in zip(self._solutions, numbers, strict=True):
            if not 0 < scale < float("inf"):
                raise InitializationError(f"lsuv: {name}.weight: {_why(variance, bias_variance, self._std)}")
        return {name: float(scale) for name, (scale, _, _) in zip(self._solutions, numbers, strict=True)}

    def shifts(self) -> dict[str, float]:
        return {name: -float(lowered) for name, lowered in self._lowered.items()}


def _why(variance: float, bias_variance: float, std: float) -> str:
    if variance == 0:
        return "the outputs do not depend on it (a weight of zeros, or an input of zeros)"
    if not variance < float("inf"):
        return "the outputs are not finite"
    return f"no scale gives outputs of standard deviation {std:g}: the biases alone have {bias_variance**0.5:.4g}"


def _measure(model: nn.Module, inputs: Tensor, layers: dict[str, nn.Module]) -> dict[str, list[float]]:
    """Return the standard deviations of each layer's outputs, one for each run, in the order of the runs."""
    measured: list[tuple[str, Tensor]] = []

    def visit(run: LayerRun) -> None:
        measured.append((run.name, run.outputs.double().std(correction=0)))

    run_visiting(model, inputs, layers, visit)
    result: dict[str, list[float]] = {}
    for (name, _), value in zip(measured, torch.stack([value for _, value in measured]).tolist(), strict=True):
        result.setdefault(name, []).append(value)
    return result


def _given_to_functions(model: nn.Module, inputs: Tensor) -> dict[str, str]:
    """Return the weights that are passed to a function, as in some attentions, each with the name of its layer."""
    layers = find_structure(model, inputs[:1]).layers
    return {layer.weight: layer.name for layer in layers if not layer.called or layer.kind == "attention"}


def _write_record(
    record: InitializationRecord,
    model: nn.Module,
    layers: dict[str, nn.Module],
    scales: dict[str, float],
    shifts: dict[str, float],
    reached: dict[str, list[float]],
    embedded: set[int],
    given: dict[str, str],
) -> None:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    unexplained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    scaled: set[str] = set()
    for layer, module in layers.items():
        normalized = weight_normalized(module, "weight")
        if normalized is not None:
            unexplained.discard(names.get(id(normalized.direction), ""))  # v: g is scaled instead
        weight = _scalable(module)
        if weight is None:
            continue
        name = names[id(weight)]
        unexplained.discard(name)
        runs = len(reached.get(layer, []))
        if layer in scales:
            record.scaled(name, scales[layer], runs)
            scaled.add(name)
        elif not runs:
            record.left(name, "not_called" if name in given else "not_run", layer)
        else:
            record.left(name, "shared" if name in scaled or id(weight) in embedded else "not_proportional", layer)
        bias = own_parameter(module, "bias")
        if layer in shifts and bias is not None:
            record.shifted(names[id(bias)], shifts[layer])
    for name, parameter in model.named_parameters():
        if name in unexplained and parameter.dim() >= 2:
            record.left(name, "not_called" if name in given else "no_layer_weight", given.get(name))
