"""What a model is given: the shape of one sample, and its vocabulary where it is tokens. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from initbench.errors import ArgumentError


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model.

    Attributes:
        shape: of one sample: (channels, height, width) of an image, (features,) of a vector, (positions,) of tokens.
        vocabulary: how many different tokens there are; None where inputs are numbers.

    Raises:
        ArgumentError: a size is below 1.
    """

    shape: tuple[int, ...]
    vocabulary: int | None = None

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1:
            raise ArgumentError(f"must have sizes of at least 1, got {tuple(self.shape)}", "shape")
        if self.vocabulary is not None and self.vocabulary < 1:
            raise ArgumentError(f"must be at least 1, got {self.vocabulary}", "vocabulary")

    @property
    def positions(self) -> int:
        """Pixels of an image, tokens of a text; 1 for a vector."""
        return math.prod(self.shape[1:] if self.vocabulary is None else self.shape)

    @property
    def is_image(self) -> bool:
        """Whether a sample is (channels, height, width)."""
        return len(self.shape) == 3 and self.vocabulary is None

    def __str__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return sizes if self.vocabulary is None else f"{sizes} tokens of {self.vocabulary}"

    def to_json(self) -> dict[str, Any]:
        """Return the inputs as a record holds them."""
        return asdict(self) | {"shape": list(self.shape)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the inputs that a record holds."""
        return cls(tuple(data["shape"]), data["vocabulary"])
