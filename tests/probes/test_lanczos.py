"""The Lanczos iterations for devices against dense decompositions and against SciPy's, in float64 on the CPU."""

import numpy as np
import pytest
import torch

from initbench.probes import lanczos
from initbench.probes.hessian_spectrum import largest, quadrature


def symmetric(values, seed=0):
    """A dense matrix with given eigenvalues, and its eigenvectors as columns."""
    generator = torch.Generator().manual_seed(seed)
    vectors, _ = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=torch.float64))
    return vectors @ torch.diag(values) @ vectors.T, vectors


def normal(size, seed=1):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def spread(size):
    """Values as of a Hessian: few large ones of both signs, and many near 0."""
    values = 1e-3 * normal(size, seed=2)
    values[:6] = torch.tensor([9.0, -7.5, 5.0, 3.0, -2.5, 2.0])
    return values


@pytest.mark.parametrize("size", [15, 60, 400])
def test_eigenvalues_and_vectors_are_those_of_a_dense_decomposition(size):
    matrix, vectors = symmetric(spread(size))
    found, spans = lanczos.largest(matrix.mv, normal(size), 5, 1e-6, 400)
    # The residuals are at most 1e-6 of the values, and the error of a value is of their square.
    assert found.tolist() == pytest.approx([9.0, -7.5, 5.0, 3.0, -2.5], rel=1e-10)
    assert (spans.T @ vectors[:, :5]).abs() == pytest.approx(np.eye(5), abs=1e-5)
    assert spans.T @ spans == pytest.approx(np.eye(5), abs=1e-12)


def test_it_takes_no_more_products_than_scipy_and_finds_the_same():
    matrix, _ = symmetric(torch.linspace(-1, 1, 500, dtype=torch.float64) ** 3)
    counts = {"ours": 0, "scipy": 0}

    def counted(name):
        def product(vector):
            counts[name] += 1
            return matrix @ vector if name == "ours" else matrix.numpy() @ vector

        return product

    found, _ = lanczos.largest(counted("ours"), normal(500), 4, 1e-4, 2000)
    known, _ = largest(counted("scipy"), normal(500).numpy(), 4, 1e-4, 2000)
    assert sorted(found.tolist()) == pytest.approx(sorted(known), rel=1e-6)
    assert counts["ours"] <= 1.1 * counts["scipy"]


def test_a_basis_that_the_matrix_maps_into_itself_is_continued():
    """The start is an eigenvector; the matrix has rank 3."""
    values = torch.zeros(100, dtype=torch.float64)
    values[:3] = torch.tensor([4.0, -3.0, 2.0])
    matrix, vectors = symmetric(values)
    found, _ = lanczos.largest(matrix.mv, vectors[:, 0].clone(), 5, 1e-6, 400)
    assert found.abs().tolist() == pytest.approx([4.0, 3.0, 2.0, 0.0, 0.0], abs=1e-10)


def test_what_has_not_converged_is_nan_and_last():
    matrix, _ = symmetric(torch.linspace(0.9, 1.0, 500, dtype=torch.float64))
    calls = []

    def product(vector):
        calls.append(1)
        return matrix @ vector

    found, spans = lanczos.largest(product, normal(500), 5, 1e-10, 50)
    assert found.isnan().all()
    assert not spans.any()
    assert len(calls) <= 50


def test_a_product_that_is_not_finite_gives_nan():
    for size in (10, 100):
        found, _ = lanczos.largest(lambda vector: vector * torch.nan, normal(size), 3, 1e-4, 100)
        assert found.isnan().all()
    nodes, _ = lanczos.quadrature(lambda vector: vector * torch.nan, normal(10), 5)
    assert nodes.isnan().all()


@pytest.mark.parametrize(("size", "steps"), [(200, 30), (8, 30), (200, 1)])
def test_the_quadrature_is_that_of_the_host(size, steps):
    matrix, _ = symmetric(normal(size, seed=5))
    nodes, weights = lanczos.quadrature(matrix.mv, normal(size), steps)
    known, shares = quadrature(lambda vector: matrix.numpy() @ vector, normal(size).numpy(), steps)
    assert nodes.tolist() == pytest.approx(list(known), rel=1e-9)
    assert weights.tolist() == pytest.approx(list(shares), rel=1e-7, abs=1e-12)
    assert float(weights.sum()) == pytest.approx(1, abs=1e-12)


def test_only_what_the_start_contains_has_weight():
    matrix, vectors = symmetric(normal(50, seed=5))
    nodes, weights = lanczos.quadrature(matrix.mv, vectors[:, 3] + vectors[:, 7], 30)
    expected = sorted(float(normal(50, seed=5)[i]) for i in (3, 7))
    assert nodes[weights > 1e-12].tolist() == pytest.approx(expected, rel=1e-10)
    assert weights[weights > 1e-12].tolist() == pytest.approx([0.5, 0.5], rel=1e-9)
