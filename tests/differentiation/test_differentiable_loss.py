"""A loss that can be differentiated three times, of models with everything that PyTorch differentiates less often."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cases import Attention, batch, randomize, small
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.parametrizations import weight_norm

import initbench
from initbench.architectures.blocks import LayerNorm, TanhGELU
from initbench.differentiation.gradients import functional, hessian_products, loss_gradients
from initbench.differentiation.loss import differentiable_loss
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.probes.gradient_quotient import gradient_quotient

IMAGES = (4, 3, 8, 8)


def normalized():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Softplus(), nn.Flatten(), nn.Linear(144, 10))


def by_swish():
    return small("wrn", norm="batch", activation="beta_swish")


def third_derivatives(loss, parameters):
    """Derivatives of ‖Hg‖², which are third ones of the loss."""
    products = hessian_products(loss_gradients(loss, parameters), parameters)
    return loss_gradients(sum(p.square().sum() for p in products if p is not None), parameters, create_graph=False)


def layer_normalized():
    return nn.Sequential(LayerNorm(4), nn.Linear(4, 6), TanhGELU(), LayerNorm(6), nn.Flatten(), nn.Linear(18, 10))


def of_pytorch():
    layers = [nn.LayerNorm(4), nn.Linear(4, 6), nn.Hardsigmoid(), nn.LayerNorm((3, 6)), nn.InstanceNorm1d(3)]
    return nn.Sequential(*layers, nn.Flatten(), weight_norm(nn.Linear(18, 10)))


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (normalized, IMAGES),
        (by_swish, IMAGES),
        (Attention, (4, 3, 4)),
        (layer_normalized, (4, 3, 4)),
        (of_pytorch, (4, 3, 4)),
    ],
)
def test_third_derivatives_are_those_of_central_differences(make, shape):
    model = randomize(make()).train()
    inputs, targets = batch(shape, 3)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(1)
    directions = [torch.randn(p.shape, dtype=torch.float64, generator=generator) for p in parameters]

    def loss():
        return differentiable_loss(model, inputs, targets, cross_entropy, batch_norm=True, third=True)

    def along(derivatives):
        return sum((d * v).sum() for d, v in zip(derivatives, directions, strict=True) if d is not None)

    def move(h):
        with torch.no_grad():
            torch._foreach_add_(parameters, directions, alpha=h)

    def squared_products(h):
        """‖Hg‖² at a distance along the directions."""
        move(h)
        products = hessian_products(loss_gradients(loss(), parameters), parameters, create_graph=False)
        move(-h)
        return sum(p.square().sum().item() for p in products if p is not None)

    h = 1e-5
    expected = (squared_products(h) - squared_products(-h)) / (2 * h)
    assert along(third_derivatives(loss(), parameters)).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("make", "shape"), [(normalized, IMAGES), (by_swish, IMAGES), (Attention, (4, 3, 4))])
@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_it_is_the_loss(make, shape, mode, batch_norm):
    model = randomize(make()).train(mode)
    inputs, targets = batch(shape, 3)
    with torch.no_grad():
        loss = differentiable_loss(model, inputs, targets, cross_entropy, batch_norm=batch_norm)
    assert loss.requires_grad
    torch.testing.assert_close(loss, cross_entropy(model(inputs), targets), rtol=1e-12, atol=0)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_running_statistics_change_where_batch_norm_is_that_of_pytorch(batch_norm):
    model = randomize(normalized()).train()
    differentiable_loss(model, *batch(IMAGES), cross_entropy, batch_norm=batch_norm)
    assert torch.equal(model[1].running_mean, torch.zeros(4)) == batch_norm


def test_batches_of_one_value_per_channel_have_no_statistics():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.BatchNorm1d(3))
    inputs, targets = batch((1, 3, 2, 2), 3, dtype=torch.float32)
    with pytest.raises(InitializationError, match="BatchNorm has no statistics of one value per channel"):
        differentiable_loss(model, inputs, targets, cross_entropy, batch_norm=True)


class InAnObject(nn.Module):
    """Gives the logits of another model as a field of an object, as the models of transformers do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return SimpleNamespace(logits=self.model(x), past_key_values=None)


def test_a_model_may_give_an_object_with_logits():
    model = randomize(normalized()).eval()
    data = batch(IMAGES)
    assert torch.equal(gradient_quotient(InAnObject(model), *data), gradient_quotient(model, *data))
    finite_difference = [gradient_quotient(m, *data, method="finite_difference") for m in (InAnObject(model), model)]
    assert torch.equal(*finite_difference)
    placed = functional(InAnObject(model))({})
    assert torch.equal(
        differentiable_loss(placed, *data, cross_entropy), differentiable_loss(model, *data, cross_entropy)
    )


@pytest.mark.parametrize(("name", "options"), [("metainit", {"steps": 2}), ("gradinit", {"iterations": 2})])
def test_tuners_take_a_model_that_gives_an_object_with_logits(name, options):
    plain, wrapped = normalized(), InAnObject(normalized())
    initialize(plain, "gaussian", std=0.1)
    wrapped.model.load_state_dict(plain.state_dict())
    for model in (plain, wrapped):
        batches = [batch(IMAGES, seed=seed, dtype=torch.float32) for seed in range(8)]
        initialize(model, name, base=None, batches=batches, **options)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), wrapped.parameters(), strict=True))


def test_no_other_part_of_the_library_switches_how_an_operation_is_computed():
    root = Path(initbench.__file__).parent
    found = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        for word in ("(TorchFunctionMode)", "sdpa_kernel(", "ContextVar(")
        if word in path.read_text(encoding="utf-8")
    }
    # The conformance kit, the recording of a run, the probe of branches and the inspection of a model watch operations,
    # and replace none.
    assert found - {"testing", "structure", "probes", "inspection"} == {"differentiation"}
