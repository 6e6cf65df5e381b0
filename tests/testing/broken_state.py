"""Initializers that use random numbers, or leave a model, in a way that they must not."""

from __future__ import annotations

import os
import random

import numpy as np
import torch
from flaws import broken_apply, draw, trainable
from torch import nn


@broken_apply("is_deterministic", "in a second run with the same seed conv1.weight is different (model convolutions)")
def seeds_itself(model, context):
    for name, parameter in trainable(model):
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(int.from_bytes(os.urandom(7))))
        context.record.drawn(name, "normal")


@broken_apply(
    "follows_the_seed", "random numbers are drawn, and seeds 0 and 1 give the same values (model convolutions)"
)
def ignores_the_seed(model, context):
    generator = torch.Generator().manual_seed(0)
    for name, parameter in trainable(model):
        nn.init.normal_(parameter, generator=generator)
        context.record.drawn(name, "normal")


@broken_apply(
    "leaves_the_global_random_state",
    "the global generator of torch is used; take context.generator(name) (model convolutions)",
)
def draws_from_torch(model, context):
    for name, parameter in trainable(model):
        nn.init.normal_(parameter)
        context.record.drawn(name, "normal")


@broken_apply(
    "leaves_the_global_random_state",
    "with another global random state conv1.weight is different (model convolutions)",
)
def draws_from_a_fork(model, context):
    with torch.random.fork_rng(devices=[]):
        draws_from_torch(model, context)


@broken_apply(
    "leaves_the_global_random_state",
    "the global generator of random is used; take context.generator(name) (model convolutions)",
)
def draws_from_python(model, context):
    draw(model, context, random.uniform(1, 2))  # noqa: S311


@broken_apply(
    "leaves_the_global_random_state",
    "the global generator of numpy.random is used; take context.generator(name) (model convolutions)",
)
def seeds_numpy(model, context):
    np.random.seed(context.seed)  # noqa: NPY002
    draw(model, context)


@broken_apply(
    "draws_tied_parameters_once",
    "linear3.weight is tied, and drawn under this name, which is not its first (model tied_layers)",
)
def draws_every_name(model, context):
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            nn.init.normal_(parameter, generator=context.generator(name))
            context.record.drawn(name, "normal")


@broken_apply("keeps_parameters", "conv1.weight is different (model convolutions)")
def replaces_a_parameter(model, context):
    draw(model, context)
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and module.weight.requires_grad:
            module.weight = nn.Parameter(module.weight.detach().clone())


@broken_apply(
    "keeps_dtype_device_and_layout",
    "classifier.bias was torch.float32 of shape (4,) with strides (1,) on cpu, is torch.float64 of shape (4,) with "
    "strides (1,) on cpu (model convolutions)",
)
def casts(model, context):
    draw(model, context)
    for name, parameter in trainable(model):
        if name == "classifier.bias":
            parameter.data = parameter.data.double()


@broken_apply(
    "keeps_dtype_device_and_layout",
    "conv1.weight was torch.float32 of shape (8, 3, 3, 3) with strides (27, 1, 9, 3) on cpu, is torch.float32 of shape "
    "(8, 3, 3, 3) with strides (27, 9, 3, 1) on cpu (model channels_last)",
)
def forgets_channels_last(model, context):
    draw(model, context)
    for _, parameter in trainable(model):
        parameter.data = parameter.data.contiguous()


@broken_apply("keeps_modes", "(the model) was in train mode, is in eval mode (model convolutions)")
def leaves_eval_mode(model, context):
    draw(model, context)
    model.eval()


@broken_apply("keeps_requires_grad", "conv1.bias was trainable, is frozen (model convolutions)")
def freezes(model, context):
    draw(model, context)
    for name, parameter in trainable(model):
        parameter.requires_grad_(requires_grad=not name.endswith("bias"))


@broken_apply("keeps_buffers", "after `initialize` drawn_at was added (model convolutions)", starts_from_another=True)
def adds_a_buffer(model, context):
    draw(model, context)
    model.register_buffer("drawn_at", torch.tensor(context.seed))


@broken_apply("keeps_buffers", "norm.running_mean is different (model convolutions)")
def resets_statistics(model, context):
    draw(model, context)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()


@broken_apply("keeps_gradients", "conv1.weight is different (model convolutions)")
def leaves_gradients(model, context):
    draw(model, context)
    for _, parameter in trainable(model):
        parameter.grad = torch.zeros_like(parameter)


@broken_apply("leaves_nothing_behind", "forward_hooks of (the model) is different (model convolutions)")
def leaves_a_hook(model, context):
    draw(model, context)
    model.register_forward_hook(lambda *_: None)


@broken_apply(
    "leaves_nothing_behind",
    "attribute momentum of norm is different (model convolutions)",
    starts_from_another=True,
)
def changes_a_setting(model, context):
    draw(model, context)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None


@broken_apply("keeps_frozen_parameters", "frozen.weight is frozen and was changed (model tied_layers)")
def writes_frozen_parameters(model, context):
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, generator=context.generator(name))
        context.record.drawn(name, "normal")
