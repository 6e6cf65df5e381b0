"""The first three derivatives of what networks are made of, against central differences in float64.

Each order is compared with the difference of the one before: gradients with values, products of the Hessian with
gradients, and gradients of such a product with products.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the field's name for it
from torch.nn.attention import SDPBackend, sdpa_kernel

from initbench.architectures.blocks import layer_norm, tanh_gelu
from initbench.differentiation.loss import differentiable_loss

pytorchs_weight_norm = torch._weight_norm

MEAN, VARIANCE = torch.tensor([[0.1, -0.2, 0.3], [0.5, 1.0, 2.0]], dtype=torch.float64)

# Arguments' shapes, and the operation.
OPERATIONS = {
    "layer_norm": ([(3, 8), (8,), (8,)], lambda x, w, b: F.layer_norm(x, (8,), w, b)),
    "layer_norm over two dimensions": ([(2, 3, 4)], lambda x: F.layer_norm(x, (3, 4), eps=0.1)),
    "torch.layer_norm": ([(3, 8), (8,)], lambda x, w: torch.layer_norm(x, (8,), w)),
    "our layer_norm": ([(3, 8), (8,), (8,)], lambda x, w, b: layer_norm(x, w, b, 1e-5)),
    "group_norm": ([(2, 4, 3), (4,), (4,)], lambda x, w, b: F.group_norm(x, 2, w, b)),
    "rms_norm": ([(3, 8), (8,)], lambda x, w: F.rms_norm(x, (8,), w, 1e-5)),
    "instance_norm": ([(2, 3, 5), (3,), (3,)], lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
    "batch_norm": ([(4, 3, 2), (3,), (3,)], lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "batch_norm in eval": ([(4, 3), (3,), (3,)], lambda x, w, b: F.batch_norm(x, MEAN, VARIANCE, w, b)),
    "weight_norm": ([(3, 2, 4), (3, 1, 1)], pytorchs_weight_norm),
    "weight_norm of the last dimension": ([(3, 4), (1, 4)], lambda v, g: pytorchs_weight_norm(v, g, 1)),
    "weight_norm of all": ([(3, 4), ()], lambda v, g: pytorchs_weight_norm(v, g, -1)),
    "local_response_norm": ([(2, 5, 3)], lambda x: F.local_response_norm(x, 3)),
    "normalize": ([(3, 8)], F.normalize),
    "softmax": ([(3, 8)], lambda x: x.softmax(-1)),
    "log_softmax": ([(3, 8)], lambda x: x.log_softmax(-1)),
    "cross_entropy": ([(3, 8)], lambda x: F.cross_entropy(x, torch.tensor([1, 2, 3]), label_smoothing=0.1)),
    "attention": ([(1, 2, 3, 4)] * 3, F.scaled_dot_product_attention),
    "gelu": ([(3, 8)], F.gelu),
    "gelu by tanh": ([(3, 8)], lambda x: F.gelu(x, approximate="tanh")),
    "our gelu": ([(3, 8)], tanh_gelu),
    "silu": ([(3, 8)], F.silu),
    "mish": ([(3, 8)], F.mish),
    "elu": ([(3, 8)], F.elu),
    "selu": ([(3, 8)], F.selu),
    "celu": ([(3, 8)], F.celu),
    "softplus": ([(3, 8)], F.softplus),
    "sigmoid": ([(3, 8)], torch.sigmoid),
    "logsigmoid": ([(3, 8)], F.logsigmoid),
    "tanh": ([(3, 8)], torch.tanh),
    "softsign": ([(3, 8)], F.softsign),
    "glu": ([(3, 8)], F.glu),
    "relu6": ([(3, 8)], F.relu6),
    "prelu": ([(3, 8), (1,)], F.prelu),
    "hardswish": ([(3, 8)], F.hardswish),
    "hardsigmoid": ([(3, 8)], F.hardsigmoid),
    "hardsigmoid in place": ([(3, 8)], lambda x: F.hardsigmoid(x * 1, inplace=True)),
    "conv2d": ([(1, 2, 5, 4), (3, 2, 3, 3), (3,)], lambda x, w, b: F.conv2d(x, w, b, 2, 1)),
    "conv_transpose2d": ([(1, 2, 3, 3), (2, 3, 2, 2)], lambda x, w: F.conv_transpose2d(x, w, stride=2)),
    "adaptive_avg_pool2d": ([(1, 2, 5, 4)], lambda x: F.adaptive_avg_pool2d(x, 3)),
    "interpolate": ([(1, 2, 3, 4)], lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
}
# The order of the first derivative that PyTorch 2.9 to 2.15 has wrong, or has not.
WRONG = {
    "layer_norm": 3,
    "layer_norm over two dimensions": 3,
    "torch.layer_norm": 3,
    "our layer_norm": 3,
    "weight_norm": 2,
    "weight_norm of the last dimension": 2,
}
MISSING = {"instance_norm": 3, "batch_norm": 3, "hardsigmoid": 2, "hardsigmoid in place": 2}


def errors(shapes, scalar):
    """The relative error of the first, second and third derivative, ending before one that cannot be taken.

    `scalar` takes the arguments as one vector each way is taken along.
    """
    generator = torch.Generator().manual_seed(1)
    sizes = [torch.Size(shape).numel() for shape in shapes]
    x, u, v = (torch.randn(sum(sizes), dtype=torch.float64, generator=generator) for _ in range(3))

    def value(z):
        return scalar(*(part.view(shape) for part, shape in zip(z.split(sizes), shapes, strict=True)))

    def gradient(z, create_graph=False):
        z = z if z.requires_grad else z.detach().requires_grad_()
        return torch.autograd.grad(value(z), z, create_graph=create_graph)[0]

    def product(z, create_graph=False):
        z = z if z.requires_grad else z.detach().requires_grad_()
        g = gradient(z, create_graph=True)
        return torch.autograd.grad(g, z, v, create_graph=create_graph)[0]

    def third(z):
        z = z.detach().requires_grad_()
        return torch.autograd.grad(product(z, create_graph=True), z, u)[0]

    found = []
    try:
        for derivative, before, way in ((gradient, value, None), (product, gradient, v), (third, product, u)):
            along = u if way is None else way
            step = 1e-3
            # Of fourth order: the error is of the size of step⁴.
            ahead, back = (before(x + k * along) - before(x - k * along) for k in (step, 2 * step))
            expected = (8 * ahead - back) / (12 * step)
            exact = derivative(x)
            exact = (exact * u).sum() if way is None else exact
            found.append(((exact - expected).abs().max() / expected.abs().max()).item())
    except RuntimeError:
        pass
    return found


def curved(operation, shapes):
    """A scalar with derivatives of all orders also where the operation is made of straight lines."""
    generator = torch.Generator().manual_seed(2)
    probe = operation(*(torch.ones(shape, dtype=torch.float64) for shape in shapes))
    weight = torch.randn(probe.shape, dtype=torch.float64, generator=generator)

    def scalar(*arguments):
        return (operation(*arguments).sin() * weight).sum()

    return scalar


# 1e-6: the differences are good to about 1e-9, of activations with corners none of which lies within a step.
TOLERANCE = 1e-6


@pytest.mark.parametrize("name", OPERATIONS)
def test_ours_are_right(name):
    shapes, operation = OPERATIONS[name]
    scalar = curved(operation, shapes)

    def loss(*arguments):
        return differentiable_loss(
            lambda _: scalar(*arguments), None, None, lambda y, _: y, batch_norm=True, third=True
        )

    found = errors(shapes, loss)
    assert len(found) == 3
    assert max(found) < TOLERANCE


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_pytorch_gets_wrong_or_lacks(name):
    """Where this fails, PyTorch has what it lacked, and a file of `initbench/differentiation` can go."""
    shapes, operation = OPERATIONS[name]
    with sdpa_kernel(SDPBackend.MATH):
        found = errors(shapes, curved(operation, shapes))
    right = (WRONG | MISSING).get(name, 4) - 1
    assert max(found[:right]) < TOLERANCE
    assert len(found) == (right if name in MISSING else 3)
    if name in WRONG:
        assert found[right] > 1e-3
