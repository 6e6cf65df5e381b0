"""What a model puts out. Depends on nothing."""

from __future__ import annotations

from typing import Any


def logits(output: Any) -> Any:
    """Return a model's outputs as a tensor: of an object that has them as ``logits``, as Hugging Face's models do."""
    return getattr(output, "logits", output)
