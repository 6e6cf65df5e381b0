"""The spectrum of the loss's Hessian: its largest eigenvalues, its density, and the gradient's share in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from torch import Tensor, nn

from initbench.arguments import check_counts, check_positive
from initbench.differentiation.gradients import (
    accumulated,
    check_parameters,
    flatten,
    loss_gradients,
    trainable_parameters,
    unflatten,
    vector_products,
)
from initbench.differentiation.loss import differentiable_loss
from initbench.models.batches import Batch, move, reference_parameter
from initbench.models.state import forked_rng, preserved
from initbench.probes import lanczos
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Curve, Measurement, Scalar
from initbench.registry import register_probe
from initbench.registry.traits import DataKind

Vector = NDArray[np.float64]


Matrix = NDArray[np.float64]


Product = Callable[[Vector], Vector]


_LEAST_BASIS = 20  # vectors of ARPACK's basis, SciPy's own default


def largest(product: Product, start: Vector, count: int, tolerance: float, most_products: int) -> tuple[Vector, Matrix]:
    """Return the eigenvalues of largest size, largest first, and their orthonormal eigenvectors, (n, count).

    Small matrices are decomposed completely. If a product is not finite, all values are NaN; eigenvalues that have not
    converged are NaN and come last, with eigenvectors of 0. A matrix with n < count has n eigenvalues. The iteration
    stops at the relative accuracy `tolerance` and gives up after about `most_products`.
    """
    size = len(start)
    count = min(count, size)
    basis = max(2 * count + 1, _LEAST_BASIS)
    first = product(start)
    if not np.isfinite(first).all():
        return np.full(count, np.nan), np.zeros((size, count))
    if not first.any():  # ARPACK would turn to random vectors if the Krylov space has only one
        return np.zeros(count), np.eye(size, count)
    if size <= basis:
        matrix = np.stack([product(unit) for unit in np.eye(size)])
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    else:
        restarts = max(1, (most_products - basis) // (basis - count))
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        try:
            values, vectors = eigsh(operator, count, v0=start, ncv=basis, tol=tolerance, maxiter=restarts)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    eigenvalues: Vector = np.full(count, np.nan)
    spans: Matrix = np.zeros((size, count))
    eigenvalues[: len(order)], spans[:, : len(order)] = values[order], vectors[:, order]
    return eigenvalues, spans


def quadrature(product: Product, start: Vector, steps: int) -> tuple[Vector, Vector]:
    """Return nodes and weights of the Gauss quadrature of a matrix's spectrum, as seen from a start vector.

    The weights add up to 1; for a random start they are on average the shares of the eigenvalues (Golub & Welsch, 1969;
    Ubaru, Chen & Saad, Fast Estimation of tr(f(A)) via Stochastic Lanczos Quadrature, 2017). Each vector is
    orthogonalized twice against all previous ones; otherwise rounding would repeat eigenvalues. There are `steps`
    nodes, or fewer if the start spans a smaller space.
    """
    basis = [start / np.linalg.norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        vector = product(basis[-1])
        if not np.isfinite(vector).all():
            return np.full(1, np.nan), np.ones(1)
        diagonal.append(float(basis[-1] @ vector))
        size = float(np.linalg.norm(vector))
        known = np.stack(basis)
        for _ in range(2):
            vector = vector - known.T @ (known @ vector)
        rest = float(np.linalg.norm(vector))
        if len(basis) == min(steps, len(start)) or rest <= np.finfo(np.float64).eps * size:
            break
        beside.append(rest)
        basis.append(vector / rest)
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside))
    return nodes.astype(np.float64), np.square(vectors[0])


REFERENCE = (
    "Dauphin & Schoenholz, MetaInit, NeurIPS 2019, section 2; Ghorbani, Krishnan & Xiao, An Investigation into Neural "
    "Net Optimization via Hessian Eigenvalue Density, ICML 2019"
)
_BINS = np.arange(-8, 8.5, 0.5)
"""Edges of the density's bins: decimal logarithms of the eigenvalues' sizes."""


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

    The Hessian is taken of the mean of the batches' losses.

    - ``largest_eigenvalue``: the size of the largest eigenvalue;
    - ``eigenvalues``: those of largest size, largest first, by the implicitly restarted Lanczos method (ARPACK); a
      multiple eigenvalue, as for a classifier of zeros, may be found fewer times;
    - ``gradient_share``: the share of |g|² in the span of their eigenvectors; where it falls, the gradient turns to
      flat directions (MetaInit, section 2, item 2);
    - ``positive_density`` and ``negative_density``: the share of all eigenvalues in each half-decade of sizes, by
      stochastic Lanczos quadrature (Ghorbani et al., 2019); together they add up to 1. The first and last bins include
      everything smaller or larger. A bin without a node of the quadrature has no value: a few steps resolve large
      eigenvalues well, but those near 0 only in number. Sizes below the largest times the precision of the parameters'
      type are rounding errors.

    Each product with the Hessian costs about two gradients per batch and the memory of one batch. The eigenvalues take
    some 50 to 150 products and never many more than `most_products`, the density steps · vectors. Vectors in memory, in
    float64 and as large as all parameters together: 2 · `eigenvalues` + 1 (at least 20), then `lanczos_steps`.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        mode: ``eval`` or ``train`` (BatchNorm with batch statistics, dropout on with the same draws each time).
        eigenvalues: number of eigenvalues, at most the number of parameters.
        tolerance: relative accuracy at which the iteration for the eigenvalues stops; their own is about its square.
        most_products: limit at which the iteration for the eigenvalues gives up; those not yet converged are missing.
        lanczos_steps: steps of the density from each random vector.
        lanczos_vectors: number of random vectors for the density.

    Raises:
        ArgumentError: a number is out of range.
    """
    counts = {
        "batch_size": batch_size,
        "batches": batches,
        "eigenvalues": eigenvalues,
        "most_products": most_products,
        "lanczos_steps": lanczos_steps,
        "lanczos_vectors": lanczos_vectors,
    }
    check_counts(**counts)
    check_positive(tolerance=tolerance)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        over = trainable_parameters(model)
        check_parameters(over)
        with preserved(model):
            model.train(mode == "train")
            fixed = [move(batch, like) for batch in context.batches(data, batch_size, batches)]
            hessian = _Hessian(model, fixed, over, context)
            random = context.generator("hessian")
            values, vectors = hessian.largest(_normal(hessian.size, random), eigenvalues, tolerance, most_products)
            of_eigenvalues = hessian.products
            random = context.generator("hessian", "density")
            starts = (_normal(hessian.size, random) for _ in range(lanczos_vectors))
            positive, negative = _density([hessian.quadrature(one, lanczos_steps) for one in starts])
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
    """Products with the Hessian of the mean loss of some batches; dropout draws the same numbers each time."""

    def __init__(
        self, model: nn.Module, batches: Sequence[Batch], over: Sequence[Tensor], context: ProbeContext
    ) -> None:
        self._model, self._batches, self._over, self._context = model, batches, over, context
        self.size = sum(parameter.numel() for parameter in over)
        self.products = 0
        self._device = over[0].device
        # A GPU keeps its vectors, because it would wait for two copies of each; but MPS has no float64.
        self._is_on_host = self._device.type in {"cpu", "mps"}

    def largest(self, start: Vector, count: int, tolerance: float, most_products: int) -> tuple[Vector, Matrix]:
        if self._is_on_host:
            return largest(self._host_product, start, count, tolerance, most_products)
        values, vectors = lanczos.largest(self._product, self._on_device(start), count, tolerance, most_products)
        return values.cpu().numpy(), vectors.cpu().numpy()

    def quadrature(self, start: Vector, steps: int) -> tuple[Vector, Vector]:
        if self._is_on_host:
            return quadrature(self._host_product, start, steps)
        nodes, weights = lanczos.quadrature(self._product, self._on_device(start), steps)
        return nodes.cpu().numpy(), weights.cpu().numpy()

    def gradient(self) -> Vector:
        return self._to_host(self._mean(lambda loss: loss_gradients(loss, self._over, create_graph=False)))

    def _product(self, vector: Tensor) -> Tensor:
        self.products += 1
        parts = unflatten(vector.to(device=self._device, dtype=self._over[0].dtype), self._over)
        return self._mean(lambda loss: vector_products(loss_gradients(loss, self._over), parts, self._over))

    def _host_product(self, vector: Vector) -> Vector:
        return self._to_host(self._product(torch.from_numpy(vector)))

    def _on_device(self, vector: Vector) -> Tensor:
        return torch.from_numpy(vector).to(self._device)

    def _to_host(self, vector: Tensor) -> Vector:
        return vector.cpu().numpy()

    def _mean(self, derivative: Callable[[Tensor], list[Tensor | None]]) -> Tensor:
        with forked_rng(self._model, self._context.seed, "probe"):
            total = accumulated(
                derivative(differentiable_loss(self._model, inputs, targets, self._context.loss))
                for inputs, targets in self._batches
            )
        flat = flatten(total, self._over)
        return (flat.cpu() if self._is_on_host else flat).double() / len(self._batches)


def _normal(size: int, random: torch.Generator) -> Vector:
    return torch.randn(size, dtype=torch.float64, generator=random, device="cpu").numpy()


def _density(quadratures: Sequence[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    """Return the shares of the positive and negative eigenvalues in each bin, as means over `quadrature`s.

    A bin without a node is NaN; if a node is NaN, all bins are. A node of 0 counts as positive.
    """
    nodes, weights = (np.concatenate([one[part] for one in quadratures]) for part in range(2))
    if not np.isfinite(nodes).all():
        return np.full(len(_BINS) - 1, np.nan), np.full(len(_BINS) - 1, np.nan)
    sizes = np.log10(np.maximum(np.abs(nodes), 10 ** _BINS[0]))
    sizes = np.clip(sizes, _BINS[0], _BINS[-1])
    shares = [np.histogram(sizes[sign], _BINS, weights=weights[sign])[0] for sign in (nodes >= 0, nodes < 0)]
    positive, negative = (np.where(share > 0, share / len(quadratures), np.nan) for share in shares)
    return positive, negative
