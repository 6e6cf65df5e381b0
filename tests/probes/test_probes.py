"""The probes: what they measure, on which batches, and that they leave everything as it was."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
import torch
from cases import assert_same_state, batch, randomize, small, state
from torch import nn
from torch.nn.functional import cross_entropy

from initbench.errors import ArgumentError, DataError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.probes.context import ProbeContext, median
from initbench.probes.gradient_quotient import gradient_quotient
from initbench.probes.measurement import entries
from initbench.registry import PROBES


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


IMAGES = ProbeContext(seed=3, inputs=Inputs((3, 8, 8)), outputs=10, optimizer=sgd)


def measure(probe, model, context=IMAGES, **arguments):
    """The scalar that a probe measures."""
    measured = measure_all(probe, model, context, **arguments)
    return measured[""] if isinstance(measured, dict) else measured


def measure_all(probe, model, context=IMAGES, **arguments):
    return PROBES.get(probe).build(arguments)(model, context)


def real(batch_size, generator):
    """Endless batches of recognizable data: inputs above 100."""
    while True:
        yield 100 + torch.rand(batch_size, 3, 8, 8, generator=generator), torch.zeros(batch_size, dtype=torch.int64)


def test_random_batches_are_noise_and_the_same_at_every_call():
    first, second = (list(IMAGES.batches("random", 500, 2)) for _ in range(2))
    for (x, y), (other_x, other_y) in zip(first, second, strict=True):
        assert torch.equal(x, other_x)
        assert torch.equal(y, other_y)
    x, y = first[0]
    assert x.shape == (500, 3, 8, 8)
    assert not torch.equal(x, first[1][0])
    # 96,000 entries: four standard errors of mean and deviation.
    assert abs(x.mean()) < 4 / math.sqrt(x.numel())
    assert abs(x.std() - 1) < 4 / math.sqrt(2 * x.numel())
    assert y.unique().tolist() == list(range(10))
    other_seed = next(replace(IMAGES, seed=4).batches("random", 500, 1))[0]
    assert not torch.equal(x, other_seed)


def test_real_batches_come_from_the_data_in_an_order_of_their_own():
    context = replace(IMAGES, real_batches=real)
    first, second = (next(context.batches("real", 4, 1))[0] for _ in range(2))
    assert torch.equal(first, second)
    assert first.min() > 100
    with pytest.raises(DataError):
        next(IMAGES.batches("real", 4, 1))
    short = replace(IMAGES, real_batches=lambda size, _: iter([batch((size, 3, 8, 8))]))
    with pytest.raises(DataError, match="the data has only 1"):
        list(short.batches("real", 4, 2))


def test_gradient_quotient_is_the_median_over_the_batches_in_eval_mode():
    model = small("wrn", norm="batch", activation="relu").double()
    initialize(model, "kaiming")
    result = measure("gradient_quotient", model, batch_size=4, batches=4, eps=1e-4)
    model.eval()
    singles = [gradient_quotient(model, x.double(), y, eps=1e-4).item() for x, y in IMAGES.batches("random", 4, 4)]
    assert result.conditions["per_batch"] == pytest.approx(singles, rel=1e-12)
    assert result.value == pytest.approx(statistics.median(singles), rel=1e-12)
    expected = {"data": "random", "batch_size": 4, "batches": 4, "eps": 1e-4, "mode": "eval", "saturated": False}
    assert expected.items() <= result.conditions.items()
    in_train_mode = measure("gradient_quotient", model, batch_size=4, batches=4, eps=1e-4, mode="train")
    assert in_train_mode.value != pytest.approx(result.value, rel=0.01)


def test_the_vanished_plain_net_is_saturated_at_one_and_the_residual_net_is_not():
    """Table 1 of the MetaInit paper: DeltaOrthogonal on the plain net of depth 28 has GQ 1.00."""
    values = {}
    for name in ("plain", "wrn"):
        model = small(name, depth=28, activation="beta_swish")
        initialize(model, "delta_orthogonal")
        values[name] = measure("gradient_quotient", model, batches=2)
    assert values["plain"].value == pytest.approx(1.0, abs=0.005)
    assert values["plain"].conditions["saturated"] is True
    assert values["plain"].conditions["fraction_below_epsilon"] > 0.999
    assert values["plain"].conditions["epsilon_floor"] == pytest.approx(1.0, abs=0.005)
    assert values["wrn"].value < 0.6
    assert values["wrn"].conditions["saturated"] is False


def test_zero_gradients_beside_a_large_curvature_are_not_saturation():
    # Two entries of three have no gradient; the third has GQ = a = 300: the value tells of curvature.
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.tensor([1.0, 0.0, 0.0]))

        def forward(self, _):
            return self.theta

    context = ProbeContext(0, Inputs((1,)), 2, loss_fn=lambda theta, _: 150 * theta.square().sum())
    result = measure("gradient_quotient", Model(), context, batches=1)
    assert result.value == pytest.approx((300 + 1 + 1) / 3, rel=1e-5)
    assert result.conditions["fraction_below_epsilon"] == pytest.approx(2 / 3)
    assert result.conditions["saturated"] is False


def test_gradient_norm_of_softmax_regression():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10)).double()
    randomize(model, 0.1)
    measured = measure_all("gradient_norm", model, batch_size=16, batches=3)
    result = measured[""]
    norms, weights, biases = [], [], []
    for x, y in IMAGES.batches("random", 16, 3):
        flat = x.double().flatten(1)
        # dL/dlogits = (softmax − onehot) / batch for the mean cross-entropy.
        delta = (torch.softmax(model(x.double()), 1) - torch.eye(10, dtype=torch.float64)[y]) / 16
        weights.append((delta.T @ flat).norm().item())
        biases.append(delta.sum(0).norm().item())
        norms.append(math.hypot(weights[-1], biases[-1]))
    assert result.value == pytest.approx(statistics.median(norms), rel=1e-12)
    expected = {"1.weight": statistics.median(weights), "1.bias": statistics.median(biases)}
    assert measured["per_layer"].values == pytest.approx(expected, rel=1e-12)
    assert measured["per_layer"].conditions == {"data": "random", "batch_size": 16, "batches": 3, "mode": "eval"}


def test_gradient_norm_counts_unused_parameters_as_zero_and_leaves_frozen_ones_out():
    model = randomize(nn.Sequential(nn.Flatten(), nn.Linear(192, 10)), 0.1)
    plain = measure("gradient_norm", model, batches=1).value
    model.unused = nn.Module()
    model.unused.extra = nn.Parameter(torch.ones(2, dtype=torch.float64))
    model.forward = lambda x: model[1](model[0](x))
    result = measure_all("gradient_norm", model, batches=1)
    assert result[""].value == pytest.approx(plain, rel=1e-14)
    assert result["per_layer"].values["unused.extra"] == 0.0
    model[1].weight.requires_grad_(False)
    result = measure_all("gradient_norm", model, batches=1)
    assert set(result["per_layer"].values) == {"1.bias", "unused.extra"}
    assert result[""].value == pytest.approx(result["per_layer"].values["1.bias"], rel=1e-14)


def test_initial_loss_is_the_mean_and_log_of_the_classes_for_a_zero_classifier():
    context = replace(IMAGES, real_batches=real)
    model = small("plain").double()
    with pytest.raises(DataError):
        measure("initial_loss", model)  # real data is the default
    losses = [cross_entropy(model(x.double()), y).item() for x, y in context.batches("real", 4, 3)]
    result = measure("initial_loss", model, context, batch_size=4, batches=3)
    assert result.value == pytest.approx(statistics.fmean(losses), rel=1e-12)
    nn.init.zeros_(model.classifier.weight)
    nn.init.zeros_(model.classifier.bias)
    result = measure("initial_loss", model, data="random")
    assert result.value == pytest.approx(math.log(10), rel=1e-14)
    assert result.conditions["log_num_classes"] == math.log(10)


def test_parameter_norm_is_global_and_per_parameter():
    model = nn.Sequential(nn.Linear(2, 2), nn.PReLU())
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
        model[0].bias.copy_(torch.tensor([0.0, -12.0]))
        model[1].weight.fill_(0.0)
    result = measure_all("parameter_norm", model)
    assert result["per_layer"].values == {"0.weight": 5.0, "0.bias": 12.0, "1.weight": 0.0}
    assert result[""].value == 13.0


@pytest.mark.parametrize("probe", sorted(PROBES.builtins))
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_probe_leaves_everything_as_it_was_and_uses_no_global_random_state(probe, mode):
    model = small("wrn", norm="batch", activation="relu", dropout=0.3)
    model.groups[0].eval()
    model.stem.weight.requires_grad_(False)
    model.classifier.weight.grad = torch.full_like(model.classifier.weight, 7.0)
    offered = {argument.name for argument in PROBES.get(probe).arguments}
    wanted = {"batch_size": 4, "batches": 2, "mode": mode, "data": "random", "eigenvalues": 2, "lanczos_steps": 2}
    arguments = {name: value for name, value in wanted.items() if name in offered}
    values = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = state(model)
        values.append(entries(probe, measure_all(probe, model, **arguments)))  # in which missing numbers are equal
        assert_same_state(before, state(model))
    assert values[0] == values[1]


def test_a_probe_that_fails_leaves_the_model_as_it_was():
    model = small("wrn", norm="batch", activation="relu")
    before = state(model)
    context = replace(IMAGES, loss_fn=lambda output, _: output)
    with pytest.raises(ArgumentError) as caught:
        measure("gradient_norm", model, context, mode="train")
    assert caught.value.argument == "loss_fn"
    assert_same_state(before, state(model))


def test_a_model_without_parameters_is_an_error():
    with pytest.raises(InitializationError):
        measure("parameter_norm", nn.Flatten())


@pytest.mark.parametrize(
    ("probe", "arguments"),
    [
        ("gradient_quotient", {"eps": 0.0}),
        ("gradient_quotient", {"batches": 0}),
        ("gradient_norm", {"batch_size": -1}),
        ("initial_loss", {"batches": 0}),
    ],
)
def test_what_probes_refuse(probe, arguments):
    with pytest.raises(ArgumentError) as caught:
        PROBES.get(probe).build(arguments)
    assert [caught.value.argument] == list(arguments)


def test_too_few_outputs_are_refused_before_a_gpu_dies_of_them():
    model = small("plain")
    with pytest.raises(InitializationError, match="10 outputs"):
        measure("initial_loss", model, replace(IMAGES, outputs=11), data="random", batches=1)


def test_a_nan_is_the_worst_outcome_of_a_median():
    assert median([1.0, math.nan, 3.0]) == 3.0
    assert median([1.0, math.nan, math.nan]) == math.inf
