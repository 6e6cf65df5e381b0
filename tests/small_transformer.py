"""Small encoder-decoder Transformers and pairs of sentences, which several test files share."""

from __future__ import annotations

import torch
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.inputs import END, PAD, Inputs

SOURCE_WORDS, TARGET_WORDS, LONGEST = 13, 11, 9
SIZES = {"depth": 2, "width": 8, "heads": 2}


def transformer(*, source=SOURCE_WORDS, target=TARGET_WORDS, longest=LONGEST, **arguments):
    """A small transformer, as PyTorch draws its layers."""
    return create_model("transformer", inputs=Inputs((2, longest), source), num_classes=target, **SIZES | arguments)


def pairs(samples=4, longest=LONGEST, seed=0, source=SOURCE_WORDS, target=TARGET_WORDS):
    """Inputs (samples, 2, longest) and targets (samples, longest): sentences of all lengths, also the longest."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.full((samples, 2, longest), PAD)
    targets = torch.full((samples, longest), PAD)
    for row in range(samples):
        read, written = torch.randint(1, longest, (2,), generator=generator).tolist() if row else (longest - 1,) * 2
        inputs[row, 0, :read] = torch.randint(END + 1, source, (read,), generator=generator)
        inputs[row, 0, read] = END
        words = torch.randint(END + 1, target, (written,), generator=generator)
        inputs[row, 1, 0], inputs[row, 1, 1 : written + 1] = END, words
        targets[row, :written], targets[row, written] = words, END
    return inputs, targets


def word_loss(logits, targets):
    """Mean cross-entropy of all targets but padding."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
