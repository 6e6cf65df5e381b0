"""The gradient quotient against closed forms and dense Hessians in float64."""

from __future__ import annotations

import itertools
import math
import statistics
import warnings

import pytest
import torch
from cases import Attention, Theta, batch, conv_net, randomize
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, mse_loss

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize
from initbench.probes.gradient_quotient import epsilon_floor, fraction_below_epsilon, gradient_quotient

NOTHING = torch.zeros(1)


def gq_of(loss, *theta, **options):
    """GQ of a function of a parameter vector."""
    model = Theta(*theta)
    return gradient_quotient(model, NOTHING, NOTHING, lambda output, _: loss(output), **options)


def quadratic(matrix):
    a = torch.tensor(matrix, dtype=torch.float64)
    return lambda theta: theta @ a @ theta / 2


def dense_gradient_and_hessian(model, inputs, targets, loss_fn):
    """g and H over all parameters, H column by column, by PyTorch's dense Hessian of a function of one vector."""
    parameters = dict(model.named_parameters())
    sizes = [p.numel() for p in parameters.values()]

    def loss(theta):
        pieces = zip(parameters.items(), theta.split(sizes), strict=True)
        values = {name: piece.view_as(p) for (name, p), piece in pieces}
        return loss_fn(functional_call(model, values, (inputs,)), targets)

    theta = torch.cat([p.detach().flatten() for p in parameters.values()])
    with sdpa_kernel(SDPBackend.MATH):  # the other kernels of attention have no second derivative
        return torch.autograd.functional.jacobian(loss, theta), torch.autograd.functional.hessian(loss, theta)


def residual(g, hg, eps):
    return (g - hg) / (g + eps * torch.where(g >= 0, 1.0, -1.0)) - 1


def test_a_linear_loss_has_the_quotient_of_epsilon_alone():
    c = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    value = gq_of(lambda theta: c @ theta, 3.0, 1.0, -1.0)
    # Without the −1 of equation (1) this would be about 1. 1e-10: the −1 cancels 5 of float64's 16 digits.
    assert value.item() == pytest.approx((1e-5 / (c.abs() + 1e-5)).mean().item(), rel=1e-10)
    assert value.item() == pytest.approx(1.16665e-5, rel=1e-5)


def test_epsilon_has_the_sign_of_the_gradient():
    c = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    value = gq_of(lambda theta: c @ theta, 0.0, 0.0, 0.0, eps=0.5)
    assert value.item() == pytest.approx((0.5 / 1.5 + 0.5 / 2.5 + 0.5 / 1.0) / 3, rel=1e-14)
    assert epsilon_floor(c, 0.5).item() == pytest.approx(value.item(), rel=1e-14)


def test_a_diagonal_quadratic():
    matrix = torch.diag(torch.tensor([0.1, 0.5, 2.0])).tolist()
    # g = aθ, Hg = a²θ, so each entry adds (a|g| + ε) / (|g| + ε).
    expected = [(a * g + 1e-5) / (g + 1e-5) for a, g in ((0.1, 0.1), (0.5, 1.0), (2.0, 6.0))]
    value = gq_of(quadratic(matrix), 1.0, -2.0, 3.0).item()
    assert value == pytest.approx(sum(expected) / 3, rel=1e-7)  # the matrix passed through float32
    assert value == pytest.approx(0.8666978, abs=5e-8)


def test_a_full_quadratic():
    assert gq_of(quadratic([[2.0, 0.3], [0.3, 0.5]]), 1.0, -1.0).item() == pytest.approx(2.0072739, abs=5e-8)


def test_a_zero_gradient_gives_exactly_one():
    with pytest.warns(UserWarning, match="saturated"):
        assert gq_of(lambda theta: (theta**2).sum(), 0.0, 0.0, 0.0).item() == 1.0


def test_an_entry_without_gradient_counts_its_curvature_over_epsilon():
    """L = a·b at (0, 5) has g = (5, 0) and Hg = (0, 5): 1 stands for a gradient of 0 where Hg is 0 too."""
    value = gq_of(lambda theta: theta[0] * theta[1], 0.0, 5.0).item()
    assert value == pytest.approx((1e-5 / (5 + 1e-5) + 5 / 1e-5 + 1) / 2, rel=1e-7)  # ε is rounded to float32


def test_it_grows_with_the_logarithm_of_one_over_epsilon():
    """A quotient of two noisy numbers has a Cauchy tail, which ε cuts off: so every GQ is told with its ε."""
    model = create_model("mlp", depth=8, width=64, input_shape=(3, 4, 4)).double()
    initialize(model, "kaiming")
    batches = [batch((32, 3, 4, 4), seed=seed) for seed in range(8)]
    medians = [
        statistics.median(gradient_quotient(model, *data, eps=eps).item() for data in batches)
        for eps in (1e-2, 1e-4, 1e-6)
    ]
    first, second = (b - a for a, b in itertools.pairwise(medians))
    assert medians[0] < first
    # Over ten seeds the second difference is .7 to 1.2 times the first.
    assert second == pytest.approx(first, rel=0.5)


def test_an_unused_parameter_adds_one_per_entry():
    model = Theta(1.0, -2.0)
    model.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))
    used = gradient_quotient(model, NOTHING, NOTHING, lambda o, _: (o**2).sum() / 4, parameters=[model.theta])
    with pytest.warns(UserWarning, match="60% of the gradient's entries are below eps"):
        every = gradient_quotient(model, NOTHING, NOTHING, lambda o, _: (o**2).sum() / 4)
    assert every.item() == pytest.approx((2 * used.item() + 3) / 5, rel=1e-14)


def test_a_loss_that_uses_no_parameter_gives_exactly_one():
    with pytest.warns(UserWarning, match="saturated"):
        assert gq_of(lambda theta: theta.detach().sum(), 1.0, 2.0).item() == 1.0


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_dead_network_is_not_praised(norm, method):
    """Its quotient of nearly 1 shows ε alone; the warning leaves the derivative as it is."""
    model = create_model("mlp", depth=12, width=8, input_shape=(3, 4, 4)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.1)
    data = batch((8, 3, 4, 4))
    with pytest.warns(
        UserWarning, match=r"^the gradient quotient is saturated: \d+% of .* below eps = 1e-05"
    ) as warned:
        value = gradient_quotient(model, *data, norm=norm, method=method)
    assert warned[0].filename == __file__
    assert any(slope.any() for slope in torch.autograd.grad(value, list(model.parameters()), allow_unused=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient_quotient(model, *data, eps=1e-30, norm=norm, method=method)


def test_a_flat_direction_below_epsilon_that_explains_little_is_no_saturation():
    """Two of three entries have no gradient, but the quotient of 1e5 is the curvature's."""
    value = gq_of(lambda theta: theta[0] * theta[1] + 0 * theta[2], 0.0, 5.0, 1.0)
    assert value.item() > 1e5


def test_a_loss_that_is_linear_in_one_parameter_only():
    # L = a·b + 3c at (a, b, c) = (2, 5, 1): g = (5, 2, 3), H g = (2, 5, 0).
    value = gq_of(lambda theta: theta[0] * theta[1] + 3 * theta[2], 2.0, 5.0, 1.0, eps=1e-12)
    assert value.item() == pytest.approx((2 / 5 + 5 / 2 + 0) / 3, rel=1e-10)


@pytest.mark.parametrize(("make", "shape"), [(conv_net, (4, 2, 5, 5)), (Attention, (4, 3, 4))])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_net_against_its_dense_hessian(make, shape, norm):
    model = randomize(make())
    inputs, targets = batch(shape, 3)
    loss_fn = cross_entropy if make is Attention else lambda output, _: (output**2).mean() / 2 + output.mean()
    g, hessian = dense_gradient_and_hessian(model, inputs, targets, loss_fn)
    r = residual(g, hessian @ g, 1e-5)
    expected = r.abs().mean() if norm == "l1" else r.square().sum().sqrt() / len(r)
    value = gradient_quotient(model, inputs, targets, loss_fn, norm=norm)
    assert value.item() == pytest.approx(expected.item(), rel=1e-10)


def test_over_a_subset_only_its_block_of_the_hessian_counts():
    model = randomize(conv_net())
    inputs, targets = batch((4, 2, 5, 5), 3)
    loss_fn = lambda output, _: (output**2).mean()  # noqa: E731
    g, hessian = dense_gradient_and_hessian(model, inputs, targets, loss_fn)
    first = model[0].weight.numel()
    expected = residual(g[:first], hessian[:first, :first] @ g[:first], 1e-3).abs().mean().item()
    value = gradient_quotient(model, inputs, targets, loss_fn, eps=1e-3, parameters=iter([model[0].weight]))
    assert value.item() == pytest.approx(expected, rel=1e-10)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name == "0.weight")
    assert gradient_quotient(model, inputs, targets, loss_fn, eps=1e-3).item() == pytest.approx(expected, rel=1e-10)


def test_the_finite_difference_equals_the_exact_form_for_a_quadratic_loss_alone():
    linear = randomize(nn.Linear(4, 2))
    inputs, _ = batch((6, 4))
    targets = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact, step = (
        gradient_quotient(linear, inputs, targets, mse_loss, method=method).item()
        for method in ("exact", "finite_difference")
    )
    assert step == pytest.approx(exact, rel=1e-12)
    labels = targets.argmax(1)
    exact, step = (
        gradient_quotient(linear, inputs, labels, method=method).item() for method in ("exact", "finite_difference")
    )
    assert step != pytest.approx(exact, rel=1e-3)


def test_the_finite_difference_is_the_gradient_after_one_step():
    model = randomize(conv_net())
    inputs, targets = batch((4, 2, 5, 5), 3)
    loss_fn = lambda output, _: (output**3).mean()  # noqa: E731
    g = torch.cat([g.flatten() for g in torch.autograd.grad(loss_fn(model(inputs), targets), model.parameters())])
    value = gradient_quotient(model, inputs, targets, loss_fn, method="finite_difference")
    with torch.no_grad():
        for parameter, step in zip(model.parameters(), g.split([p.numel() for p in model.parameters()]), strict=True):
            parameter.sub_(step.view_as(parameter))
    after = torch.cat([g.flatten() for g in torch.autograd.grad(loss_fn(model(inputs), targets), model.parameters())])
    assert value.item() == pytest.approx(residual(g, g - after, 1e-5).abs().mean().item(), rel=1e-10)


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
def test_its_derivative_is_that_of_central_differences(method):
    model = randomize(conv_net())
    inputs, targets = batch((4, 2, 5, 5), 3)
    options = {"loss_fn": lambda output, _: (output**2).mean(), "eps": 0.1, "method": method}
    slope = torch.autograd.grad(gradient_quotient(model, inputs, targets, **options), model[2].weight)[0]
    direction = torch.randn(slope.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values, h = [], 1e-6
    for sign in (1, -1):
        with torch.no_grad():
            model[2].weight += sign * h * direction
        values.append(gradient_quotient(model, inputs, targets, **options).item())
        with torch.no_grad():
            model[2].weight -= sign * h * direction
    # 1e-6: truncation h² and rounding 1e-16 / h are both far below.
    assert (slope * direction).sum().item() == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-6)


def test_it_measures_the_mode_that_the_model_is_in():
    # Two samples ±3 about 2: batch statistics whiten them, fresh running statistics (0, 1) leave them as they are.
    model = nn.Sequential(nn.BatchNorm1d(1, affine=False), nn.Linear(1, 1, bias=False)).double()
    nn.init.ones_(model[1].weight)
    inputs = torch.tensor([[5.0], [-1.0]], dtype=torch.float64)
    loss_fn = lambda output, _: (output**2).mean() / 2  # noqa: E731
    # L = w² mean(x²) / 2, so GQ = mean(x²) up to ε: 13 unnormalized, and 1 normalized.
    model.eval()
    assert gradient_quotient(model, inputs, NOTHING, loss_fn).item() == pytest.approx(13, rel=1e-4)
    model.train()
    assert gradient_quotient(model, inputs, NOTHING, loss_fn).item() == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
def test_under_no_grad_it_is_the_same_number_without_a_graph(method):
    model = randomize(conv_net())
    inputs, _ = batch((4, 2, 5, 5))
    targets = torch.randn(4, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    differentiable = gradient_quotient(model, inputs, targets, mse_loss, method=method)
    with torch.no_grad():
        value = gradient_quotient(model, inputs, targets, mse_loss, method=method)
    assert differentiable.requires_grad
    assert not value.requires_grad
    assert torch.equal(value, differentiable.detach())


def test_fraction_below_epsilon_is_strict_and_of_magnitudes():
    gradient = torch.tensor([0.0, -9e-6, 1e-5, -1e-5, 2.0], dtype=torch.float64)
    assert fraction_below_epsilon(gradient, 1e-5).item() == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"eps": 0.0}, ValueError, "eps must be a finite number above 0, got 0.0"),
        ({"eps": math.inf}, ValueError, "eps must be a finite number above 0, got inf"),
        ({"norm": "l3"}, ValueError, "norm must be l1 or l2, got 'l3'"),
        ({"method": "exakt"}, ValueError, "method must be exact or finite_difference, got 'exakt'"),
        ({"parameters": []}, ArgumentError, "parameters must hold at least one tensor"),
        ({"parameters": [torch.ones(2)]}, ArgumentError, "parameters must all require a gradient"),
        (
            {"parameters": [torch.ones(2, dtype=torch.bfloat16, requires_grad=True)]},
            ArgumentError,
            "parameters must be float32 or float64, got torch.bfloat16",
        ),
        (
            {"parameters": [torch.ones(2, requires_grad=True)], "method": "finite_difference"},
            ArgumentError,
            "parameters must belong to the model",
        ),
    ],
)
def test_what_it_refuses(options, error, message):
    with pytest.raises(error, match="^" + message.replace("(", r"\(")):
        gq_of(lambda theta: theta.sum(), 1.0, 2.0, **options)


def test_it_refuses_a_loss_that_is_not_a_mean():
    with pytest.raises(ArgumentError, match=r"^loss_fn must return a 0-dim tensor, got shape \(2,\)"):
        gq_of(lambda theta: theta, 1.0, 2.0)
