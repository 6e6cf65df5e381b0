"""MetaInit's variants: what each changes, what it costs, records and refuses."""

from __future__ import annotations

import itertools
from copy import deepcopy

import pytest
import torch
from cases import assert_same_state, batch, small, state
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils._python_dispatch import TorchDispatchMode

from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize

RANDOM = {"input_shape": (8, 3, 8, 8), "num_classes": 10}
DEFAULTS = {"data": "random", "optimizer": "signsgd", "norm": "l1", "method": "exact", "mode": "eval"}
VARIANTS = [
    *({"optimizer": "adam"}, {"norm": "l2"}, {"method": "finite_difference"}, {"mode": "train"}),
    *({"optimizer": "sgd", "lr": 0.001}, {"optimizer": "adam", "clip": 0.001}, {"parametrization": "scale"}),
]


def normalized(dropout=0.0):
    """A net with BatchNorm, and its running statistics after two batches."""
    model = nn.Sequential(
        *[nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.0)],
        *[nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)],
    )
    initialize(model, "kaiming")
    with torch.no_grad():
        for seed in range(2):
            model(3 * batch((8, 3, 8, 8), seed=seed, dtype=torch.float32)[0] + 1)
    model[3].p = dropout
    return model


def tuned(model, **options):
    """Parameters and record after some steps."""
    model = deepcopy(model)
    record = initialize(model, "metainit", **{"base": None, "steps": 6} | RANDOM | options)
    return list(model.parameters()), record


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_defaults_are_the_listing_and_each_variant_is_another_method():
    model = normalized()
    parameters, record = tuned(model)
    explicit, other = tuned(model, momentum=0.9, eps=1e-5, lr=0.1, **DEFAULTS)
    assert same(parameters, explicit)
    assert record.history == other.history
    assert record.arguments == other.arguments
    for variant in VARIANTS:
        assert not same(parameters, tuned(model, **variant)[0]), variant


def test_real_data():
    """Each step takes the next real batch; what is given replaces random and real ones alike."""
    real = [batch((8, 3, 8, 8), seed=seed) for seed in range(7)]
    parameters, record = tuned(normalized(), data="real", real_batches=iter(real))
    given, _ = tuned(normalized(), batches=real)
    random, _ = tuned(normalized())
    assert record.conditions["data"] == "real"
    assert same(parameters, given)
    assert not same(parameters, random)
    assert tuned(normalized(), data="real", real_batches=[], batches=real)[1].conditions["data"] == "given"


class Two(nn.Module):
    """Two linear maps, added up: with the mean squared error its loss is quadratic in the parameters."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.left(x) + self.right(x.square())


def test_the_finite_difference_equals_the_exact_quotient_for_a_quadratic_loss_alone():
    model = Two().double()
    initialize(model, "gaussian", std=0.3)
    generator = torch.Generator().manual_seed(2)
    targets = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    quadratic = {"batches": itertools.repeat((batch((6, 4))[0], targets)), "loss_fn": mse_loss, "steps": 12}
    other = {"batches": itertools.repeat((batch((6, 4))[0], targets.argmax(1))), "steps": 12}
    (exact, first), (step, second) = (tuned(model, method=m, **quadratic) for m in ("exact", "finite_difference"))
    quotients = [[entry["gradient_quotient"] for entry in record.history] for record in (first, second)]
    assert quotients[1] == pytest.approx(quotients[0], rel=1e-9)
    for a, b, start in zip(exact, step, model.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-9)
        assert (a.dim() == 1) == torch.equal(a, start)
    (_, first), (_, second) = (tuned(model, method=m, **other) for m in ("exact", "finite_difference"))
    assert second.history[0]["gradient_quotient"] != pytest.approx(first.history[0]["gradient_quotient"], rel=1e-3)


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
def test_mode_train_leaves_everything_but_the_norms_as_it_was(method):
    model = normalized(dropout=0.5)
    before = state(model)
    initialize(model, "metainit", base=None, steps=4, mode="train", method=method, **RANDOM)
    assert_same_state(before, state(model), values=False)  # running statistics and modes among them


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_dropout_is_off_in_both_modes(mode):
    assert same(tuned(normalized(dropout=0.5), mode=mode)[0], tuned(normalized(), mode=mode)[0])


def test_running_statistics_count_in_mode_eval_alone():
    model, shifted = normalized(), normalized()
    shifted[1].running_mean += 1
    assert not same(tuned(model)[0], tuned(shifted)[0])
    assert same(tuned(model, mode="train")[0], tuned(shifted, mode="train")[0])


def without_running_statistics():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)
    )


@pytest.mark.parametrize(
    ("make", "mode", "expected"),
    [
        (normalized, "eval", "running statistics"),
        (normalized, "train", "batch statistics"),
        (without_running_statistics, "eval", "batch statistics"),
        (lambda: small("plain"), "eval", None),
        (lambda: small("plain"), "train", None),
    ],
)
def test_the_record_says_which_statistics_batch_norm_used(make, mode, expected):
    conditions = tuned(make(), mode=mode)[1].conditions
    assert (conditions["mode"], conditions["batch_norm"]) == (mode, expected)


def test_the_record_names_the_variant():
    _, record = tuned(normalized(), optimizer="adam", norm="l2", method="finite_difference", mode="train")
    expected = {"optimizer": "adam", "momentum": None, "norm": "l2", "method": "finite_difference", "mode": "train"}
    assert expected.items() <= record.conditions.items()
    assert tuned(normalized())[1].conditions.items() >= {"optimizer": "signsgd", "momentum": 0.9}.items()


@pytest.mark.parametrize("options", [{}, *VARIANTS, {"method": "finite_difference", "mode": "train"}])
def test_the_recorded_cost_is_what_is_counted(monkeypatch, options):
    passes = {"forward": 0, "backward": 0}
    differentiate = torch.autograd.grad

    def counted(*arguments, **keywords):
        passes["backward"] += 1
        return differentiate(*arguments, **keywords)

    def count(*_):
        passes["forward"] += 1

    model = normalized()
    model.register_forward_hook(count)
    monkeypatch.setattr(torch.autograd, "grad", counted)
    record = initialize(model, "metainit", base=None, steps=5, **options, **RANDOM)
    assert record.cost == passes
    assert passes == {"forward": 10 if "method" in options else 5, "backward": 15}


class CountSyncs(TorchDispatchMode):
    """Counts the reads of a tensor's value by the host."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("options", VARIANTS)
def test_no_step_of_a_variant_waits_for_the_device(options):
    counts = []
    for steps in (3, 9):
        model = normalized()
        with CountSyncs() as syncs:
            initialize(model, "metainit", base=None, steps=steps, **options, **RANDOM)
        counts.append(syncs.count)
    assert counts[0] > 0
    assert counts[0] == counts[1]


def steep(a, steps, **options):
    """A weight w tuned from 1/a, and the record: of the loss a·w²/2 with ε = 1, which has g = a·w and Hg = a·g.

    There g = 1, GQ = (a·g + 1) / (g + 1) is near a/2, and its derivative for w near a²/4.
    """
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1 / a)
    batches = itertools.repeat((torch.full((1, 1), a).sqrt(), torch.zeros(1)))
    options |= {"eps": 1.0, "batches": batches, "loss_fn": lambda o, _: o.square().sum() / 2}
    return model.weight, initialize(model, "metainit", base=None, steps=steps, **options)


def test_a_derivative_whose_square_overflows_moves_adam_by_its_learning_rate():
    weight, record = steep(1e12, 1, optimizer="adam")  # 2.5e23
    assert weight.item() == pytest.approx(-0.1, rel=1e-5)
    assert record.conditions["sign_flips"] == {"weight": 1}


def test_a_derivative_that_is_not_finite_ends_adam_where_it_is_and_not_signsgd():
    weight, _ = steep(1e20, 1)  # 2.5e39, infinite in float32
    assert weight.item() == pytest.approx(-0.1, rel=1e-5)
    with pytest.warns(UserWarning, match="metainit stopped at step 0, where .* or its derivative was not; the weights"):
        weight, record = steep(1e20, 3, optimizer="adam")
    assert weight.item() == pytest.approx(1e-20, rel=1e-5)
    assert record.history == [{"step": 0, "gradient_quotient": pytest.approx(5e19, rel=1e-5)}]


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"optimizer": "adam", "momentum": 0.5}, "momentum"),
        ({"optimizer": "rms"}, "optimizer"),
        ({"optimizer": "sgd", "momentum": 1.0}, "momentum"),
        ({"clip": 1.0}, "clip"),  # a sign is not changed by it
        ({"optimizer": "adam", "clip": 0.0}, "clip"),
        ({"parametrization": "log"}, "parametrization"),
        ({"norm": "max"}, "norm"),
        ({"method": "hessian"}, "method"),
        ({"mode": "both"}, "mode"),
        ({"data": "noise"}, "data"),
    ],
)
def test_what_it_refuses(options, argument):
    model = normalized()
    before = state(model)
    with pytest.raises(ArgumentError) as caught:
        initialize(model, "metainit", **options, **RANDOM)
    assert caught.value.argument == argument
    assert_same_state(before, state(model))


@pytest.mark.parametrize("method", ["exact", "finite_difference"])
def test_mode_train_needs_more_than_one_value_per_channel(method):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    options = {"base": "kaiming", "mode": "train", "method": method, "num_classes": 2}
    with pytest.raises(InitializationError, match="BatchNorm has no statistics of one value per channel"):
        initialize(model, "metainit", input_shape=(1, 4), **options)
    initialize(model, "metainit", input_shape=(8, 4), steps=2, **options)
