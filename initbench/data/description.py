"""What image datasets ask of a model, from their arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.data.prepare import check_sizes
from initbench.inputs import Inputs
from initbench.registry import Description

if TYPE_CHECKING:
    from initbench.registry.traits import Describe


def images(shape: tuple[int, int, int], classes: int, content: str | None = None) -> Describe:
    """Return the `describe` of a dataset of images with the arguments that `check_sizes` knows.

    Args:
        shape: channels, height and width of the images as they are published.
        classes: how many there are.
        content: the published hash of the source.
    """

    def describe(*, train_size: int | None, image_size: int | None, validation_size: int = 0) -> Description:
        check_sizes(train_size, image_size, validation_size)
        channels, height, width = shape
        return Description(Inputs((channels, image_size or height, image_size or width)), classes, content)

    return describe
