"""Eigenvalues of a symmetric matrix of which only products with vectors are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Product = Callable[[Vector], Vector]

_LEAST_BASIS = 20  # vectors of ARPACK's basis, SciPy's own default


def largest(product: Product, start: Vector, count: int, tolerance: float, most_products: int) -> tuple[Vector, Matrix]:
    """Return the eigenvalues of largest size, the largest first, and their orthonormal eigenvectors, (n, count).

    Small matrices are decomposed as a whole. Where a product is not finite, all values are NaN; one that has not
    converged is NaN and stands last, and its eigenvector is 0.

    Args:
        product: with the matrix.
        start: what the iteration starts from, (n,).
        count: how many; n where that is less.
        tolerance: relative accuracy at which the iteration stops.
        most_products: after about as many it gives up.
    """
    size = len(start)
    count = min(count, size)
    basis = max(2 * count + 1, _LEAST_BASIS)
    first = product(start)
    if not np.isfinite(first).all():
        return np.full(count, np.nan), np.zeros((size, count))
    if not first.any():  # a Krylov space of one vector would send ARPACK to random ones
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
    found: Vector = np.full(count, np.nan)
    spans: Matrix = np.zeros((size, count))
    found[: len(order)], spans[:, : len(order)] = values[order], vectors[:, order]
    return found, spans


def quadrature(product: Product, start: Vector, steps: int) -> tuple[Vector, Vector]:
    """Return nodes and weights of the Gauss quadrature of a matrix's spectrum, as a vector sees it.

    The weights add up to 1, and those of a random start are on average the shares of the eigenvalues (Golub & Welsch,
    1969; Ubaru, Chen & Saad, Fast Estimation of tr(f(A)) via Stochastic Lanczos Quadrature, 2017). Each vector is made
    orthogonal to all before, twice, without which rounding gives eigenvalues several times.

    Args:
        product: with the matrix.
        start: any vector but 0, (n,).
        steps: of the Lanczos method, as many nodes; fewer where the space that the vector spans is smaller.
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
