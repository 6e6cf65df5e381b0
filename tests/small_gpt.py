"""Small language models, batches of tokens and a task for them, which several test files share."""

from __future__ import annotations

import torch
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import InitializationError
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.tasks import Task

VOCABULARY, CONTEXT = 11, 6
SIZES = {"depth": 2, "width": 8, "heads": 2}


def gpt(*, context=CONTEXT, vocabulary=VOCABULARY, **arguments):
    """A small gpt, as PyTorch draws its layers."""
    return create_model("gpt", inputs=Inputs((context,), vocabulary), num_classes=vocabulary, **SIZES | arguments)


def tokens(samples=4, length=CONTEXT, seed=0, vocabulary=VOCABULARY):
    """Inputs and targets, (samples, length) each."""
    generator = torch.Generator().manual_seed(seed)
    shape = (samples, length)
    return tuple(torch.randint(vocabulary, shape, generator=generator) for _ in range(2))


def next_token_loss(logits, targets):
    """Mean cross-entropy over all positions."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class NextToken(Task):
    """The token that follows each token."""

    metrics = (Metric("loss", "lower", unit="nats", best=0.0, primary=True),)

    def inputs_for(self, shape, outputs, example=None):
        return Inputs(tuple(shape), outputs or int(example.max()) + 1)

    def output_shape(self, inputs, outputs):
        return (*inputs.shape, outputs)

    def loss(self, outputs, targets):
        return next_token_loss(outputs, targets)

    def check_outputs(self, outputs, expected):
        if outputs.shape[-1] < expected:
            raise InitializationError(f"{expected} tokens, and {outputs.shape[-1]} outputs")

    def totals(self, outputs, targets):
        return {"loss": self.loss(outputs, targets) * targets.numel()}

    def values(self, totals, samples):
        return {"loss": totals["loss"] / samples}

    def constant_predictor(self, targets, outputs):
        return torch.bincount(targets.flatten(), minlength=outputs).double().log()

    def random_targets(self, outputs, samples, generator):
        return torch.randint(outputs, (samples, CONTEXT), generator=generator)
