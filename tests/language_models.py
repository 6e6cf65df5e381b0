"""A tiny language model that several test files share."""

from torch import nn

from initbench import Inputs


def bigram(width: int = 16, *, inputs: Inputs, outputs: int) -> nn.Module:
    """An embedding and a linear layer: the next token from one token alone.

    Args:
        width: of the embedding.
    """
    return nn.Sequential(nn.Embedding(inputs.vocabulary, width), nn.Linear(width, outputs))
