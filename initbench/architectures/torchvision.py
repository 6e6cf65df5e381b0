"""Every image classifier of torchvision, as ``torchvision/NAME``; never with pretrained weights."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from torch import nn

from initbench.architectures.rewrite import put_in
from initbench.architectures.timm import check_norm_layer
from initbench.arguments import types_of
from initbench.errors import ArgumentError
from initbench.extras import needed_by
from initbench.inputs import Inputs
from initbench.models.batches import zero_inputs
from initbench.registry import Member, register_architecture

_CHANNELS = 3
_PLAIN = {bool, int, float, str, list, tuple, type(None)}
# Determined by the data, or useless with a single loss: the auxiliary classifiers of two models. These models warn if
# `init_weights` is not given, and behave as if it were true.
_SET = {"num_classes", "image_size", "input_size", "aux_logits", "dropout_aux", "init_weights"}


def _members() -> Iterable[str]:
    with needed_by("architectures torchvision/NAME"):
        from torchvision import models

    return models.list_models(module=models)


@cache
def _options(model: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of a model class's constructor, by name; the model's function returns this class."""
    from torchvision import models

    returned = inspect.signature(models.get_model_builder(model), eval_str=True).return_annotation
    return dict(inspect.signature(returned, eval_str=True).parameters)


def _member(model: str) -> Member:
    """Return a model's options that are plain values; null by default because the model's function may change it."""
    plain = {n: p for n, p in _options(model).items() if n not in _SET and types_of(p.annotation) <= _PLAIN}
    # A model's function supplies what its class requires, but EfficientNet's also accepts another dropout.
    free = [p for n, p in plain.items() if p.default is not p.empty or n == "dropout"]
    return Member(
        arguments=tuple(p.replace(kind=p.KEYWORD_ONLY, default=None, annotation=p.annotation | None) for p in free)
    )


@register_architecture(
    "torchvision/*",
    members=_members,
    member=_member,
    example="resnet18",
    reference="TorchVision maintainers and contributors, TorchVision: PyTorch's Computer Vision library, 2016",
)
def torchvision_model(
    model: str,
    norm_layer: str | None = None,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    **options: Any,
) -> nn.Module:
    """An image classifier of torchvision, untrained; a scheme removes its normalization (see `initbench.rewrite`).

    Its other arguments are the plain values among the options of the model's class in torchvision, such as `dropout` or
    `width_per_group`; null is the model's own value. An option that the model sets itself is refused. GoogLeNet and
    Inception v3 are built without their auxiliary classifiers.

    Args:
        model: its name in torchvision.
        norm_layer: timm's name of a normalization, such as batchnorm2d, groupnorm (32 groups), groupnorm1 (one group)
            or layernorm2d (over the channels of each pixel); none to replace each normalization by a bias (see
            `initbench.remove_normalization`); null for the model's own.
        inputs: images of 3 channels.
        outputs: number of classes.
        options: the model's own, see above.

    Raises:
        ArgumentError: the model has no such option, or cannot be built with its value or for the images.
        ArgumentError: it has no normalization to remove.
    """
    if not inputs.is_image or inputs.shape[0] != _CHANNELS:
        raise ArgumentError(f"must be images of 3 channels for torchvision/{model}, got {inputs}", "inputs")
    chosen = {name: value for name, value in options.items() if value is not None}
    if norm_layer not in {None, "none"}:
        chosen["norm_layer"] = _norm_layer(model, norm_layer)
    built = _build(model, chosen, {"num_classes": outputs, **_sizes(model, inputs)})
    if norm_layer == "none":
        built = put_in(built, "channel_bias", zero_inputs(inputs, built, 2))
    return built


def _norm_layer(model: str, name: str) -> Any:
    from timm.layers import get_norm_layer

    check_norm_layer(name)
    if "norm_layer" not in _options(model):
        raise ArgumentError(f"is not an option of torchvision/{model}", "norm_layer")
    return get_norm_layer(name)


def _sizes(model: str, inputs: Inputs) -> dict[str, Any]:
    """Return a model's settings besides its classes: the size of the images, and settings from `_SET`."""
    known, (height, width) = _options(model), inputs.shape[1:]
    told: dict[str, Any] = {}
    if "image_size" in known:
        if height != width:
            raise ArgumentError(f"must be square images for torchvision/{model}, got {inputs}", "inputs")
        told["image_size"] = height
    if "input_size" in known:
        told["input_size"] = (height, width)
    if "aux_logits" in known:
        told |= {"aux_logits": False, "init_weights": True}
    return told


def _build(model: str, chosen: Mapping[str, Any], told: Mapping[str, Any]) -> nn.Module:
    from torchvision import models

    try:
        built: nn.Module = models.get_model(model, weights=None, **chosen, **told)
    except (AssertionError, RuntimeError, TypeError, ValueError, ZeroDivisionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        # "... got multiple values for argument 'growth_rate'", "The parameter 'groups' expected value 32 but got 2".
        refused = [name for name in chosen if f"'{name}'" in reason]
        if refused and ("multiple values" in reason or "expected value" in reason):
            raise ArgumentError(f"is not an option of torchvision/{model}", refused[0]) from error
        if chosen:
            given = ", ".join(chosen)
            raise ArgumentError(f"torchvision/{model} cannot be built with this {given}: {reason}") from error
        size = told.get("image_size", told.get("input_size", ""))
        raise ArgumentError(f"of size {size} do not fit torchvision/{model}: {reason}", "inputs") from error
    return built
