"""`hessian_spectrum` against a dense Hessian in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import Attention, Theta, randomize, small
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.probes.hessian_spectrum import largest, quadrature
from initbench.probes.measurement import entries
from initbench.registry import PROBES

VECTORS = ProbeContext(seed=3, inputs=Inputs((6,)), outputs=5)


def measure(model, context=VECTORS, **arguments):
    return PROBES.get("hessian_spectrum").build({"data": "random"} | arguments)(model, context)


def dense(model, context, batch_size, batches):
    """The gradient and Hessian of the mean loss over batches, by differentiating once for every entry."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    sizes = [parameter.numel() for parameter in parameters]

    def loss(vector):
        values = [part.view_as(p) for part, p in zip(vector.split(sizes), parameters, strict=True)]
        own = dict(zip(names, values, strict=True))
        found = [
            context.loss(functional_call(model, own, (x.double() if x.is_floating_point() else x,)), y)
            for x, y in context.batches("random", batch_size, batches)
        ]
        return torch.stack(found).mean()

    with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
        return _derivatives(loss, parameters)


def _derivatives(loss, parameters):
    vector = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient = torch.autograd.functional.jacobian(loss, vector)
    return gradient.numpy(), torch.autograd.functional.hessian(loss, vector).numpy()


def net():
    return randomize(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)), 0.8)


def bins(values, weights=None):
    """The counts of sizes in half decades from 10⁻⁸ to 10⁸."""
    sizes = np.log10(np.clip(np.abs(values), 1e-8, 1e8))
    return np.histogram(sizes, np.arange(-8, 8.5, 0.5), weights=weights)[0]


@pytest.mark.parametrize("batches", [1, 3])
def test_eigenvalues_and_the_share_of_the_gradient(batches):
    model = net()
    gradient, hessian = dense(model, VECTORS, 16, batches)
    assert len(hessian) == 6 * 8 + 8 + 8 * 5 + 5
    values, vectors = np.linalg.eigh(hessian)
    order = np.argsort(-np.abs(values))[:10]
    found = measure(model, batch_size=16, batches=batches)
    assert found["eigenvalues"].y == pytest.approx(values[order], rel=1e-6)
    assert found["eigenvalues"].x == range(1, 11)
    assert found["largest_eigenvalue"].value == pytest.approx(abs(values[order[0]]), rel=1e-6)
    assert found["largest_eigenvalue"].conditions["converged"] == 10
    share = np.square(vectors[:, order].T @ gradient).sum() / np.square(gradient).sum()
    assert 0.05 < share < 0.999
    assert found["gradient_share"].value == pytest.approx(share, rel=1e-6)


def test_of_few_parameters_all_eigenvalues_and_negative_ones():
    # ½ (3 x² − 5 y² + 0.02 z²) + x + z: the gradient at (1, 0, 0) is (4, 0, 1).
    scales = torch.tensor([3.0, -5.0, 0.02], dtype=torch.float64)
    linear = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    context = replace(VECTORS, loss_fn=lambda theta, _: 0.5 * (scales * theta.square()).sum() + linear @ theta)
    found = measure(Theta(1.0, 0.0, 0.0), context, eigenvalues=2, batch_size=1, lanczos_steps=3, lanczos_vectors=300)
    assert found["eigenvalues"].y == pytest.approx([-5.0, 3.0], rel=1e-12)
    assert found["largest_eigenvalue"].value == pytest.approx(5.0, rel=1e-12)
    assert found["gradient_share"].value == pytest.approx(16 / 17, rel=1e-12)
    # A third each on average, of which a random direction of 3 sees a share with a deviation of 0.3: of 300, 0.027.
    densities = [found[f"{sign}_density"].y for sign in ("positive", "negative")]
    assert np.isnan(densities).sum() == 64 - 3  # where there is no eigenvalue
    for density, own in zip(np.nan_to_num(densities), ([3, 0.02], [-5]), strict=True):
        assert density == pytest.approx(bins(own) / 3, abs=0.06)
    assert np.nansum(densities) == pytest.approx(1, rel=1e-12)
    everything = measure(Theta(1.0, 0.0, 0.0), context, batch_size=1)
    assert everything["eigenvalues"].y == pytest.approx([-5.0, 3.0, 0.02], rel=1e-12)
    assert everything["gradient_share"].value == pytest.approx(1, rel=1e-12)


def test_density_is_what_the_random_vectors_see_of_each_bin():
    model = net()
    values, vectors = np.linalg.eigh(dense(model, VECTORS, 16, 1)[1])
    found = measure(model, batch_size=16, lanczos_steps=101, lanczos_vectors=2, eigenvalues=1)
    random = VECTORS.generator("hessian", "density")
    starts = [torch.randn(101, dtype=torch.float64, generator=random).numpy() for _ in range(2)]
    seen = sum(np.square(vectors.T @ start) / (start @ start) for start in starts) / 2
    large = slice(6, None)  # from 10⁻⁵ on: what is smaller is rounding, of either sign
    for name, own in (("positive", values > 0), ("negative", values < 0)):
        curve = found[f"{name}_density"]
        assert curve.x == [-7.75 + 0.5 * place for place in range(32)]
        assert np.nan_to_num(curve.y)[large] == pytest.approx(bins(values[own], seen[own])[large], abs=1e-9)


def test_quadrature_sees_the_eigenvalues_with_the_shares_of_the_vector():
    random = np.random.default_rng(0)
    basis = np.linalg.qr(random.standard_normal((30, 30)))[0]
    values = np.concatenate([np.geomspace(1e-3, 1e3, 15), -np.geomspace(1e-2, 50, 15)])
    matrix, start = basis * values @ basis.T, random.standard_normal(30)
    nodes, weights = quadrature(lambda vector: matrix @ vector, start, 30)
    order = np.argsort(values)
    assert nodes == pytest.approx(values[order], rel=1e-6, abs=1e-9)
    assert weights == pytest.approx(np.square(basis.T @ start)[order] / (start @ start), rel=1e-5, abs=1e-9)
    # Gauss: m nodes give the moments up to 2 m − 1.
    nodes, weights = quadrature(lambda vector: matrix @ vector, start, 4)
    for power in range(8):
        moment = start @ np.linalg.matrix_power(matrix, power) @ start / (start @ start)
        assert weights @ nodes**power == pytest.approx(moment, rel=1e-9)
    # A vector in an invariant subspace sees this alone.
    nodes, weights = quadrature(lambda vector: np.diag([2.0, 2.0, 5.0]) @ vector, np.ones(3), 3)
    assert nodes == pytest.approx([2, 5])
    assert weights == pytest.approx([2 / 3, 1 / 3])


def test_what_has_not_converged_is_missing():
    values = 1 + 1e-6 * np.arange(2000)  # far too near one another for one restart
    products = []

    def product(vector):
        products.append(vector)
        return values * vector

    found, vectors = largest(product, np.ones(2000), 3, 1e-12, 60)
    assert 40 <= len(products) <= 80  # 20 are the least, and a restart takes 17
    assert np.isnan(found).any()
    assert not vectors[:, np.isnan(found)].any()


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_batch_norm_attention_and_dropout(mode):
    """Dropout draws the same for every product: a Hessian that changed with each would not be symmetric."""
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 5))
    randomize(model, 0.7)
    context = replace(VECTORS, inputs=Inputs((4,)))
    found = measure(model, context, mode=mode, batch_size=32)
    if mode == "eval":
        model.eval()
        values = np.linalg.eigvalsh(dense(model, context, 32, 1)[1])
        expected = values[np.argsort(-np.abs(values))[:10]]
        assert found["eigenvalues"].y == pytest.approx(expected, rel=1e-6)
    else:
        again = measure(model, context, mode=mode, batch_size=32)
        assert entries("", found) == entries("", again)
        assert found["largest_eigenvalue"].conditions["converged"] == 10
    attention, context = randomize(Attention()), replace(VECTORS, inputs=Inputs((5, 4)), outputs=3)
    values = np.linalg.eigvalsh(dense(attention, context, 8, 1)[1])
    found = measure(attention, context, mode=mode, batch_size=8, eigenvalues=3)
    assert found["eigenvalues"].y == pytest.approx(values[np.argsort(-np.abs(values))[:3]], rel=1e-6)


def test_softmax_regression_and_no_curvature_at_all():
    """The Hessian of a linear loss is 0; its gradient lies nowhere in particular."""
    context = replace(VECTORS, loss_fn=lambda outputs, _: outputs.sum())
    found = measure(randomize(nn.Linear(6, 5)), context, batch_size=4)
    assert list(found["eigenvalues"].y) == [0.0] * 10
    assert found["largest_eigenvalue"].value == 0
    # Softmax at 0 over c classes: H = (I / c − 11ᵀ / c²) ⊗ E[x xᵀ], whose largest eigenvalue is that of E[x xᵀ] / c.
    model = nn.Linear(6, 5, bias=False).double()
    nn.init.zeros_(model.weight)
    x = next(VECTORS.batches("random", 50, 1))[0].double().numpy()
    largest_of_inputs = np.linalg.eigvalsh(x.T @ x / 50)[-1]
    found = measure(model, replace(VECTORS, loss_fn=cross_entropy), batch_size=50)
    assert found["largest_eigenvalue"].value == pytest.approx(largest_of_inputs / 5, rel=1e-6)


def test_what_is_not_finite_is_told_and_does_not_hang():
    model = randomize(small("plain", activation="relu"), 1e200)
    found = measure(model, replace(VECTORS, inputs=Inputs((3, 8, 8)), outputs=10), batch_size=2)
    assert math.isnan(found["largest_eigenvalue"].value)
    assert all(map(math.isnan, found["positive_density"].y))
    assert math.isnan(found["gradient_share"].value)


@pytest.mark.parametrize("argument", ["eigenvalues", "lanczos_steps", "lanczos_vectors", "most_products", "batches"])
def test_counts_are_at_least_1(argument):
    with pytest.raises(ArgumentError, match="must be at least 1, got 0"):
        measure(net(), **{argument: 0})
