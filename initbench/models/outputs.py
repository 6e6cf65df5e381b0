"""What a model gives: a tensor, or an object that holds one."""

from __future__ import annotations

from typing import Any


def tensor_of(output: Any) -> Any:
    """Return what a loss function takes of a model's output: its ``logits`` where it has them, else the output itself.

    The models of Hugging Face's transformers return objects with the field ``logits``.

    Args:
        output: what the model's forward pass returned.
    """
    return output.logits if hasattr(output, "logits") else output
