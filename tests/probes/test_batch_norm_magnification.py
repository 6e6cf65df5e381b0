"""`batch_norm_magnification` against the closed form of a BatchNorm's derivative, and what GradInit says of it."""

from dataclasses import replace

import pytest
import torch
from cases import randomize, small
from torch import nn

from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext
from initbench.registry import PROBES

VECTORS = ProbeContext(seed=3, inputs=Inputs((40,)), outputs=40)
IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10)


def measure(model, context, **arguments):
    return PROBES.get("batch_norm_magnification").build({"data": "random"} | arguments)(model, context)


def linear_loss(weights):
    """A loss whose gradient at the outputs is what is given, whatever these are."""
    return lambda outputs, _: (outputs * weights).sum()


def expected(x, y, gradient, weight, eps):
    """The ratio and the mean input variance of equation (5), for features along the last dimension."""
    n = len(x)
    normalized = y / weight
    back = weight / (n * (x.var(0, correction=0) + eps).sqrt())
    back = back * (n * gradient - gradient.sum(0) - normalized * (gradient * normalized).sum(0))
    return float(back.var(0, correction=0).sum() / gradient.var(0, correction=0).sum())


def test_equation_5():
    norm = nn.BatchNorm1d(40).double()
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(40, generator=random))
    gradient = torch.randn(32, 40, dtype=torch.float64, generator=random)
    found = measure(nn.Sequential(norm), replace(VECTORS, loss_fn=linear_loss(gradient)), batch_size=32)
    x = next(VECTORS.batches("random", 32, 1))[0].double()
    y = norm.weight.detach() * (x - x.mean(0)) / (x.var(0, correction=0) + norm.eps).sqrt()
    # Rounding alone: equation (5) is the same in another order.
    value = expected(x, y, gradient, norm.weight.detach(), norm.eps)
    assert found["per_layer"].values == {"0": pytest.approx(value, rel=1e-12)}
    assert found["input_variance"].values == {"0": pytest.approx(float(x.var(0, correction=0).mean()), rel=1e-12)}


@pytest.mark.parametrize("samples", [4, 16, 128])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_independent_gradients_lose_two_of_n_directions(samples, scale):
    """The backward pass projects n samples onto n - 2 directions, of which the variance at the output keeps n - 1.

    So the variance is multiplied by (n - 2) / (n - 1) over that of the input, on average: of the gradient's second
    moment, for which equation (6) says (n - 1) / n, (n - 2) / n is left.
    """
    features = 20_000
    norm = nn.BatchNorm1d(features, eps=1e-12).double()
    context = ProbeContext(seed=5, inputs=Inputs((features,)), outputs=features)
    gradient = torch.randn(samples, features, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    x = next(context.batches("random", samples, 1))[0].double()
    x = scale * (x - x.mean(0)) / x.std(0, correction=0)  # each feature has the variance scale² exactly
    context = replace(context, loss_fn=linear_loss(gradient), real_batches=lambda *_: iter([(x, x)]))
    found = measure(nn.Sequential(norm), context, data="real", batch_size=samples)["per_layer"].values["0"]
    # One of (n - 1) · 20,000 directions is lost for each feature: the ratio's deviation is below √(2 / 60,000) = 0.6 %.
    assert found * scale**2 == pytest.approx((samples - 2) / (samples - 1), rel=0.02)
    assert (found > 1) == (scale < 1)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_weights_before_a_batch_norm_divide_the_gradient(factor):
    """Equation (5): with a times the weights the gradient is divided by a, its variance by a²."""
    values = []
    for scale in (1.0, factor):
        model = randomize(nn.Sequential(nn.Flatten(), nn.Linear(192, 30, bias=False), nn.BatchNorm1d(30, eps=1e-12)))
        with torch.no_grad():
            model[1].weight.mul_(scale)
        found = measure(model, replace(IMAGES, outputs=30), batch_size=64)
        values.append((found["per_layer"].values["2"], found["input_variance"].values["2"]))
    (ratio, variance), (other, larger) = values
    assert other == pytest.approx(ratio / factor**2, rel=1e-9)
    assert larger == pytest.approx(variance * factor**2, rel=1e-12)


def test_the_gradient_is_that_through_the_batch_norm_alone():
    class Residual(nn.Module):
        """A skip beside a BatchNorm, and an activation that writes into its output."""

        def __init__(self, skip):
            super().__init__()
            self.skip = skip
            self.norm = nn.BatchNorm1d(40)

        def forward(self, x):
            return self.skip * x + torch.relu_(self.norm(2 * x))

    weights = torch.randn(16, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    context = replace(VECTORS, loss_fn=linear_loss(weights))
    found = [measure(Residual(skip).double(), context, batch_size=16)["per_layer"].values for skip in (0.0, 100.0)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    x = 2 * next(VECTORS.batches("random", 16, 1))[0].double()
    y = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    assert found[0] == {"norm": pytest.approx(expected(x, y, weights * (y > 0), torch.ones(40), 1e-5), rel=1e-12)}


def test_in_the_order_in_which_they_run_and_none_without_batch_norm():
    model = small("wrn", norm="batch", activation="relu")
    found = measure(model, IMAGES, batch_size=4, batches=2)
    names = [name for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)]
    assert list(found["per_layer"].values) == names == list(found["input_variance"].values)
    assert all(value > 0 for value in found["per_layer"].values.values())
    assert measure(small("wrn", activation="relu"), IMAGES)["per_layer"].values == {}


def test_an_activation_within_the_batch_norms_module_is_none_of_it():
    """As of timm's BatchNormAct2d, which ends with a ReLU."""
    fused = nn.Sequential(nn.Conv2d(3, 4, 3), _NormAct(4), nn.Flatten(), nn.Linear(4 * 36, 10)).double()
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    plain = plain.double()
    for ours, other in zip(plain.parameters(), fused.parameters(), strict=True):
        ours.data.copy_(other.data)
    [first], [second] = (measure(m, IMAGES, batch_size=8)["per_layer"].values.values() for m in (fused, plain))
    assert first == pytest.approx(second, rel=1e-12)


class _NormAct(nn.BatchNorm2d):
    def forward(self, x):
        return torch.relu_(super().forward(x))
