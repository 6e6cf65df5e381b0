"""GradInit against an oracle written from its definition, and what it promises of bad starts."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
from cases import Attention, batch, randomize, small
from torch import nn
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize

TINY = (6, 3, 8, 8)


def joined(*parts):
    return tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True))


def half_batches(shape=TINY, seed=1):
    for index in itertools.count():
        yield batch(shape, seed=1000 * seed + index)


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


def oracle(model, draw, iterations, *, tau, gamma, eta, optimizer="sgd", second_order=False, overlap=0.5, clip=1.0):
    """One number per tensor, its Adam written out, derivatives by torch.func; returns the history and the scales."""
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    scale = {name: torch.ones((), dtype=w.dtype) for name, w in start.items() if w.abs().max() > 0}
    moments = {name: {"gradient norm": [0.0, 0], "loss": [0.0, 0], "second": 0.0} for name in scale}
    history = []

    def weights(scale):
        return {name: w * scale[name] if name in scale else w for name, w in start.items()}

    def loss(values, data):
        return cross_entropy(functional_call(model, values, (data[0],)), data[1])

    def length(g):
        flat = torch.cat([v.flatten() for v in g.values()])
        return flat.square().sum().sqrt() if optimizer == "sgd" else flat.abs().sum()

    for _ in range(iterations):
        a, b = next(draw), next(draw)
        both = joined(a, b)

        def norm(scale, both=both):
            return length(grad(loss)(weights(scale), both))

        if norm(scale) > gamma:
            branch, objective = "gradient norm", norm
        else:
            other = both if overlap == 1 else joined(a if overlap else next(draw), next(draw))

            def objective(scale, both=both, other=other):
                values = weights(scale)
                g = grad(loss)(values, both)
                step = {n: v / length(g) if optimizer == "sgd" else v.sign() for n, v in g.items()}
                step = step if second_order else {n: v.detach() for n, v in step.items()}
                return loss({n: values[n] - eta * step[n] for n in values}, other) / eta

            branch = "loss"
        history.append((branch, objective(scale).item()))
        slope = grad(objective)(scale)
        for name, kept in moments.items():
            d = max(-clip, min(clip, slope[name].item()))
            kept[branch] = [0.9 * kept[branch][0] + 0.1 * d, kept[branch][1] + 1]
            kept["second"] = 0.999 * kept["second"] + 0.001 * d * d
            seen = kept["gradient norm"][1] + kept["loss"][1]
            mean = kept[branch][0] / (1 - 0.9 ** kept[branch][1])
            root = math.sqrt(kept["second"] / (1 - 0.999**seen))
            least = 0.0 if name.endswith("bias") else 0.01
            scale[name] = torch.clamp(scale[name] - tau * mean / (root + 1e-8), min=least)
    return history, {name: s.item() for name, s in scale.items()}


def net(norm, gain):
    """A VGG-like net; a bias in front of BatchNorm has no derivative, and Adam would make steps of rounding errors."""
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=norm == "none"),
        nn.BatchNorm2d(6) if norm == "batch" else nn.Identity(),
        nn.Tanh(),
        nn.Conv2d(6, 8, 3, stride=2, bias=False),
        nn.BatchNorm2d(8) if norm == "batch" else nn.Identity(),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    ).double()
    initialize(model, "kaiming", gain=gain)
    for bias in (model[-1].bias, model[0].bias):
        if bias is not None:
            nn.init.normal_(bias, generator=torch.Generator().manual_seed(3))
    return model


CASES = [
    # γ small: the gradient norm is descended; γ large: the loss after a step; γ between: now one and now the other.
    {"gamma": 1e-3, "expected": ["gradient norm"]},
    {"gamma": 1e6, "expected": ["loss"]},
    {"gamma": 1e6, "second_order": True, "expected": ["loss"]},
    {"gamma": 1e6, "overlap": 0, "expected": ["loss"]},
    {"gamma": 1e6, "overlap": 1, "expected": ["loss"]},
    {"gamma": 1e-3, "optimizer": "adam", "expected": ["gradient norm"]},
    {"gamma": 1e6, "optimizer": "adam", "eta": 1e-3, "expected": ["loss"]},
    {"gamma": 1e6, "optimizer": "adam", "eta": 1e-3, "second_order": True, "expected": ["loss"]},
    {"gamma": None, "expected": ["gradient norm", "loss"]},
]


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(f"{k}={v}" for k, v in case.items()))
def test_it_equals_the_oracle(norm, case):
    options = {"tau": 0.05, "eta": 0.1, "gamma": 0.55} | {
        k: v for k, v in case.items() if k != "expected" and v is not None
    }
    model = net(norm, gain=2.0)
    reference = net(norm, gain=2.0).eval()
    for module in reference.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.train()
            module.track_running_stats, module.running_mean, module.running_var = False, None, None
    history, scales = oracle(reference, half_batches(), 30, **options)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    record = initialize(model, "gradinit", base=None, iterations=30, batches=half_batches(), **options)
    assert sorted({branch for branch, _ in history}) == case["expected"]
    assert [bool(step["constrained"]) for step in record.history] == [
        branch == "gradient norm" for branch, _ in history
    ]
    # 1e-8: the two ways of computing differ by about 1e-12 in float64, and 30 steps of Adam magnify that little.
    assert [step["objective"] for step in record.history] == pytest.approx([v for _, v in history], rel=1e-8)
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-8)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, scales.get(name, 1.0) * start[name], rtol=1e-8, atol=1e-14), name


def test_a_gradient_that_jumps_from_far_below_gamma_to_above_is_descended():
    """Where it was far below it is taken without second derivatives at first; that must show in the cost alone."""
    # Of the inputs of each iteration: of small ones the net sees its biases alone, and all samples pull the same way.
    sizes = [1.0, 0.01, 1.0, 1.0]

    def draw():
        numbers = half_batches()
        for factor in sizes:
            for _ in range(3 if factor == 1 else 2):  # the loss is descended with a third half-batch
                inputs, targets = next(numbers)
                yield inputs * factor, targets

    options = {"tau": 0.05, "eta": 0.1, "gamma": 3.4}
    history, scales = oracle(net("none", 2.0), draw(), 4, **options)
    assert [branch for branch, _ in history] == ["loss", "gradient norm", "loss", "loss"]
    record = initialize(net("none", 2.0), "gradinit", base=None, iterations=4, batches=draw(), **options)
    assert record.history[0]["gradient_norm"] < options["gamma"] / 2  # far below
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-8)
    # Two of each where the loss is descended; 1 and 2 where the gradient is, and one more of each for the wrong guess.
    assert record.cost == {"forward": 3 * 2 + 1 + 1, "backward": 3 * 2 + 2 + 1}


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


def test_the_gradient_norm_is_descended_through_attention():
    """By its second derivative, which of the kernels of attention the one made of other operations alone has."""

    def draw():
        for index in itertools.count():
            yield batch((6, 3, 4), classes=3, seed=index)

    model = randomize(Attention())
    with sdpa_kernel(SDPBackend.MATH):
        history, scales = oracle(model, draw(), 10, tau=0.05, gamma=1e-3, eta=0.1)
    assert {branch for branch, _ in history} == {"gradient norm"}
    record = initialize(model, "gradinit", base=None, iterations=10, tau=0.05, gamma=1e-3, batches=draw())
    assert [step["objective"] for step in record.history] == pytest.approx([v for _, v in history], rel=1e-8)
    assert record.conditions["scales"] == pytest.approx(scales, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_gradient_50_times_too_large_comes_down_to_gamma(seed):
    """Kaiming's weights times 2.8, whose gradient explodes."""
    model = small("plain", activation="relu").double()
    initialize(model, "kaiming", gain=4.0, seed=seed)
    shape = (32, 3, 8, 8)
    first = initialize(model, "gradinit", base=None, iterations=1, batches=half_batches(shape, seed)).history[0]
    assert first["gradient_norm"] >= 50
    initialize(model, "kaiming", gain=4.0, seed=seed)
    nn.init.zeros_(model.classifier.bias)
    record = initialize(model, "gradinit", base=None, iterations=390, batches=half_batches(shape, seed))
    # γ is reached from above and crossed again and again; its noise from batch to batch is some percent.
    last = [step["gradient_norm"] for step in record.history[-20:]]
    assert sorted(last)[10] <= 1.1
    scales = record.conditions["scales"]
    assert min(scale for name, scale in scales.items() if not name.endswith("bias")) >= 0.01
    assert model.classifier.bias.eq(0).all()
    assert record.tensors["classifier.bias"] == ["not scaled: zero"]


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
    ("arguments", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"tau": 0.0}, "tau must be a finite number above 0, got 0.0"),
        ({"eta": -1.0}, "eta must be a finite number above 0, got -1.0"),
        ({"floor": -0.1}, "floor must be a finite number of at least 0, got -0.1"),
        ({"gamma": 0.0}, "gamma must be a finite number above 0, got 0.0"),
        ({"clip": -1.0}, "clip must be a finite number above 0, got -1.0"),
        ({"overlap": 0.3}, "overlap must be 0, 0.5 or 1, got 0.3"),
    ],
)
def test_what_it_refuses(arguments, message):
    from initbench.errors import ArgumentError

    with pytest.raises(ArgumentError, match=message):
        initialize(net("none", 1.0), "gradinit", batches=half_batches(), **arguments)


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
