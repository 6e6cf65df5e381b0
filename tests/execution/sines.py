"""A plug-in of one file with a task of its own: regression, its metric, a dataset, a network, a method and a probe."""

import math

import torch
from torch import nn
from torch.nn import functional

import initbench
from initbench import Curve, Initializer, Inputs, Metric, Split, Splits


@initbench.register_task("regression")
class Regression(initbench.Task):
    """A number per sample; mean squared error, judged by R²."""

    metrics = (
        Metric("r_squared", better="higher", label="R²", best=1.0, show="{:.3f}", primary=True),
        Metric("mean_squared_error", better="lower", best=0.0),
    )

    def loss(self, outputs, targets):
        """Return the mean squared error."""
        return functional.mse_loss(outputs.squeeze(1), targets)

    def totals(self, outputs, targets):
        """Return the sums that R² is made of."""
        wide = targets.double()
        squares = (outputs.squeeze(1).double() - wide).square()
        return {"squared_error": squares.sum(), "sum": wide.sum(), "sum_of_squares": wide.square().sum()}

    def values(self, totals, samples):
        """Return R² = 1 - Σ(y - ŷ)² / Σ(y - ȳ)², and the mean squared error."""
        spread = totals["sum_of_squares"] - totals["sum"] ** 2 / samples
        return {
            "r_squared": 1 - totals["squared_error"] / spread if spread > 0 else math.nan,
            "mean_squared_error": totals["squared_error"] / samples,
        }

    def constant_predictor(self, targets, outputs):
        """Return the mean."""
        return targets.double().mean().expand(outputs)

    def random_targets(self, outputs, samples, generator):
        """Return standard normal targets."""
        return torch.randn(samples, generator=generator)


@initbench.register_dataset("sines", task="regression", inputs=Inputs((8,)), outputs=1)
def sines(size: int = 96) -> Splits:
    """The sine of a weighted sum of eight normal numbers.

    Args:
        size: samples of the training split; a third of it for each of the others.
    """
    if size < 3:
        raise initbench.ArgumentError(f"must be at least 3, got {size}", "size")
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(8, generator=generator) / 4

    def split(samples):
        inputs = torch.randn(samples, 8, generator=generator)
        return Split(inputs, torch.sin(inputs @ weights))

    return Splits(split(size), split(size // 3), split(size // 3))


@initbench.register_architecture("tiny_mlp", tasks=("regression", "classification"))
def tiny_mlp(width: int = 16, *, inputs: Inputs, outputs: int) -> nn.Module:
    """Two linear layers.

    Args:
        width: of the hidden layer.
    """
    features = math.prod(inputs.shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(features, width), nn.ReLU(), nn.Linear(width, outputs))


@initbench.register_initializer("warm", data="real")
def warm(base: Initializer = Initializer("kaiming"), steps: int = 2, batch_size: int = 8):
    """Scale the last weight so that the outputs have mean square 1 over some batches.

    Args:
        base: what draws the weights.
        steps: number of batches.
        batch_size: samples of each.
    """

    def apply(model, context):
        context.apply(base, model)
        name, weight = [(n, p) for n, p in model.named_parameters() if p.dim() > 1][-1]
        batches = context.batches("real", batch_size)
        with torch.no_grad():
            squares = [model(next(batches)[0]).square().mean() for _ in range(steps)]
            factor = float(torch.stack(squares).mean().rsqrt())
            weight.mul_(factor)
        context.record.cost["forward"] += steps
        context.record.scaled(name, factor)

    return apply


@initbench.register_probe("output_by_depth")
def output_by_depth(samples: int = 16):
    """The mean square of each layer's outputs on noise.

    Args:
        samples: of the batch.
    """

    def measure(model, context):
        ((inputs, _),) = context.batches("random", samples, 1)
        signal = []
        with torch.no_grad():
            for layer in model:
                inputs = layer(inputs)
                signal.append(float(inputs.square().mean()))
        return Curve(signal, over="depth", unit="mean square", log=True)

    return measure
