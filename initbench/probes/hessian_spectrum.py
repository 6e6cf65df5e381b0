"""The spectrum of the loss's Hessian: its largest eigenvalues, its density, and where the gradient lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import nn

from initbench.arguments import check_count, check_positive
from initbench.batches import Batch, DataKind, move, reference_parameter
from initbench.differentiation.accumulation import accumulated
from initbench.differentiation.gradients import (
    check_parameters,
    flatten,
    loss_gradients,
    trainable_parameters,
    unflatten,
    vector_products,
)
from initbench.differentiation.loss import differentiable_loss
from initbench.models.preservation import forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.lanczos import largest, quadrature
from initbench.probes.measurement import Curve, Measurement, Scalar
from initbench.registry import register_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from initbench.probes.lanczos import Vector

REFERENCE = (
    "Dauphin & Schoenholz, MetaInit, NeurIPS 2019, section 2; Ghorbani, Krishnan & Xiao, An Investigation into Neural "
    "Net Optimization via Hessian Eigenvalue Density, ICML 2019"
)
_BINS = np.arange(-8, 8.5, 0.5)
"""Edges of the density's bins: decimal logarithms of eigenvalues' sizes."""


@register_probe(
    "hessian_spectrum",
    smoke={"batch_size": 2, "batches": 1, "eigenvalues": 1, "most_products": 10, "lanczos_steps": 2},
    reference=REFERENCE,
)
def hessian_spectrum(
    data: DataKind = "real",
    batch_size: int = 128,
    batches: int = 1,
    mode: Literal["eval", "train"] = "eval",
    eigenvalues: int = 10,
    tolerance: float = 1e-4,
    most_products: int = 400,
    lanczos_steps: int = 30,
    lanczos_vectors: int = 1,
) -> Measure:
    """Largest eigenvalues and spectral density of the loss's Hessian over all trainable parameters, on fixed batches.

    The Hessian is that of the mean of the batches' losses.

    - ``largest_eigenvalue``: the size of the largest;
    - ``eigenvalues``: those of largest size, the largest first, by the implicitly restarted Lanczos method (ARPACK);
      one that is there several times, as of a classifier of zeros, may be found fewer times;
    - ``gradient_share``: the share of |g|² in the span of their eigenvectors; the gradient turns to flat directions
      where it falls (MetaInit, section 2, item 2);
    - ``positive_density`` and ``negative_density``: the share of all eigenvalues in each half of a decade of sizes, by
      stochastic Lanczos quadrature (Ghorbani et al., 2019); the sum of both is 1. The first and last bins hold all that
      is smaller or larger. Where no node of the quadrature lies the value is missing: few steps tell large eigenvalues
      well, and those near 0 only as many. Sizes below the largest times the precision of the parameters' type are
      rounding.

    Each product with the Hessian costs about two gradients a batch and the memory of one batch; the eigenvalues take
    some 50 to 150 products and never many more than `most_products`, the density steps · vectors. Vectors of the size
    of the parameters, in float64, that are in memory: 2 · `eigenvalues` + 1 (at least 20), then `lanczos_steps`.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        mode: ``eval`` or ``train`` (BatchNorm with the batch's statistics, dropout on with the same draws each time).
        eigenvalues: how many; fewer than this where there are fewer parameters.
        tolerance: relative accuracy at which the iteration for the eigenvalues stops; their own is about its square.
        most_products: at which the iteration for the eigenvalues gives up: those that have not converged are missing.
        lanczos_steps: of the density, from each random vector.
        lanczos_vectors: random vectors of the density.

    Raises:
        ArgumentError: a number is out of its range.
    """
    counts = {
        "batch_size": batch_size,
        "batches": batches,
        "eigenvalues": eigenvalues,
        "most_products": most_products,
        "lanczos_steps": lanczos_steps,
        "lanczos_vectors": lanczos_vectors,
    }
    for name, count in counts.items():
        check_count(name, count)
    check_positive("tolerance", tolerance)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        over = trainable_parameters(model)
        check_parameters(over)
        with preserved(model):
            model.train(mode == "train")
            fixed = [move(batch, like) for batch in context.batches(data, batch_size, batches)]
            hessian = _Hessian(model, fixed, over, context)
            start = torch.randn(hessian.size, dtype=torch.float64, generator=context.generator("hessian")).numpy()
            values, vectors = largest(hessian, start, eigenvalues, tolerance, most_products)
            of_eigenvalues = hessian.products
            random = context.generator("hessian", "density")
            starts = (
                torch.randn(hessian.size, dtype=torch.float64, generator=random).numpy() for _ in range(lanczos_vectors)
            )
            positive, negative = _density([quadrature(hessian, one, lanczos_steps) for one in starts])
            gradient = hessian.gradient()
        conditions = counts | {
            "data": data,
            "mode": mode,
            "tolerance": tolerance,
            "products": of_eigenvalues,
            "converged": int(np.isfinite(values).sum()),
            "parameters": hessian.size,
        }
        within, whole = float(np.square(vectors.T @ gradient).sum()), float(np.square(gradient).sum())
        centres = ((_BINS[:-1] + _BINS[1:]) / 2).tolist()
        size = "log10 of the eigenvalue's size"
        return {
            "largest_eigenvalue": Scalar(abs(values[0]) if len(values) else float("nan"), conditions),
            "eigenvalues": Curve(values.tolist(), "rank", range(1, len(values) + 1), conditions=conditions),
            "gradient_share": Scalar(within / whole if whole else float("nan"), conditions),
            "positive_density": Curve(positive.tolist(), size, centres, conditions=conditions),
            "negative_density": Curve(negative.tolist(), size, centres, conditions=conditions),
        }

    return measure


class _Hessian:
    """Products of the Hessian of the mean loss of some batches.

    Args:
        model: in the mode that it is measured in.
        batches: on its device.
        over: the parameters that are differentiated for.
        context: with the loss, and the seed of what dropout draws, the same each time.

    Attributes:
        size: the number of entries of the parameters.
        products: how many have been taken.
    """

    def __init__(
        self, model: nn.Module, batches: Sequence[Batch], over: Sequence[Tensor], context: ProbeContext
    ) -> None:
        self._model, self._batches, self._over, self._context = model, batches, over, context
        self.size = sum(parameter.numel() for parameter in over)
        self.products = 0

    def __call__(self, vector: Vector) -> Vector:
        """Return the product with a vector, (size,) in float64."""
        self.products += 1
        like = self._over[0]
        parts = unflatten(torch.from_numpy(vector).to(device=like.device, dtype=like.dtype), self._over)
        return self._mean(lambda loss: vector_products(loss_gradients(loss, self._over), parts, self._over))

    def gradient(self) -> Vector:
        """Return the gradient, (size,) in float64."""
        return self._mean(lambda loss: loss_gradients(loss, self._over, create_graph=False))

    def _mean(self, derivative: Callable[[Tensor], list[Tensor | None]]) -> Vector:
        with forked_rng(self._model, self._context.seed, "probe"):
            found = accumulated(
                derivative(differentiable_loss(self._model, inputs, targets, self._context.loss))
                for inputs, targets in self._batches
            )
        mean: Vector = flatten(found, self._over).double().cpu().numpy() / len(self._batches)
        return mean


def _density(quadratures: Sequence[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    """Return the shares of the positive and the negative eigenvalues in each bin, the means over quadratures.

    What has no node is NaN, and all are where a node is.

    Args:
        quadratures: nodes and weights of each, as from `lanczos.quadrature`; a node of 0 counts as positive.
    """
    nodes, weights = (np.concatenate([one[part] for one in quadratures]) for part in range(2))
    if not np.isfinite(nodes).all():
        return np.full(len(_BINS) - 1, np.nan), np.full(len(_BINS) - 1, np.nan)
    sizes = np.log10(np.maximum(np.abs(nodes), 10 ** _BINS[0]))
    sizes = np.clip(sizes, _BINS[0], _BINS[-1])
    shares = [np.histogram(sizes[sign], _BINS, weights=weights[sign])[0] for sign in (nodes >= 0, nodes < 0)]
    positive, negative = (np.where(share > 0, share / len(quadratures), np.nan) for share in shares)
    return positive, negative
