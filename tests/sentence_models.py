"""A tiny translation model that several test files share."""

import torch
from torch import nn

from initbench import Inputs
from initbench.inputs import PAD


class BagTranslator(nn.Module):
    """Predicts each token from the mean of the source's embeddings and the sum of the target's so far."""

    def __init__(self, source: int, target: int, width: int = 6) -> None:
        super().__init__()
        self.source = nn.Embedding(source, width)
        self.target = nn.Embedding(target, width)
        self.out = nn.Linear(width, target)

    def forward(self, pair):
        source, target = pair.unbind(1)
        known = (source != PAD)[..., None]
        memory = (self.source(source) * known).sum(1) / known.sum(1).clamp(min=1)
        return self.out(torch.tanh(self.target(target).cumsum(1) + memory[:, None]))


def bag_translator(width: int = 6, *, inputs: Inputs, outputs: int) -> nn.Module:
    """A bag of words.

    Args:
        width: of an embedding.
    """
    return BagTranslator(inputs.vocabulary, outputs, width)
