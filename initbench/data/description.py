"""What image datasets ask of a model, from their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import Description

if TYPE_CHECKING:
    from initbench.registry.traits import Describe


def images(shape: tuple[int, int, int], classes: int, content: str | None = None) -> Describe:
    """Return the `describe` of a dataset of images that an argument ``image_size`` may resize.

    Args:
        shape: channels, height and width of the images as they are published.
        classes: how many there are.
        content: the published hash of the source.
    """

    def describe(*, image_size: int | None, **_: Any) -> Description:
        if image_size is not None and image_size < 1:
            raise ArgumentError(f"must be at least 1, got {image_size}", "image_size")
        channels, height, width = shape
        return Description(Inputs((channels, image_size or height, image_size or width)), classes, content)

    return describe
