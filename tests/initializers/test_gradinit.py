"""GradInit: what it promises of bad starts, and what each of its arguments does."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from functools import partial

import pytest
import timm
import torch
from cases import small
from gradinit_cases import half_batches, joined, net
from recorded import left
from ruamel.yaml import YAML
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.registry import INITIALIZERS


def poisoned(at):
    """Half-batches with a mark on those from one number on, and cross-entropy that is infinite where it sees it."""
    mark = 1000

    def draw():
        for index, (inputs, targets) in enumerate(half_batches()):
            yield inputs, targets + mark * (index >= at)

    def loss_fn(outputs, targets):
        value = cross_entropy(outputs, targets % mark)
        return value * math.inf if targets.max() >= mark else value

    return {"batches": draw(), "loss_fn": loss_fn}


def test_the_second_order_term_makes_a_difference():
    scales = []
    for second_order in (False, True):
        record = initialize(
            net("none", 2.0),
            "gradinit",
            base=None,
            iterations=10,
            gamma=1e6,
            tau=0.05,
            second_order=second_order,
            batches=half_batches(),
        )
        scales.append(torch.tensor(list(record.conditions["scales"].values())))
    assert (scales[0] - scales[1]).abs().max() > 1e-4


@pytest.mark.parametrize(("overlap", "drawn"), [(0, 4), (0.5, 3), (1, 2)])
def test_how_many_half_batches_an_iteration_draws(overlap, drawn):
    sizes = []

    def counted():
        for data in half_batches():
            sizes.append(len(data[1]))
            yield data

    initialize(net("none", 1.0), "gradinit", base=None, iterations=5, gamma=1e6, overlap=overlap, batches=counted())
    assert len(sizes) == 5 * drawn
    sizes.clear()
    initialize(net("none", 1.0), "gradinit", base=None, iterations=5, gamma=1e-9, overlap=overlap, batches=counted())
    assert len(sizes) == 5 * 2


@pytest.mark.parametrize(("overlap", "shared"), [(0, 0), (0.5, 6), (1, 12)])
def test_how_much_of_the_second_batch_is_in_the_first(overlap, shared):
    """Half in the authors' code, which is the r = |S̃ ∩ S| / |S| of appendix B; both have two half-batches of 6."""
    seen = []
    model = net("none", 1.0)
    model.register_forward_pre_hook(lambda _, inputs: seen.append({tuple(x.flatten().tolist()) for x in inputs[0]}))
    initialize(model, "gradinit", base=None, iterations=2, gamma=1e6, overlap=overlap, batches=half_batches())
    assert [len(s) for s in seen] == [12] * 4
    assert [len(first & second) for first, second in (seen[:2], seen[2:])] == [shared] * 2


@pytest.mark.parametrize("floor", [0.01, 0.3])
def test_scales_stop_at_their_floor(floor):
    """Appendix A.1 has .01; that of a bias is 0 in the authors' code."""
    record = initialize(
        net("none", 2.0), "gradinit", base=None, iterations=1, gamma=1e-3, tau=2.0, floor=floor, batches=half_batches()
    )
    # The first step of Adam is τ · sign: from 1 to −1, which is below every floor, or to 3.
    ends = {name: round(scale, 6) for name, scale in record.conditions["scales"].items()}
    assert {scale for name, scale in ends.items() if name.endswith("weight")} <= {floor, 3.0}
    assert {scale for name, scale in ends.items() if name.endswith("bias")} <= {0.0, 3.0}
    assert {floor, 0.0} <= set(ends.values())


def test_the_ceiling_is_that_of_weights_of_norms():
    """`max_scale` in the authors' code. The first step of Adam is τ · sign: from 1 to 3, as −‖Wx‖² pulls all up."""
    model = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3, bias=False)).double()
    record = initialize(
        model,
        "gradinit",
        iterations=1,
        gamma="inf",
        eta=1e-6,
        tau=2.0,
        norm_ceiling=2.5,
        batches=half_batches((2, 3)),
        loss_fn=lambda outputs, _: -outputs.square().sum(),
    )
    assert record.conditions["scales"] == pytest.approx({"0.weight": 2.5, "1.weight": 3.0}, rel=1e-6)


def test_a_scale_of_0_stays_there():
    """The authors' `RescaleAdam` passes over tensors of norm 0; a derivative would bring the scale back to 3."""

    def draw():
        for index, (inputs, targets) in enumerate(half_batches()):
            yield inputs * (-1) ** (index // 2), targets

    model = net("none", 2.0)
    record = initialize(model, "gradinit", base=None, iterations=1, gamma=1e-3, tau=2.0, batches=draw())
    gone = [name for name, scale in record.conditions["scales"].items() if scale == 0]
    assert gone
    for iterations in range(2, 7):
        model = net("none", 2.0)
        record = initialize(model, "gradinit", base=None, iterations=iterations, gamma=1e-3, tau=2.0, batches=draw())
        assert all(record.conditions["scales"][name] == 0 for name in gone)
        assert all(model.get_parameter(name).eq(0).all() for name in gone)


@pytest.mark.parametrize("gamma", [math.inf, "inf"])
def test_without_a_bound_the_loss_is_descended_always(gamma):
    """As the authors' `gnorm > gamma` is never true."""
    options = {"base": None, "iterations": 4, "tau": 0.05}
    bounded, unbounded = (net("none", 40.0) for _ in range(2))
    record = initialize(bounded, "gradinit", gamma=1e30, batches=half_batches(), **options)
    other = initialize(unbounded, "gradinit", gamma=gamma, batches=half_batches(), **options)
    assert other.conditions["constrained_steps"] == 0
    assert other.conditions["scales"] == pytest.approx(record.conditions["scales"], rel=1e-9)
    assert other.arguments["gamma"] == "inf"
    json.dumps(other.to_json(), allow_nan=False)


def test_a_suite_writes_no_bound_as_an_infinity():
    """Specs and records are JSON, which has none."""
    component = INITIALIZERS.get("gradinit")
    spec = component.spec(component.resolve({"gamma": YAML(typ="safe").load(".inf")}))
    assert json.loads(json.dumps(spec, allow_nan=False))["arguments"]["gamma"] == "inf"
    assert component.spec(component.resolve(spec["arguments"])) == spec
    with pytest.raises(ArgumentError):
        component.resolve({"tau": math.inf})


class Biased(nn.Module):
    """A layer whose bias in eval mode is looked up in a table once, as timm's LeViT keeps its attention biases."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.linspace(0.5, 2.0, 4, dtype=torch.float64))
        self.register_buffer("order", torch.tensor([3, 1, 0, 2, 2, 1]))
        self.norm = nn.BatchNorm1d(6).double()
        self.kept = {}

    def train(self, mode=True):
        super().train(mode)
        self.kept = {} if mode else self.kept
        return self

    def forward(self, x):
        if self.training:
            return self.norm(x + self.table[self.order])
        if "bias" not in self.kept:
            self.kept["bias"] = self.table[self.order]
        return self.norm((x + self.kept["bias"]).tanh())


@pytest.mark.parametrize("gamma", [1e-3, math.inf])
def test_what_a_module_keeps_of_its_parameters_is_computed_anew(gamma):
    """Else the second iteration sees the first one's biases, and differentiates through its graph."""

    def network(forgetting):
        torch.manual_seed(0)
        biased = Biased()
        if forgetting:
            biased.kept = type("Nothing", (dict,), {"__contains__": lambda *_: False})()
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 6).double(), biased, nn.Linear(6, 10).double())

    scales = []
    for forgetting in (False, True):
        model = network(forgetting).eval()
        model(torch.zeros(2, 192).double())
        record = initialize(
            model, "gradinit", base=None, iterations=5, gamma=gamma, tau=0.05, eta=0.5, batches=half_batches()
        )
        assert not any(module.training for module in model.modules())
        scales.append(record.conditions["scales"])
        if not forgetting:
            assert not model[2].kept
    assert scales[0] == pytest.approx(scales[1], rel=1e-12)
    assert scales[0]["2.table"] != 1


@pytest.mark.slow
def test_levit():
    """Its attention biases, 0 at first, are kept in eval mode: autograd ended with a message of its own."""
    model = timm.create_model("levit_128s", num_classes=10)
    record = initialize(model, "gradinit", iterations=2, data="random", input_shape=(1, 3, 224, 224), num_classes=10)
    assert len(record.history) == 2
    assert not any(module.attention_bias_cache for module in model.modules() if hasattr(module, "attention_bias_cache"))


def rectified(norm):
    """Six convolutions of 8 channels with ReLUs."""
    layers, channels = [], 3
    for _ in range(6):
        layers += [nn.Conv2d(channels, 8, 3, padding=1, bias=norm == "none")]
        layers += [nn.BatchNorm2d(8), nn.ReLU()] if norm == "batch" else [nn.ReLU()]
        channels = 8
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def losses_after_one_step(model, eta):
    """The losses on A ∪ C after a step of length η along −g of A ∪ B, for 16 triples that nothing was tuned on."""
    losses = []
    draw = half_batches((16, 3, 8, 8), seed=99)
    for _ in range(16):
        a, b, c = (tuple(t.float() if t.is_floating_point() else t for t in next(draw)) for _ in range(3))
        inputs, targets = joined(a, b)
        g = torch.autograd.grad(cross_entropy(model(inputs), targets), list(model.parameters()))
        length = torch.cat([part.flatten() for part in g]).norm()
        after = {n: p - eta * part / length for (n, p), part in zip(model.named_parameters(), g, strict=True)}
        inputs, targets = joined(a, c)
        losses.append(cross_entropy(functional_call(model, after, (inputs,)), targets).item())
    return torch.tensor(losses)


@pytest.mark.parametrize(("norm", "factor"), [("none", 1.8), ("batch", 1.0)])
def test_one_step_of_training_leads_to_a_lower_loss_than_from_the_start(norm, factor):
    """What it is for. The authors' code takes 8 such layers, Kaiming's weights times 1.8, from 16.4 to 2.29."""
    model = rectified(norm)
    initialize(model, "kaiming", gain=factor * math.sqrt(2))
    before = losses_after_one_step(model, 0.1)
    record = initialize(
        model, "gradinit", base=None, iterations=60, tau=0.05, eta=0.1, batches=half_batches((16, 3, 8, 8))
    )
    assert (record.history[0]["gradient_norm"] >= 50) == (factor > 1)
    assert sorted(step["gradient_norm"] for step in record.history[-20:])[10] <= 1.1
    after = losses_after_one_step(model, 0.1)
    # Three standard errors of the difference, and below the loss of the uniform prediction.
    assert after.mean() + 3 * (after - before).std() / 4 < before.mean()
    assert after.mean() < math.log(10)
    scales = record.conditions["scales"]
    assert min(scale for name, scale in scales.items() if name.endswith("weight")) >= 0.01 - 1e-9
    assert all(p.eq(0).all() for name, p in model.named_parameters() if name.endswith("bias"))
    assert not [name for name in scales if name.endswith("bias")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_gradient_50_times_too_large_comes_down_to_gamma(seed):
    """Kaiming's weights times 2.8, whose gradient explodes; in float32, as networks are trained."""
    model = small("plain", activation="relu")
    initialize(model, "kaiming", gain=4.0, seed=seed)
    draw = partial(half_batches, (32, 3, 8, 8), seed, torch.float32)
    first = initialize(model, "gradinit", base=None, iterations=1, batches=draw()).history[0]
    assert first["gradient_norm"] >= 50
    initialize(model, "kaiming", gain=4.0, seed=seed)
    nn.init.zeros_(model.classifier.bias)
    record = initialize(model, "gradinit", base=None, iterations=390, batches=draw())
    # γ is reached from above and crossed again and again; its noise from batch to batch is some percent.
    last = [step["gradient_norm"] for step in record.history[-20:]]
    assert sorted(last)[10] <= 1.1
    scales = record.conditions["scales"]
    assert min(scale for name, scale in scales.items() if not name.endswith("bias")) >= 0.01
    assert model.classifier.bias.eq(0).all()
    assert record.tensors["classifier.bias"] == [left("zero")]


def test_the_statistics_of_batch_norm_are_untouched():
    model = net("batch", 1.0)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.train()
    initialize(model, "gradinit", iterations=3, batches=half_batches())
    assert all(module.training for module in model.modules())
    assert before
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name


def test_a_step_of_sgd_has_the_length_eta_and_one_of_adam_eta_everywhere():
    """Seen through a loss that is linear in the parameters: L(θ − η A) = L(θ) − η ⟨g, A⟩."""
    model = nn.Linear(3, 1, bias=False).double()
    nn.init.constant_(model.weight, 1.0)
    data = (torch.tensor([[3.0, 0.0, -4.0]]).double(), torch.zeros(1))
    for optimizer, decrease in (("sgd", 5.0), ("adam", 7.0)):
        record = initialize(
            model,
            "gradinit",
            base=None,
            iterations=1,
            gamma=1e6,
            eta=0.25,
            optimizer=optimizer,
            batches=itertools.repeat(data),
            loss_fn=lambda outputs, _: outputs.mean(),
        )
        # L = −1; g = (3, 0, −4) has the length 5 and the L1 norm 7.
        assert record.history[0]["objective"] == pytest.approx((-1 - 0.25 * decrease) / 0.25, rel=1e-12)
        nn.init.constant_(model.weight, 1.0)


def test_the_recipe_gives_optimizer_and_eta():
    for given, expected in ((("sgd", 0.3), "sgd"), (("adam", 0.01), "adam"), (("signsgd", 0.02), "adam")):
        record = initialize(
            net("none", 1.0), "gradinit", iterations=1, batches=half_batches(), training_optimizer=given
        )
        assert (record.conditions["optimizer"], record.conditions["eta"]) == (expected, given[1])
        assert record.conditions["gamma"] == {"sgd": 1.0, "adam": 1000.0}[expected]


@pytest.mark.parametrize("finite", [True, False])
def test_the_declared_cost_is_what_is_counted(finite, monkeypatch):
    """Also where the last iteration was stopped."""
    passes = {"forward": 0, "backward": 0}
    model = net("none", 2.0)
    model.register_forward_hook(lambda *_: passes.__setitem__("forward", passes["forward"] + 1))
    grad_of = torch.autograd.grad

    def counted(*arguments, **options):
        passes["backward"] += 1
        return grad_of(*arguments, **options)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    data = {"batches": half_batches()} if finite else poisoned(at=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not finite else "error")
        record = initialize(model, "gradinit", base=None, iterations=20, gamma=0.55, tau=0.05, **data)
    assert 0 < record.conditions["constrained_steps"] < 20
    assert (record.conditions["stopped_at_step"] is None) == finite
    assert record.cost == passes


def test_a_loss_that_blows_up_leaves_the_last_finite_scales():
    model = net("none", 1.0)
    with pytest.warns(UserWarning, match="gradinit stopped at step 3, where"):
        record = initialize(model, "gradinit", iterations=10, gamma=1e6, **poisoned(at=9))
    assert len(record.history) == 3
    assert record.conditions["stopped_at_step"] == 3
    # The third step led to where the loss is not finite: what the first two gave is left.
    reference = net("none", 1.0)
    initialize(reference, "gradinit", iterations=2, gamma=1e6, batches=half_batches())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), reference.parameters(), strict=True))


def test_derivatives_that_are_not_finite_are_refused_at_the_base():
    """The loss is |w|^1.5, whose second derivative at 0 is infinite while loss and gradient are finite."""

    class Root(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.0, 1.0], dtype=torch.float64))

        def forward(self, _):
            return self.weight

    model = Root()
    with pytest.raises(InitializationError, match="a derivative of it is not finite at the base"):
        initialize(
            model,
            "gradinit",
            base=None,
            gamma=1e-3,
            batches=itertools.repeat((torch.zeros(2, 2).double(), torch.zeros(2))),
            loss_fn=lambda outputs, _: outputs.abs().pow(1.5).sum() + outputs[0],
        )
    assert model.weight.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("loss_fn", [lambda outputs, _: 0 * outputs.sum(), lambda *_: torch.zeros(())])
def test_a_gradient_of_zero_is_refused(loss_fn):
    with pytest.raises(InitializationError, match="gradinit: the gradient of the loss is zero at step 0"):
        initialize(net("none", 1.0), "gradinit", base=None, batches=half_batches(), loss_fn=loss_fn)


@pytest.mark.parametrize(
    "arguments",
    [
        {"iterations": 0},
        {"tau": 0.0},
        {"eta": -1.0},
        {"floor": -0.1},
        {"gamma": 0.0},
        {"clip": -1.0},
        {"betas": (0.9,)},
        {"betas": (0.9, 1.0)},
        {"betas": (-0.1, 0.9)},
        {"norm_ceiling": 0.5},
        {"second_moment": "mine"},
        {"overlap": 0.3},
    ],
)
def test_what_it_refuses(arguments):
    with pytest.raises(ArgumentError) as caught:
        initialize(net("none", 1.0), "gradinit", batches=half_batches(), **arguments)
    assert [caught.value.argument] == list(arguments)


def test_models_that_it_refuses_are_left_as_they_were():
    model = net("none", 1.0)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    with pytest.raises(InitializationError, match="every trainable parameter is zero"):
        initialize(model, "gradinit", base=None, batches=half_batches())
    assert all(parameter.eq(0).all() for parameter in model.parameters())
    model = net("none", 1.0)
    nn.init.constant_(model[3].weight, math.inf)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(InitializationError, match=r"gradinit: 3\.weight is not finite"):
        initialize(model, "gradinit", base=None, batches=half_batches())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
