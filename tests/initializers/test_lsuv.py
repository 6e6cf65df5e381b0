"""LSUV against an oracle written from its definition, one full pass per correction, and against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from cases import Attention, batch, small
from recorded import FROZEN, UNTOUCHED, left, scaled
from torch import nn

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize

LAYERS = (nn.Conv2d, nn.Linear)


def deviations(model, inputs):
    """Return the standard deviation of each layer's outputs, in the order in which they run."""
    found = {}
    hooks = [
        module.register_forward_hook(lambda _, __, out, name=name: found.update({name: out.std(correction=0).item()}))
        for name, module in model.named_modules()
        if isinstance(module, LAYERS)
    ]
    with torch.no_grad():
        model(inputs)
    for hook in hooks:
        hook.remove()
    return found


def oracle(model, inputs, attempts=500):
    """The paper's loop: for each layer in turn, divide the weight by the deviation until that is 1."""
    modules = dict(model.named_modules())
    for name in deviations(model, inputs):
        for _ in range(attempts):
            deviation = deviations(model, inputs)[name]
            if abs(deviation - 1) < 1e-12:
                break
            with torch.no_grad():
                modules[name].weight.div_(deviation)


def vgg_like(bias=True):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=bias),
        nn.ReLU(),
        nn.Conv2d(8, 12, 3, padding=1, bias=bias),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 16, 3, stride=2, bias=bias),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(16, 24, bias=bias),
        nn.ReLU(),
        nn.Linear(24, 10, bias=bias),
    )


def biased(model, std):
    for index, module in enumerate(model.modules()):
        if isinstance(module, LAYERS) and module.bias is not None:
            nn.init.normal_(module.bias, std=std, generator=torch.Generator().manual_seed(index))
    return model


@pytest.mark.parametrize("spread", [0.0, 0.3, 0.7])
@pytest.mark.parametrize(
    "make",
    [lambda: small("plain"), lambda: small("wrn"), lambda: small("wrn", norm="batch"), vgg_like],
    ids=["plain", "wrn", "wrn-batch", "vgg"],
)
def test_it_equals_the_oracle(make, spread):
    inputs, targets = batch((16, 3, 8, 8))
    models = []
    for _ in range(2):
        model = make().double().eval()
        initialize(model, "kaiming", gain=2.0)
        models.append(biased(model, spread))
    oracle(models[0], inputs)
    initialize(models[1], "lsuv", base=None, batches=[(inputs, targets)])
    for (name, expected), got in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        # 1e-6: the oracle stops at 1e-12 from 1, and each layer's error is an input of the next.
        assert torch.allclose(got, expected, rtol=1e-6, atol=1e-9), name
    assert deviations(models[1], inputs) == pytest.approx(dict.fromkeys(deviations(models[1], inputs), 1.0), abs=1e-9)


def test_the_first_layer_is_included_whatever_the_inputs_are():
    """LSUV-pytorch leaves it at the inputs' scale."""
    inputs = 2.5 * batch((64, 5))[0]
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()
    initialize(model, "lsuv", batches=[(inputs, torch.zeros(64))])
    assert deviations(model, inputs) == pytest.approx({"0": 1.0, "2": 1.0}, abs=1e-12)


def test_the_larger_root_by_hand():
    """y = s·w·x with a bias that goes against it: Var = s² − 2·(3/4)·s + (3/4)² + rest."""
    model = nn.Linear(1, 2).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        model.bias.copy_(torch.tensor([-1.5, 1.5]))
    inputs = torch.full((4, 1), 1.0, dtype=torch.float64)
    # Outputs ±(s − 1.5), of standard deviation |s − 1.5|: 1 at s = 2.5 and at s = 0.5.
    record = initialize(model, "lsuv", base=None, batches=[(inputs, torch.zeros(4))])
    assert model.weight.flatten().tolist() == pytest.approx([2.5, -2.5], rel=1e-12)
    assert record.tensors["weight"] == [scaled(pytest.approx(2.5, rel=1e-12))]


@pytest.mark.parametrize("bias", [True, False])
def test_another_deviation_and_no_mean(bias):
    inputs, targets = batch((32, 3, 8, 8))
    model = biased(vgg_like(bias), 0.3).double()
    initialize(model, "lsuv", base=None, std=0.5, remove_mean=True, batches=[(inputs, targets)])
    assert deviations(model, inputs) == pytest.approx(dict.fromkeys(deviations(model, inputs), 0.5), abs=1e-9)
    means = []
    for module in model.modules():
        if isinstance(module, LAYERS):
            module.register_forward_hook(lambda _, __, out: means.append(out.mean().item()))
    model(inputs)
    assert (max(map(abs, means)) < 1e-9) == bias


class LinearOfItsOwn(nn.Linear):
    """A linear layer with a forward pass of its own, as many libraries have."""

    def forward(self, inputs):
        return nn.functional.linear(inputs, self.weight, self.bias)


def test_no_mean_of_layers_with_a_forward_pass_of_their_own():
    models = []
    for kind in (nn.Linear, LinearOfItsOwn):
        torch.manual_seed(0)
        model = nn.Sequential(kind(8, 32), nn.ReLU(), kind(32, 32)).double()
        inputs = torch.randn(64, 8, dtype=torch.float64) + 1
        record = initialize(
            model, "lsuv", base=None, remove_mean=True, tolerance=1e-9, batches=[(inputs, torch.zeros(64))]
        )
        assert record.tensors["2.bias"][0]["event"] == "shifted"
        models.append(model)
    torch.testing.assert_close(*(list(model.parameters()) for model in models), rtol=0, atol=1e-9)


def test_a_layer_of_zeros_with_a_forward_pass_of_its_own_is_left_as_it_is():
    model = nn.Sequential(LinearOfItsOwn(8, 32), nn.Linear(32, 32)).double()
    nn.init.zeros_(model[0].weight)
    before = model[0].bias.clone()
    inputs = torch.randn(64, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning, match="the standard deviation is not within|passes over 1 of 2"):
        initialize(model, "lsuv", base=None, batches=[(inputs, torch.zeros(64))])
    assert not model[0].weight.any()
    assert torch.equal(model[0].bias, before)


def test_layers_run_in_another_order_than_they_are_listed():
    class Crossed(nn.Module):
        def __init__(self):
            super().__init__()
            self.second = nn.Linear(6, 4)
            self.first = nn.Linear(5, 6)

        def forward(self, x):
            return self.second(self.first(x).relu())

    inputs, targets = batch((64, 5))
    model = Crossed().double()
    record = initialize(model, "lsuv", batches=[(inputs, targets)])
    assert list(record.conditions["std_at_end"]) == ["first", "second"]
    assert deviations(model, inputs) == pytest.approx({"first": 1.0, "second": 1.0}, abs=1e-12)


def test_a_layer_that_runs_twice_is_scaled_once_and_said():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 5, bias=False)
            self.head = nn.Linear(5, 2)

        def forward(self, x):
            return self.head(self.layer(self.layer(x).relu()))

    inputs, targets = batch((64, 5))
    with pytest.warns(UserWarning, match="lsuv: layer: the standard deviation is not within 0.001 of 1 at the end"):
        record = initialize(Twice().double(), "lsuv", batches=[(inputs, targets)])
    assert record.tensors["layer.weight"][-1]["runs"] == 2
    first, second = record.conditions["std_at_end"]["layer"]
    assert first == pytest.approx(1.0, abs=1e-12)
    assert abs(second - 1) > 0.01
    assert record.conditions["std_at_end"]["head"] == pytest.approx([1.0], abs=1e-12)


def test_what_it_does_not_scale_it_names():
    inputs, targets = batch((16, 5, 4), classes=3)
    model = Attention().double()
    with pytest.warns(
        UserWarning, match=r"lsuv passes over 2 of 3 weights: attention\.in_proj_weight \(not scaled: it is passed"
    ):
        record = initialize(model, "lsuv", batches=[(inputs, targets)])
    assert list(record.coverage.passed_over) == ["attention.in_proj_weight", "attention.out_proj.weight"]
    assert record.tensors["attention.in_proj_weight"][-1] == left("not_called", layer="attention")
    assert record.tensors["attention.out_proj.weight"][-1] == left("not_called", layer="attention.out_proj")
    assert record.tensors["classifier.weight"][-1]["event"] == "scaled"
    model = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 2)).double()
    model[1].weight = model[0].weight
    model[2].weight.requires_grad_(requires_grad=False)
    inputs, targets = batch((64, 5), classes=2)
    frozen = model[2].weight.detach().clone()
    with pytest.warns(UserWarning, match="lsuv: 1: the standard deviation is not within"):
        record = initialize(model, "lsuv", std=3.0, batches=[(inputs, targets)])
    assert record.tensors["0.weight"][-1] == left("shared", layer="1")
    assert torch.equal(model[2].weight, frozen)
    assert record.tensors["2.weight"] == [FROZEN]


def test_a_layer_that_standardizes_its_weight_is_left_as_it_is_and_said():
    from timm.layers import Conv2dSame, ScaledStdConv2d

    model = nn.Sequential(ScaledStdConv2d(3, 6, 3), nn.ReLU(), Conv2dSame(6, 4, 3, stride=2)).double()
    inputs, targets = batch((16, 3, 9, 9))
    initialize(model, "kaiming")
    before = model[0].weight.detach().clone()
    with (
        pytest.warns(UserWarning, match="lsuv: 0: the standard deviation is not within"),
        pytest.warns(
            UserWarning, match=r"lsuv passes over 1 of 2 weights: 0\.weight \(not scaled: the outputs of 0 are"
        ),
    ):
        record = initialize(model, "lsuv", base=None, batches=[(inputs, targets)])
    assert torch.equal(model[0].weight, before)
    assert record.tensors["0.weight"] == [left("not_proportional", layer="0")]
    assert deviations(model, inputs)["2"] == pytest.approx(1.0, abs=1e-12)


class DividedLinear(nn.Linear):
    def forward(self, x, divisor=1.0):
        return super().forward(x) / divisor


class Divided(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = DividedLinear(5, 4, bias=False)

    def forward(self, x):
        return self.layer(x, divisor=8.0)


def test_a_layer_with_its_own_forward_pass_is_scaled_with_the_keyword_arguments_of_its_call():
    model, (inputs, targets) = Divided().double(), batch((64, 5))
    initialize(model, "lsuv", batches=[(inputs, targets)])
    assert model(inputs).std(correction=0).item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.filterwarnings("ignore:lsuv passes over 1 of 3 weights")
def test_the_shift_of_a_bias_is_recorded_where_there_is_one():
    from timm.layers import ScaledStdConv2d

    model = nn.Sequential(
        ScaledStdConv2d(3, 6, 3), nn.Flatten(), nn.Linear(54, 4), nn.Linear(4, 2, bias=False)
    ).double()
    initialize(model, "pytorch_default")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.warns(UserWarning, match="lsuv: 0: the standard deviation is not within"):
        record = initialize(model, "lsuv", base=None, remove_mean=True, batches=[batch((16, 3, 3, 3))])
    assert torch.equal(model[0].bias, before["0.bias"])
    assert record.tensors["0.bias"] == [UNTOUCHED]
    (event,) = record.tensors["2.bias"]
    assert event["event"] == "shifted"
    assert torch.allclose(model[2].bias, before["2.bias"] + event["by"], rtol=0, atol=1e-12)
    assert event["by"] != 0


def test_a_model_that_writes_into_its_inputs():
    inputs, targets = batch((16, 5))
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 4)).double()
    initialize(model, "lsuv", batches=[(inputs, targets)])
    assert (inputs < 0).any()
    assert deviations(model, inputs.clone()) == pytest.approx({"1": 1.0}, abs=1e-12)


def test_weight_normalization_is_scaled_by_its_gain():
    inputs, targets = batch((64, 5))
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 6)), nn.ReLU(), nn.Linear(6, 2)).double()
    direction = model[0].parametrizations.weight.original1.detach().clone()
    record = initialize(model, "lsuv", base=None, batches=[(inputs, targets)])
    assert deviations(model, inputs) == pytest.approx({"0": 1.0, "2": 1.0}, abs=1e-12)
    assert torch.equal(model[0].parametrizations.weight.original1, direction)
    assert record.tensors["0.parametrizations.weight.original0"][-1]["event"] == "scaled"
    assert record.tensors["0.parametrizations.weight.original1"] == [UNTOUCHED]


def zeroed(model):
    nn.init.zeros_(model[2].weight)
    return model


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (lambda: zeroed(vgg_like()), batch((4, 3, 8, 8))[0], r"lsuv: 2\.weight: the outputs do not depend on it"),
        (
            lambda: biased(vgg_like(), 9.0),
            batch((4, 3, 8, 8))[0],
            r"lsuv: 0\.weight: no scale gives outputs of standard deviation 1: the biases alone have",
        ),
        (vgg_like, batch((4, 3, 8, 8))[0] * math.nan, "lsuv: the batch is empty or has values that are not finite"),
        (lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192)), batch((4, 3, 8, 8))[0], "lsuv: no convolution"),
    ],
)
def test_where_there_is_no_scale_the_model_is_left_as_it_was(make, inputs, message):
    model = make().double()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(InitializationError, match=message):
        initialize(model, "lsuv", base=None, batches=[(inputs, torch.zeros(len(inputs)))])
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize(("name", "value"), [("std", 0.0), ("tolerance", -1.0)])
def test_what_it_refuses(name, value):
    with pytest.raises(ArgumentError) as caught:
        initialize(vgg_like(), "lsuv", batches=[batch((4, 3, 8, 8))], **{name: value})
    assert caught.value.argument == name


def test_a_hundred_layers_in_float32():
    layers = [m for _ in range(100) for m in (nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.ReLU())]
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *layers)
    inputs = batch((16, 3, 8, 8), dtype=torch.float32)[0]
    record = initialize(model, "lsuv", batches=[(inputs, torch.zeros(16))])
    assert record.cost == {"forward": 2, "backward": 0}
    reached = deviations(model, inputs)
    assert len(reached) == 101
    # 1e-5: some 100 roundings of float32 (6e-8) in a row.
    assert max(abs(value - 1) for value in reached.values()) < 1e-5


def test_a_weight_that_neither_the_base_nor_it_knows_is_passed_over():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.own = nn.Linear(5, 4), nn.Parameter(torch.ones(4, 3))

        def forward(self, x):
            return self.layer(x) @ self.own

    inputs, targets = batch((16, 5), classes=3)
    with pytest.warns(
        UserWarning, match=r"lsuv passes over 1 of 2 weights: own \(not scaled: it is no weight of a conv"
    ):
        record = initialize(Gated().double(), "lsuv", batches=[(inputs, targets)], inputs=inputs)
    assert (record.coverage.weights, record.coverage.set) == (2, 1)
