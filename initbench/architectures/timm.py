"""Every model of the timm library, as ``timm/NAME``; never with pretrained weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from initbench.architectures.blocks import check_rate
from initbench.architectures.rewrite import put_in
from initbench.arguments import check_counts
from initbench.errors import ArgumentError
from initbench.extras import needed_by
from initbench.inputs import Inputs
from initbench.models.batches import zero_inputs
from initbench.registry import register_architecture


def _members() -> Iterable[str]:
    with needed_by("architectures timm/NAME"):
        import timm

    return timm.list_models()


@register_architecture(
    "timm/*", members=_members, example="resnet18", reference="Wightman, PyTorch Image Models (timm)"
)
def timm_model(
    model: str,
    img_size: int | None = None,
    drop_rate: float = 0.0,
    drop_path_rate: float = 0.0,
    norm_layer: str | None = None,
    patch_size: int | None = None,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
) -> nn.Module:
    """A model of the timm library, untrained; a scheme removes its normalization (see `initbench.rewrite`).

    Args:
        model: its name in timm.
        img_size: height and width of the images, for models that are built for one size; null for the dataset's.
        drop_rate: dropout rate of the classifier.
        drop_path_rate: stochastic depth rate of the last block.
        norm_layer: timm's name of a normalization, such as batchnorm2d, groupnorm (32 groups), groupnorm1 (one group)
            or layernorm2d (over the channels of each pixel); none to replace each normalization by a bias (see
            `initbench.remove_normalization`); null for the model's own.
        patch_size: height and width of the patches that a vision transformer cuts images into, which must cover the
            image; null for the model's own.
        inputs: images.
        outputs: number of classes.

    Raises:
        ArgumentError: the model has no such option, or cannot be built with its value.
        ArgumentError: it has no normalization to remove.
    """
    for name, rate in (("drop_rate", drop_rate), ("drop_path_rate", drop_path_rate)):
        check_rate(name, rate)
    check_counts(img_size=img_size, patch_size=patch_size)
    # All are passed, even if not chosen, because some models have other defaults (Swin's drop_path_rate is 0.1).
    options: dict[str, Any] = {
        "img_size": img_size or inputs.shape[1:],
        "drop_rate": drop_rate,
        "drop_path_rate": drop_path_rate,
    }
    chosen = {"img_size": img_size is not None, "drop_rate": drop_rate > 0, "drop_path_rate": drop_path_rate > 0}
    if norm_layer not in {None, "none"}:
        check_norm_layer(norm_layer)
        options["norm_layer"], chosen["norm_layer"] = norm_layer, True
    if patch_size is not None:
        options["patch_size"], chosen["patch_size"] = patch_size, True
    try:
        built = _build(model, inputs.shape[0], outputs, options, chosen)
    except ArgumentError:
        raise
    except (AssertionError, RuntimeError, ValueError, ZeroDivisionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        argument, value = ("norm_layer", f"{norm_layer} with img_size ") if norm_layer else ("img_size", "")
        raise ArgumentError(f"{value}{options['img_size']} does not fit timm/{model}: {reason}", argument) from error
    _check_patches(built, model)
    if norm_layer == "none":
        built = put_in(built, "channel_bias", zero_inputs(inputs, built, 2))
    return built


def _check_patches(built: nn.Module, model: str) -> None:
    """Raise an ArgumentError if patches do not cover the image; timm would drop its right and lower edge."""
    from timm.layers import PatchEmbed

    patches = getattr(built, "patch_embed", None)
    if not isinstance(patches, PatchEmbed) or patches.img_size is None or patches.dynamic_img_pad:
        return
    if any(side % patch for side, patch in zip(patches.img_size, patches.patch_size, strict=True)):
        size, patch = ("×".join(map(str, sides)) for sides in (patches.img_size, patches.patch_size))
        problem = f"{size} is not covered by patches of {patch}: timm/{model} would drop the pixels at the edge; "
        raise ArgumentError(f"{problem}give a multiple, or another patch_size", "img_size")


def check_norm_layer(name: str) -> None:
    """Raise an ArgumentError unless timm has a normalization of this name: most models would raise a bare KeyError."""
    from timm.layers import get_norm_layer

    try:
        norm = get_norm_layer(name)
    except KeyError:
        norm = None
    if norm is None:
        known = "batchnorm2d, groupnorm, layernorm2d, none, ..."
        raise ArgumentError(f"must be a normalization of timm ({known}), got {name!r}", "norm_layer")


def _build(
    model: str, channels: int, outputs: int, options: Mapping[str, Any], chosen: Mapping[str, bool]
) -> nn.Module:
    """Build the model with the options that it takes; an option that the user chose must be among them."""
    import timm
    from timm.layers import get_norm_layer

    try:
        built: nn.Module = timm.create_model(model, pretrained=False, in_chans=channels, num_classes=outputs, **options)
    except TypeError as error:
        if "'str' object is not callable" in str(error) and isinstance(options.get("norm_layer"), str):
            # Some models (VGG, Swin) take a normalization only as a class, others (ConvNeXt) only by name.
            by_class = get_norm_layer(options["norm_layer"])
            return _build(model, channels, outputs, {**options, "norm_layer": by_class}, chosen)
        # "... got an unexpected keyword argument 'img_size'", or a list of such names in brackets; "got multiple
        # values for keyword argument 'norm_layer'" if the model sets its own.
        refused = [name for name in options if f"'{name}'" in str(error)]
        if "keyword argument" not in str(error) or not refused:
            raise
        for name in refused:
            if chosen[name]:
                raise ArgumentError(f"is not an option of timm/{model}", name) from error
        taken = {name: value for name, value in options.items() if name not in refused}
        return _build(model, channels, outputs, taken, chosen)
    return built
