"""Weight-normalized layers whose outputs have mean 0 and variance 1 per channel on one batch."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from initbench.arguments import check_counts
from initbench.errors import InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.weight_norm import is_weight_normalized
from initbench.models.batches import NOT_FINITE, is_finite
from initbench.models.calls import LayerRun, run_visiting
from initbench.registry import Initializer, register_initializer
from initbench.registry.traits import DataKind


@register_initializer(
    "data_dependent_weight_norm",
    data="real",
    scheme="weight_norm",
    reference="Salimans & Kingma, Weight Normalization, NeurIPS 2016, section 3",
)
def data_dependent_weight_norm(
    base: Initializer | None = Initializer("weight_norm"), data: DataKind = "real", batch_size: int = 128
) -> Apply:
    """Set gains to g = 1/σ and biases to b = -μ/σ, so that each channel has mean 0 and variance 1 before activation.

    μ and σ are the mean and standard deviation of the channel's outputs v·x/‖v‖ on one batch (equations (5) and (6)),
    over samples and positions. Layers are set in the order in which they run, each on the outputs of the layers that
    were set before it. The directions v are drawn by the base. A layer without a bias gets only its gain; a layer that
    runs twice is set for its first run. Other layers, such as a classifier without weight normalization, are left
    alone. The model is in eval mode meanwhile. It costs one forward pass. The base and the batch size are this
    library's choice.

    Args:
        base: initializer that draws the directions; null keeps the model as it is.
        data: ``real`` or ``random`` inputs.
        batch_size: samples in the one batch.

    Raises:
        ArgumentError: batch_size is below 1.
    """
    check_counts(batch_size=batch_size)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        context.apply(base, model)
        model.eval()
        layers = {name: module for name, module in model.named_modules() if is_weight_normalized(module)}
        if not layers:
            raise InitializationError("data_dependent_weight_norm: the model has no weight-normalized layers")
        inputs, _ = next(context.batches(data, batch_size))
        if not is_finite([inputs]):
            raise InitializationError(f"data_dependent_weight_norm: the batch {NOT_FINITE}")
        deviations: dict[str, Tensor] = {}

        def visit(run: LayerRun) -> Tensor | None:
            if run.name in deviations:
                return None
            gain, bias = _gain_and_bias(run.layer)
            outputs = run.outputs
            channels = 1 if gain.dim() > 2 else outputs.dim() - 1
            shape = [-1 if d == channels else 1 for d in range(outputs.dim())]
            others = [d for d in range(outputs.dim()) if d != channels]
            unit = outputs if bias is None else outputs - bias.view(shape)
            unit = unit / gain.view(shape)
            deviations[run.name] = deviation = unit.std(others, correction=0)
            mean = unit.mean(others)
            if gain.requires_grad:
                gain.copy_((1 / deviation).view_as(gain))
            if bias is not None and bias.requires_grad:
                bias.copy_(-mean * gain.view(-1))
            scaled: Tensor = unit * gain.view(shape)
            return scaled if bias is None else scaled + bias.view(shape)

        run_visiting(model, inputs, layers, visit)
        _check(layers, deviations)
        _write_record(model, context, layers, deviations)
        context.record.cost = {"forward": 1, "backward": 0}
        context.record.conditions |= {"mode": "eval", "batch_shape": list(inputs.shape)}

    return apply


def _gain_and_bias(layer: Any) -> tuple[nn.Parameter, nn.Parameter | None]:
    return layer.parametrizations.weight.original0, layer.bias


def _check(layers: dict[str, nn.Module], deviations: dict[str, Tensor]) -> None:
    """Raise an InitializationError if nothing was set, or if no gain gives a channel variance 1."""
    ran = [layers[name] for name in deviations]
    if not any(p is not None and p.requires_grad for layer in ran for p in _gain_and_bias(layer)):
        raise InitializationError("data_dependent_weight_norm: no layer with a gain or bias to set has run")
    smallest = {name: float(deviation.min()) for name, deviation in deviations.items()}
    for name, deviation in smallest.items():
        if not 0 < deviation < float("inf"):
            raise InitializationError(
                f"data_dependent_weight_norm: {name}: the outputs of a channel are the same for all inputs, or not "
                "finite"
            )


def _write_record(
    model: nn.Module, context: InitializationContext, layers: dict[str, nn.Module], deviations: dict[str, Tensor]
) -> None:
    names = {id(parameter): name for name, parameter in model.named_parameters() if parameter.requires_grad}
    for layer, module in layers.items():
        gain, bias = (names.get(id(parameter)) for parameter in _gain_and_bias(module))
        done = layer in deviations
        if gain is not None:
            if done:
                context.record.set_to(gain, "inverse_deviations")
            else:
                context.record.left(gain, "not_run", layer)
        if bias is not None and done:
            context.record.set_to(bias, "standardizing_shifts")
