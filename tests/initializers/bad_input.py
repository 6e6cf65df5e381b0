"""Models and batches that the tuners cannot work with, and what they say of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from cases import batch
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.utils.parametrize import is_parametrized

from initbench.errors import ArgumentError, InitializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LSUV, METAINIT, GRADINIT, WEIGHT_NORM = "lsuv", "metainit", "gradinit", "data_dependent_weight_norm"
ARGUMENTS = {
    LSUV: {"data": "random"},
    METAINIT: {"steps": 4},
    GRADINIT: {"data": "random", "iterations": 4, "gamma": 1e-3},  # so that an iteration draws two half-batches
    WEIGHT_NORM: {"data": "random"},
}
SHAPE = (4, 3, 8, 8)
NOT_FINITE = "is empty or has values that are not finite"
JOINED = {LSUV: 4, METAINIT: 4, GRADINIT: 8, WEIGHT_NORM: 4}  # samples that the model is given


class Images(nn.Module):
    """Convolutions, a normalization with buffers, a classifier of 10 classes; one weight frozen, one module in eval."""

    def __init__(self, convolution=lambda layer: layer):
        super().__init__()
        self.conv1 = convolution(nn.Conv2d(3, 4, 3, padding=1))
        self.norm = nn.BatchNorm2d(4)
        self.conv2 = convolution(nn.Conv2d(4, 4, 3))
        self.classifier = nn.Linear(4, 10)
        self.norm.weight.requires_grad_(requires_grad=False)
        self.conv2.eval()

    def forward(self, images):
        hidden = self.norm(self.conv1(images)).tanh()
        return self.classifier(self.conv2(hidden).tanh().mean((2, 3)))


class Fails(Images):
    def forward(self, _):
        raise ZeroDivisionError("no mean of 0\nand a second line")


class Derivative(torch.autograd.Function):
    """The identity, without a derivative."""

    @staticmethod
    def forward(ctx, g):
        del ctx
        return g.clone()

    @staticmethod
    def backward(ctx, _):
        del ctx
        raise NotImplementedError("this is not implemented")


class Once(torch.autograd.Function):
    """The identity, with a first derivative alone."""

    @staticmethod
    def forward(ctx, x):
        del ctx
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        del ctx
        return Derivative.apply(g)


class DifferentiableOnce(Images):
    def forward(self, images):
        return Once.apply(super().forward(images))


def zeroed(model):
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def with_value(value, name, model):
    """`name` is a layer; under weight normalization the gains are set."""
    layer = model.get_submodule(name)
    nn.init.constant_(layer.parametrizations.weight.original0 if is_parametrized(layer) else layer.weight, value)
    return model


def frozen(model, least=0):
    for parameter in model.parameters():
        if parameter.dim() >= least:
            parameter.requires_grad_(requires_grad=False)
    return model


def batches(change, at=0):
    """Batches of which one is changed."""

    def draw():
        for index in range(100):
            inputs, targets = batch(SHAPE, seed=index, dtype=torch.float32)
            yield change(inputs, targets) if index == at else (inputs, targets)

    return draw


def nan_inputs(inputs, targets):
    return inputs.where(inputs < 2, math.nan), targets


@dataclass
class Case:
    """A bad input, and the messages by tuner.

    Attributes:
        name: for pytest.
        messages: by tuner; `{n}` stands for the number of samples that the model is given.
        change: of the model.
        model: its class.
        batches: makes the given ones; None for random ones.
        options: of `initialize`.
        error: what is raised.
    """

    name: str
    messages: dict[str, str]
    change: Callable[[nn.Module], nn.Module] = lambda model: model
    model: type[Images] = Images
    batches: Callable[[], Iterable[Any]] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    error: type[Exception] = InitializationError


def of(message, *tuners):
    """The same message for several tuners, all by default."""
    return dict.fromkeys(tuners or ARGUMENTS, message)


def of_a_run(message):
    """The same for all, but that weight normalization runs one sample first: its base looks for residual branches."""
    return of(message) | {WEIGHT_NORM: message.replace("{n}", "1")}


CASES = [
    Case(
        "a weight of zeros",
        {
            LSUV: "lsuv: conv2.weight: the outputs do not depend on it (a weight of zeros, or an input of zeros)",
            METAINIT: "metainit: conv2.weight has norm 0, so there is no direction to scale it along; zeros: keep "
            "leaves it as it is",
            WEIGHT_NORM: "data_dependent_weight_norm: conv2: the outputs of a channel are the same for all inputs, or "
            "not finite",
        },
        partial(with_value, 0.0, "conv2"),
        options={"base": None},
    ),
    Case(
        "nothing but zeros",
        {
            GRADINIT: "gradinit: every trainable parameter is zero: there is nothing to scale",
        },
        zeroed,
        options={"base": None},
    ),
    Case(
        "an infinite weight",
        {
            LSUV: "lsuv: conv2.weight: the outputs are not finite",
            METAINIT: "metainit: conv2.weight has norm inf: no direction to scale it along",
            GRADINIT: "gradinit: conv2.weight is not finite",
            WEIGHT_NORM: "data_dependent_weight_norm: conv2: the outputs of a channel are the same for all inputs, or "
            "not finite",
        },
        partial(with_value, math.inf, "conv2"),
        options={"base": None},
    ),
    Case(
        "all frozen",
        {
            LSUV: "lsuv: no convolution or linear layer with a scalable weight has run",
            METAINIT: "metainit: no parameter requires a gradient",
            GRADINIT: "gradinit: no parameter requires a gradient",
            WEIGHT_NORM: "data_dependent_weight_norm: no layer with a gain or bias to set has run",
        },
        frozen,
    ),
    Case(
        "weights frozen",
        {METAINIT: "metainit: no parameter of two or more dimensions requires a gradient"},
        partial(frozen, least=2),
    ),
    Case(
        "too many channels",
        of_a_run(
            "the model fails on inputs of shape ({n}, 5, 8, 8) and type float32: RuntimeError: Given groups=1, weight "
            "of size [4, 3, 3, 3], expected input[{n}, 5, 8, 8] to have 3 channels, but got 5 channels instead"
        ),
        options={"input_shape": (4, 5, 8, 8)},
    ),
    Case(
        "an error of the model's own",
        of_a_run("the model fails on inputs of shape ({n}, 3, 8, 8) and type float32: ZeroDivisionError: no mean of 0"),
        model=Fails,
    ),
    Case(
        "a model with first derivatives alone",
        of(
            "the model or loss_fn cannot be differentiated as often as needed: NotImplementedError: this is not "
            "implemented",
            METAINIT,
            GRADINIT,
        ),
        model=DifferentiableOnce,
    ),
    Case(
        "a base that starts from another",
        of("base must be an initializer that draws by itself; metainit starts from another one"),
        options={"base": "metainit"},
        error=ArgumentError,
    ),
    Case(
        "a base that does not draw so",
        of("base.gain must be a finite number above 0, got 0.0"),
        options={"base": {"name": "kaiming", "gain": 0}},
        error=ArgumentError,
    ),
    Case(
        "no number",
        of("batch_size must be an integer, got 'x'"),
        options={"batch_size": "x"},
        error=ArgumentError,
    ),
    Case(
        "a misspelled argument",
        of("bathc_size is an unknown key (did you mean 'batch_size'?)"),
        options={"bathc_size": 3},
        error=ArgumentError,
    ),
    Case(
        "a training that does not move",
        of("eta is the learning rate of the training, which is 0: give gradinit an eta above 0", GRADINIT),
        options={"training_optimizer": ("sgd", 0.0)},
        error=ArgumentError,
    ),
    Case(
        "no shape",
        of("{tuner} draws random batches: give inputs or input_shape, or batches"),
        options={"input_shape": None},
    ),
    Case(
        "no number of classes",
        of("{tuner} draws random batches: give num_classes, or batches"),
        options={"num_classes": None},
    ),
    Case("no real data", of("{tuner} needs real data: give batches or real_batches"), options={"data": "real"}),
    Case("no batches", of("batches ended early: step 1 needs one, 0 were given"), batches=list),
    Case(
        "no pair",
        of("batches must give (inputs, targets), two tensors; batch 1 is neither"),
        batches=batches(lambda inputs, _: inputs),
    ),
    Case(
        "NaN in the first batch",
        {
            LSUV: f"lsuv: the batch {NOT_FINITE}",
            METAINIT: f"metainit: the batch of step 0 {NOT_FINITE}",
            GRADINIT: f"gradinit: a half-batch of step 0 {NOT_FINITE}",
            WEIGHT_NORM: f"data_dependent_weight_norm: the batch {NOT_FINITE}",
        },
        batches=batches(nan_inputs),
    ),
    Case(
        "NaN later",
        {
            METAINIT: f"metainit: the batch of step 3 {NOT_FINITE}",
            GRADINIT: f"gradinit: a half-batch of step 1 {NOT_FINITE}",
        },
        batches=batches(nan_inputs, at=3),
    ),
    Case(
        "NaN in the second batch of GradInit",
        {GRADINIT: f"gradinit: a half-batch of step 1 {NOT_FINITE}"},
        batches=batches(nan_inputs, at=5),
        options={"gamma": 1e6},  # so that an iteration draws three half-batches
    ),
    Case(
        "infinite targets",
        {METAINIT: f"metainit: the batch of step 0 {NOT_FINITE}"},
        batches=batches(lambda inputs, _: (inputs, torch.full((4, 10), math.inf))),
        options={"loss_fn": mse_loss},
    ),
    Case(
        "an empty batch",
        {
            LSUV: f"lsuv: the batch {NOT_FINITE}",
            WEIGHT_NORM: f"data_dependent_weight_norm: the batch {NOT_FINITE}",
        },
        batches=batches(lambda inputs, targets: (inputs[:0], targets[:0])),
    ),
    Case(
        "images of two sizes",
        {
            GRADINIT: "gradinit: two half-batches cannot be joined: RuntimeError: Sizes of tensors must match except "
            "in dimension 0. Expected size 8 but got size 6 for tensor number 1 in the list."
        },
        batches=batches(lambda inputs, targets: (inputs[..., :6], targets), at=1),
    ),
    Case(
        "more classes than outputs",
        of("num_classes is 11, but the model has 10 outputs", METAINIT, GRADINIT),
        options={"num_classes": 11},
    ),
    Case(
        "a target without an output",
        of(
            "loss_fn fails on outputs of shape ({n}, 10) and type float32, and targets of shape ({n},) and type int64: "
            "IndexError: Target 10 is out of bounds.",
            METAINIT,
            GRADINIT,
        ),
        batches=batches(lambda inputs, targets: (inputs, targets.clamp(min=10)), at=2),
    ),
    Case(
        "bfloat16",
        of("{tuner}: conv1.weight is bfloat16, but must be float32 or float64: see model.float()", METAINIT, GRADINIT),
        lambda model: model.bfloat16(),
    ),
    Case(
        "float16 in part",
        of(
            "{tuner}: classifier.weight is float16, but must be float32 or float64: see model.float()",
            METAINIT,
            GRADINIT,
        ),
        lambda model: model.classifier.half() and model,
    ),
    Case(
        "a loss that is not finite",
        {
            METAINIT: "metainit: the gradient quotient of the base is nan; start from smaller weights",
            GRADINIT: "gradinit: the loss or a derivative of it is not finite at the base; start from smaller weights",
        },
        options={"loss_fn": lambda outputs, _: outputs.square().sum() * math.nan},
    ),
]
