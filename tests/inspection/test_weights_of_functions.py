"""Fan-in, fan-out and matrices of weights without a module of their own, against the Jacobian of what they compute."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from initbench.inspection.roles import roles_of
from initbench.structure.find import find_structure

INPUTS, OUTPUTS, EXPERTS = 5, 3, 4


def gains(w):
    """Of weight normalization, for each output: g / |v| = 1."""
    return w.norm(dim=1, keepdim=True).detach() / w.norm(dim=1, keepdim=True)


# How x of shape (samples, inputs) meets a weight, and whether the weight is stored (inputs, outputs).
PRODUCTS = {
    "x @ w": (lambda x, w: x @ w, True),
    "x @ w.T": (lambda x, w: x @ w.T, False),
    "(w @ x.T).T": (lambda x, w: (w @ x.T).T, False),
    "x.mm(w.t().contiguous())": (lambda x, w: x.mm(w.t().contiguous()), False),
    "linear": (linear, False),
    "linear with w.t()": (lambda x, w: linear(x, w.t()), True),
    "linear with w.data": (lambda x, w: linear(x, w.data), False),
    "weight normalization": (lambda x, w: linear(x, w * gains(w)), False),
    "weight normalization, gains first": (lambda x, w: linear(x, gains(w) * w), False),
    "weight normalization, expanded gains first": (lambda x, w: linear(x, gains(w).expand_as(w) * w), False),
    "addmm": (lambda x, w: torch.addmm(torch.zeros(1), x, w), True),
    "cast and scaled": (lambda x, w: (x.double() @ (2 * w.double()) / 2).float(), True),
    "einsum": (lambda x, w: torch.einsum("nd,df->nf", x, w), True),
    "einsum, weight first": (lambda x, w: torch.einsum("fd, ...d -> ...f", w, x), False),
}

# The same of a stack of matrices, each of which gives one result.
STACKS = {
    "bmm": (lambda x, w: torch.bmm(x.expand(len(w), -1, -1), w), True),
    "bmm with w.mT": (lambda x, w: torch.bmm(x.expand(len(w), -1, -1), w.mT), False),
    "x @ w": (lambda x, w: x @ w, True),
    "one expert after the other": (lambda x, w: torch.stack([x @ matrix for matrix in w]), True),
    "linear of one after the other": (lambda x, w: torch.stack([linear(x, w[i]) for i in range(len(w))]), False),
    "chosen experts": (lambda x, w: x @ w[torch.arange(len(w))], True),
    "einsum": (lambda x, w: torch.einsum("end,edf->enf", x.expand(len(w), -1, -1), w), True),
}


class Product(nn.Module):
    def __init__(self, product, *sizes):
        super().__init__()
        self.product, self.kernel = product, nn.Parameter(torch.randn(sizes))

    def forward(self, x):
        return self.product(x, self.kernel)


def role_of(layer):
    return roles_of(layer, find_structure(layer, torch.zeros(1, INPUTS)))["kernel"]


def jacobian(layer):
    """Of the outputs for one sample, with the outputs' shape and the inputs'."""
    return torch.func.jacrev(lambda x: layer(x[None]))(torch.zeros(INPUTS))


@pytest.mark.parametrize("size", [OUTPUTS, INPUTS], ids=["rectangular", "square"])
@pytest.mark.parametrize(("product", "inputs_first"), PRODUCTS.values(), ids=PRODUCTS)
def test_a_matrix_has_the_fans_and_the_orientation_of_its_jacobian(product, inputs_first, size):
    layer = Product(product, *((INPUTS, size) if inputs_first else (size, INPUTS)))
    role = role_of(layer)
    assert (role.fan_in, role.fan_out, role.rows) == (INPUTS, size, size)
    torch.testing.assert_close(role.matrices(layer.kernel.detach()), jacobian(layer).reshape(1, size, INPUTS))


@pytest.mark.parametrize(("product", "inputs_first"), STACKS.values(), ids=STACKS)
def test_each_matrix_of_a_stack_has_the_fans_and_the_orientation_of_its_jacobian(product, inputs_first):
    layer = Product(product, EXPERTS, *((INPUTS, OUTPUTS) if inputs_first else (OUTPUTS, INPUTS)))
    role = role_of(layer)
    assert (role.fan_in, role.fan_out, role.blocks, role.rows) == (INPUTS, OUTPUTS, EXPERTS, EXPERTS * OUTPUTS)
    matrices = jacobian(layer).reshape(EXPERTS, OUTPUTS, INPUTS)
    torch.testing.assert_close(role.matrices(layer.kernel.detach()), matrices)


def test_a_projection_into_heads_has_all_heads_for_outputs():
    layer = Product(lambda x, w: torch.einsum("nd,dhk->nhk", x, w), INPUTS, 2, OUTPUTS)
    role = role_of(layer)
    assert (role.fan_in, role.fan_out, role.blocks) == (INPUTS, 2 * OUTPUTS, 1)
    torch.testing.assert_close(role.matrices(layer.kernel.detach())[0], jacobian(layer).reshape(-1, INPUTS))


UNKNOWN = {
    "tensordot": (lambda x, w: torch.tensordot(x, w, dims=([1], [0])), (INPUTS, OUTPUTS)),
    "linear with w @ w.T": (lambda x, w: linear(x, w @ w.T), (INPUTS, OUTPUTS)),
    "x @ (w.T @ w)": (lambda x, w: x @ (w.T @ w), (OUTPUTS, INPUTS)),
}


@pytest.mark.parametrize(("product", "sizes"), UNKNOWN.values(), ids=UNKNOWN)
def test_fans_are_unknown_if_the_product_does_not_show_them(product, sizes):
    role = role_of(Product(product, *sizes))
    assert (role.role, role.fan_in, role.fan_out) == ("head", None, None)
