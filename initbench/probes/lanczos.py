"""Lanczos iterations on a GPU, which keep their vectors there instead of copying one to the host for each product.

On the CPU `hessian_spectrum` uses ARPACK through SciPy; these functions compute the same quantities, as accurately.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
_LEAST_BASIS = 20  # as in `hessian_spectrum`
_ROUNDING = 1e-12  # √n rounding errors of float64, for n of 20 million


def largest(product: Product, start: Tensor, count: int, tolerance: float, most_products: int) -> tuple[Tensor, Tensor]:
    """Return a symmetric matrix's eigenvalues of largest absolute value, largest first, and eigenvectors, (n, count).

    Thick-restart Lanczos (Wu & Simon, SIAM J. Matrix Anal. Appl. 22 (2000) 602). Each new vector is orthogonalized
    twice against the whole basis, and the projection of the matrix on the basis is kept as computed, so that a restart
    needs no formula of its own. An eigenvalue θ has converged if its residual is at most `tolerance` · |θ|, or is a
    rounding error of the largest one. The basis of max(2 · count + 1, 20) + 1 vectors lies on the device, and a restart
    takes half as much again: 14 GB for WRN-28-10.

    Args:
        product: multiplies a float64 vector, (n,), by the matrix.
        start: float64, (n,), not 0.
        count: number of eigenvalues; at most n are returned.
        tolerance: relative size of the residuals at which the iteration stops.
        most_products: largest number of products, after which it gives up.

    Returns:
        The values, NaN for those that have not converged, which come last and have eigenvectors of 0. All are NaN if a
        product is not finite.
    """
    size = len(start)
    count = min(count, size)
    most = max(2 * count + 1, _LEAST_BASIS)
    if size <= most:
        matrix = torch.stack([product(unit) for unit in torch.eye(size, dtype=start.dtype, device=start.device)])
        if not bool(matrix.isfinite().all()):
            return start.new_full((count,), torch.nan), start.new_zeros(size, count)
        values, vectors = _largest_first(*torch.linalg.eigh((matrix + matrix.T) / 2))
        return values[:count], vectors[:, :count]
    basis = start.new_zeros(most + 1, size)
    basis[0] = start / start.norm()
    projection = start.new_zeros(most, most)
    random = torch.Generator("cpu").manual_seed(0)
    kept = products = 0
    while True:
        for i in range(kept, most):
            vector = product(basis[i])
            products += 1
            rest, coefficients = _orthogonalized(vector, basis[: i + 1])
            whole, length = _lengths(vector, rest)
            if not math.isfinite(whole):
                return start.new_full((count,), torch.nan), start.new_zeros(size, count)
            projection[: i + 1, i] = projection[i, : i + 1] = coefficients
            if length <= _ROUNDING * whole:
                # The matrix maps the basis into itself: go on in a new direction, as ARPACK does.
                new = torch.randn(size, dtype=torch.float64, generator=random, device="cpu").to(start.device)
                length, rest = 0.0, _orthogonalized(new, basis[: i + 1])[0]
            basis[i + 1] = rest / rest.norm()
        values, vectors = _largest_first(*torch.linalg.eigh(projection))
        sizes = values[:count].abs()
        converged = length * vectors[-1, :count].abs() <= torch.maximum(tolerance * sizes, _ROUNDING * sizes[0])
        kept = (most + count) // 2
        if bool(converged.all()) or products + most - kept > most_products:
            break
        basis[:kept] = vectors[:, :kept].T @ basis[:most]
        basis[kept] = basis[most]
        projection.zero_()
        projection[:kept, :kept] = values[:kept].diag()
    eigenvalues, eigenvectors = start.new_full((count,), torch.nan), start.new_zeros(size, count)
    good = converged.nonzero().flatten()
    eigenvalues[: len(good)], eigenvectors[:, : len(good)] = values[good], basis[:most].T @ vectors[:, good]
    return eigenvalues, eigenvectors


def _largest_first(values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    order = values.abs().argsort(descending=True, stable=True)
    return values[order], vectors[:, order]


def quadrature(product: Product, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights of the Gauss quadrature of a matrix's spectrum; see `hessian_spectrum.quadrature`."""
    steps = min(steps, len(start))
    basis = start.new_zeros(steps + 1, len(start))
    basis[0] = start / start.norm()
    diagonal: list[Tensor] = []
    subdiagonal: list[float] = []
    for i in range(steps):
        vector = product(basis[i])
        rest, coefficients = _orthogonalized(vector, basis[: i + 1])
        whole, length = _lengths(vector, rest)
        if not math.isfinite(whole):
            return start.new_full((1,), torch.nan), start.new_ones(1)
        diagonal.append(coefficients[-1])
        if i + 1 == steps or length <= torch.finfo(torch.float64).eps * whole:
            break
        subdiagonal.append(length)
        basis[i + 1] = rest / length
    off = start.new_tensor(subdiagonal)
    nodes, vectors = torch.linalg.eigh(torch.stack(diagonal).diag() + off.diag(1) + off.diag(-1))
    return nodes, vectors[0].square()


def _lengths(*vectors: Tensor) -> list[float]:
    """Return the Euclidean norms of vectors, for which the host waits once."""
    lengths: list[float] = torch.stack([vector.norm() for vector in vectors]).tolist()
    return lengths


def _orthogonalized(vector: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Return the part of a vector, (n,), that is orthogonal to a basis, (k, n), and its coefficients in the basis."""
    first = basis @ vector
    vector = vector - basis.T @ first
    second = basis @ vector
    return vector - basis.T @ second, first + second
