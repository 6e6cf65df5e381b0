"""Initializers that say what is not so, or that fail as they must not."""

from __future__ import annotations

import torch
from flaws import broken, broken_apply, draw, trainable
from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.distribution import Distribution, sample


@broken_apply(
    "records_what_it_changes",
    "norm.weight is changed, and the record says: nothing (model convolutions)",
)
def changes_more_than_it_records(model, context):
    draw(model, context)
    for name in [name for name, _ in trainable(model) if name.startswith("norm")]:
        context.record.tensors.pop(name)


@broken_apply(
    "records_what_it_changes", "conv1.bias is unchanged, and the record says: drawn: normal (model convolutions)"
)
def records_a_draw_that_it_does_not_make(model, context):
    for name, parameter in trainable(model):
        if parameter.dim() > 1:
            nn.init.normal_(parameter, generator=context.generator(name))
        context.record.drawn(name, "normal")


@broken_apply(
    "records_what_it_changes", "conv1.bias has other values, and the record says: zeroed (model convolutions)"
)
def records_zeros(model, context):
    draw(model, context)
    for name in [name for name, _ in trainable(model) if name.endswith("bias")]:
        context.record.filled(name, 0.0)


@broken_apply("records_what_it_changes", "'conv1' is in the record and is not a parameter (model convolutions)")
def records_modules(model, context):
    draw(model, context)
    for name, _ in trainable(model):
        context.record.drawn(name.rpartition(".")[0], "normal")


@broken_apply(
    "counts_its_passes",
    "the declared cost is {'forward': 1, 'backward': 1}, but {'forward': 1, 'backward': 2} were counted "
    "(model convolutions)",
    starts_from_another=True,
)
def miscounts(model, context):
    model.eval()
    parameters = [parameter for _, parameter in trainable(model)]
    if not parameters:
        raise InitializationError("miscounts: nothing to look at")
    inputs, targets = next(context.batches("random", 8))
    loss = context.loss(model(inputs), targets)
    torch.autograd.grad(loss, parameters, retain_graph=True)
    loss.backward()
    context.record.cost = {"forward": 1, "backward": 1}


@broken_apply(
    "returns_a_record_of_json",
    "conditions of the record is not JSON: Object of type Tensor is not JSON serializable (model convolutions)",
)
def records_a_tensor(model, context):
    draw(model, context)
    context.record.conditions["shape"] = torch.tensor(context.inputs.shape)


@broken_apply("gives_finite_values", "conv1.weight has values that are not finite (model convolutions)")
def overflows(model, context):
    draw(model, context)
    for _, parameter in trainable(model):
        parameter.data.mul_(1e30).mul_(1e30)


@broken_apply("works_in_float64", "conv1.weight has values that are not finite in float64 (model convolutions)")
def divides_by_zero_in_float64(model, context):
    draw(model, context)
    for _, parameter in trainable(model):
        parameter.data.div_(float(parameter.dtype != torch.float64))


@broken_apply(
    "works_in_float64",
    "raises RuntimeError in float64 and not in float32: expected m1 and m2 to have the same dtype, but got: float != "
    "double (model convolutions)",
)
def mixes_types(model, context):
    for name, parameter in trainable(model):
        size = len(parameter)
        rotation = torch.randn(size, size, generator=context.generator(name))
        parameter.data.copy_((rotation @ parameter.data.reshape(size, -1)).view_as(parameter))
        context.record.set_to(name, "rotated")


@broken_apply(
    "works_in_float64",
    "conv1.weight has no more digits in float64 than in float32, and is not near that value (model convolutions)",
)
def rounds_in_float64(model, context):
    for name, parameter in trainable(model):
        drawn = torch.randn(parameter.shape, generator=context.generator(name))
        parameter.data.copy_(drawn * parameter.element_size())
        context.record.drawn(name, "normal")


@broken_apply(
    "raises_readable_errors", "raises KeyError: 'conv1' on the model tied_layers; raise an InitializationError"
)
def needs_a_convolution(model, context):
    dict(model.named_modules())["conv1"]
    draw(model, context)


@broken_apply(
    "raises_readable_errors",
    "refuses every model: convolutions: wrong weather; channels_last: wrong weather; tied_layers: wrong weather; "
    "transformer: wrong weather",
)
def refuses_everything(_model, _context):
    raise InitializationError("wrong weather")


@broken_apply("raises_readable_errors", "raises an InitializationError without a message on the model no_parameters")
def refuses_without_a_word(model, context):
    if not trainable(model):
        raise InitializationError
    draw(model, context)


@broken_apply(
    "raises_readable_errors",
    "leaves a model that it refuses changed: forward_hooks of (the model) is different (model no_parameters)",
)
def leaves_a_hook_where_it_refuses(model, context):
    handle = model.register_forward_hook(lambda *_: None)
    if not trainable(model):
        raise InitializationError("nothing to draw")
    handle.remove()
    draw(model, context)


@broken_apply(
    "raises_readable_errors",
    "leaves values in conv1.weight that are not finite if inputs are NaN; raise an InitializationError",
    starts_from_another=True,
)
def scales_by_nan(model, context):
    for name, parameter in trainable(model):
        parameter.data.div_(next(context.batches("random", 8))[0].double().std())
        context.record.scaled(name, 1.0)


@broken(
    "names_bad_arguments",
    "accepts std -1.0 and then raises RuntimeError: normal expects std >= 0.0, but found std -1; raise "
    "ArgumentError('must be ...', 'std')",
)
def takes_any_number(std: float = 1.0):
    return lambda model, context: draw(model, context, std)


@broken(
    "names_bad_arguments",
    "refuses std 0.0 without the argument's name: this must be above 0; raise ArgumentError('must be ...', 'std')",
)
def names_no_argument(std: float = 1.0):
    if not std > 0:
        raise ValueError("this must be above 0")
    return takes_any_number(std)


@broken(
    "names_bad_arguments",
    "raises ZeroDivisionError: division by zero for fan 0; raise ArgumentError('must be ...', 'fan')",
)
def divides(fan: int = 1):
    return takes_any_number(abs(1 / fan))


@broken("names_bad_arguments", "the argument scale has no type, so no value can be refused")
def takes_anything(scale=1.0):
    return Distribution(lambda layer, generator: sample(layer, scale, "normal", generator))
