"""The inputs of a model: the shape of one sample, and the vocabulary of tokens. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from initbench.arguments import check_counts
from initbench.errors import ArgumentError

PAD = 0  # fills sentences up to the longest of a batch; no loss counts it
END = 1  # ends each sentence, and starts the decoder, as in fairseq


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model.

    Attributes:
        shape: shape of one sample: (channels, height, width) for images, (features,) for vectors, (positions,) for
            tokens, (2, positions) for pairs of sentences.
        vocabulary: number of different tokens; None if inputs are numbers.

    Raises:
        ArgumentError: a size is below 1.
    """

    shape: tuple[int, ...]
    vocabulary: int | None = None

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1:
            raise ArgumentError(f"must have sizes of at least 1, got {tuple(self.shape)}", "shape")
        check_counts(vocabulary=self.vocabulary)

    @property
    def positions(self) -> int:
        """Pixels of an image, tokens of a text; 1 for a vector."""
        return math.prod(self.shape[1:] if self.vocabulary is None else self.shape)

    @property
    def is_image(self) -> bool:
        """Whether a sample is (channels, height, width)."""
        return len(self.shape) == 3 and self.vocabulary is None

    @property
    def are_sentence_pairs(self) -> bool:
        """Whether a sample is (2, positions) of tokens: a sentence, and what is read of its translation."""
        return len(self.shape) == 2 and self.shape[0] == 2 and self.vocabulary is not None

    def __str__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return sizes if self.vocabulary is None else f"{sizes} tokens of {self.vocabulary}"

    def to_json(self) -> dict[str, Any]:
        """Return the inputs as stored in a record."""
        return asdict(self) | {"shape": list(self.shape)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the inputs stored in a record."""
        return cls(tuple(data["shape"]), data["vocabulary"])
