"""Every model of the timm library, as ``timm/NAME``; never with pretrained weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn  # noqa: TC002 - the registry reads the annotations at run time

from initbench.registry import register_architecture

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def _members() -> Iterable[str]:
    import timm

    names: list[str] = timm.list_models()
    return names


@register_architecture("timm/*", members=_members, reference="Wightman, PyTorch Image Models (timm)")
def timm_model(
    model: str,
    img_size: int | None = None,
    drop_rate: float = 0.0,
    drop_path_rate: float = 0.0,
    *,
    input_shape: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
) -> nn.Module:
    """A model of the timm library, untrained.

    Args:
        model: its name in timm.
        img_size: side of the images, for models that are built for one size; null for the dataset's.
        drop_rate: dropout rate of the classifier.
        drop_path_rate: stochastic depth rate.
        input_shape: channels, height, width.
        num_classes: outputs.

    Raises:
        ValueError: the model has no such option or cannot be built with its value.
    """
    for name, rate in (("drop_rate", drop_rate), ("drop_path_rate", drop_path_rate)):
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be at least 0 and less than 1, got {rate}")
    if img_size is not None and img_size < 1:
        raise ValueError(f"img_size must be at least 1, got {img_size}")
    # All are passed, not only what was chosen: some models have other defaults (Swin's drop_path_rate is 0.1).
    options = {"img_size": img_size or input_shape[1:], "drop_rate": drop_rate, "drop_path_rate": drop_path_rate}
    chosen = {"img_size": img_size is not None, "drop_rate": drop_rate > 0, "drop_path_rate": drop_path_rate > 0}
    try:
        return _build(model, input_shape[0], num_classes, options, chosen)
    except (AssertionError, RuntimeError, ZeroDivisionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"img_size {options['img_size']} does not fit timm/{model}: {reason}") from error


def _build(
    model: str, channels: int, num_classes: int, options: Mapping[str, Any], chosen: Mapping[str, bool]
) -> nn.Module:
    """Build the model with those options that it takes.

    Raises:
        ValueError: it does not take one that the user chose.
    """
    import timm

    try:
        built: nn.Module = timm.create_model(
            model, pretrained=False, in_chans=channels, num_classes=num_classes, **options
        )
    except TypeError as error:
        # "... got an unexpected keyword argument 'img_size'", or a list of such names in brackets.
        refused = [name for name in options if f"'{name}'" in str(error)]
        if "unexpected keyword argument" not in str(error) or not refused:
            raise
        for name in refused:
            if chosen[name]:
                raise ValueError(f"{name} is not an option of timm/{model}") from error
        taken = {name: value for name, value in options.items() if name not in refused}
        return _build(model, channels, num_classes, taken, chosen)
    return built
