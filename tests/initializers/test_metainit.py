"""MetaInit: hand-computed steps, which tensors it tunes, where it stops, and what it refuses and records."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from cases import Theta, batch, small
from recorded import FROZEN, ONES, UNUSED, drawn, scaled, tied
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.probes.gradient_quotient import gradient_quotient

RANDOM = {"input_shape": (8, 3, 8, 8), "num_classes": 10}


def batches(seed=1, shape=(8, 3, 8, 8)):
    for index in itertools.count():
        yield batch(shape, seed=1000 * seed + index)


def hand_model(weight):
    """Loss (2w)² / 2 with ε = 1: g = 4w, Hg = 4g, GQ = (4|g| + 1) / (|g| + 1), which falls as |w| does."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, weight)
    return model


def test_sign_flips_by_hand():
    """The velocity goes on through a flip, the norm is positive again, the weight's sign has changed."""
    model = hand_model(0.16)
    two = [(torch.full((1, 1), 2.0), torch.zeros(1))] * 4
    # velocity −.1, −.15, −.175, −.1875: norm .16 → .06 → −.09 → .09 − .175 = −.085 → .085 − .1875 = −.1025.
    record = initialize(
        model,
        "metainit",
        base=None,
        steps=4,
        momentum=0.5,
        eps=1.0,
        batches=two,
        loss_fn=lambda o, _: o.square().sum() / 2,
    )
    assert record.conditions["sign_flips"] == {"weight": 3}
    assert model.weight.item() == pytest.approx(-0.1025, rel=1e-12)
    assert record.tensors["weight"] == [scaled(pytest.approx(-0.1025 / 0.16, rel=1e-12))]
    gradients = [4 * w for w in (0.16, 0.06, 0.09, 0.085)]
    expected = [(4 * g + 1) / (g + 1) for g in gradients]
    assert [step["gradient_quotient"] for step in record.history] == pytest.approx(expected, rel=1e-12)


def test_the_record_holds_its_conditions():
    model = small("wrn", norm="batch")
    model.stem.bias = nn.Parameter(torch.zeros(16), requires_grad=False)
    record = initialize(model, "metainit", steps=7, lr=0.05, **RANDOM)
    expected = {
        "steps": 7,
        "lr": 0.05,
        "momentum": 0.9,
        "eps": 1e-5,
        "norm": "l1",
        "method": "exact",
        "mode": "eval",
        "batch_norm": "running statistics",
        "data": "random",
        "batch_shape": [8, 3, 8, 8],
        "unused_parameters": [],
        "stopped_at_step": None,
    }
    assert expected.items() <= record.conditions.items()
    assert record.cost == {"forward": 7, "backward": 21}
    assert [step["step"] for step in record.history] == list(range(7))
    assert record.tensors["groups.0.0.conv1.weight"][0] == drawn("delta_orthogonal", gain=1.0)
    start, end = record.conditions["norms"]["groups.0.0.conv1.weight"]
    assert record.tensors["groups.0.0.conv1.weight"][1] == scaled(end / start)
    assert record.tensors["stem.bias"] == [FROZEN]
    assert record.tensors["norm.weight"] == [ONES]


def test_one_batch_per_step_from_the_first_and_none_more():
    taken = []

    def counted():
        for index, pair in enumerate(batches()):
            taken.append(index)
            yield pair

    model = small("plain").double()
    initialize(model, "kaiming")
    inputs, targets = next(batches())
    first = gradient_quotient(model.eval(), inputs, targets).item()
    record = initialize(model, "metainit", base="kaiming", steps=5, batches=counted())
    assert taken == [0, 1, 2, 3, 4]
    assert record.history[0]["gradient_quotient"] == pytest.approx(first, rel=1e-12)
    assert record.conditions["data"] == "given"
    with pytest.raises(InitializationError, match="batches ended early: step 4 needs one, 3 were given"):
        initialize(model, "metainit", steps=5, batches=itertools.islice(batches(), 3))
    with pytest.raises(
        InitializationError, match=r"batches must give .inputs, targets., two tensors; batch 1 is neither"
    ):
        initialize(model, "metainit", steps=5, batches=[inputs])


def test_frozen_tensors_are_neither_tuned_nor_counted():
    model = small("plain").double()
    initialize(model, "kaiming")
    model.stem.weight.requires_grad_(False)
    kept = model.stem.weight.detach().clone()
    inputs, targets = next(batches())
    expected = gradient_quotient(
        model.eval(), inputs, targets, parameters=[p for n, p in model.named_parameters() if n != "stem.weight"]
    )
    record = initialize(model, "metainit", base=None, steps=2, batches=batches())
    assert torch.equal(model.stem.weight, kept)
    assert record.history[0]["gradient_quotient"] == pytest.approx(expected.item(), rel=1e-12)
    assert "stem.weight" not in record.conditions["norms"]


def test_unused_parameters_are_counted_and_recorded_and_stay():
    model = small("plain").double()
    model.unused = nn.Linear(4, 4).double()
    initialize(model, "kaiming")
    nn.init.ones_(model.unused.weight)
    record = initialize(model, "metainit", base=None, steps=2, batches=batches())
    assert torch.equal(model.unused.weight, torch.ones(4, 4))
    assert record.conditions["unused_parameters"] == ["unused.weight", "unused.bias"]
    assert record.tensors["unused.weight"][-1] == UNUSED
    start, end = record.conditions["norms"]["unused.weight"]
    assert start == end == 4.0


def test_tied_weights_are_tuned_once():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double()
    model[2].weight = model[0].weight
    record = initialize(
        model, "metainit", steps=3, batches=batches(shape=(8, 4)), loss_fn=lambda o, _: o.square().mean()
    )
    assert list(record.conditions["norms"]) == ["0.weight"]
    assert record.tensors["2.weight"] == [tied("0.weight")]
    assert model[2].weight is model[0].weight


def test_a_zero_weight_is_an_error_that_names_it():
    model = small("plain")
    initialize(model, "kaiming")
    nn.init.zeros_(model.groups[1][0].conv2.weight)
    with pytest.raises(InitializationError, match=r"groups\.1\.0\.conv2\.weight has norm 0"):
        initialize(model, "metainit", base=None, **RANDOM)


def test_nothing_to_tune_is_an_error():
    with pytest.raises(InitializationError, match="no parameter of two or more dimensions requires a gradient"):
        initialize(Theta(1.0, 2.0), "metainit", base=None, **RANDOM)


@pytest.mark.parametrize("loss_fn", [lambda o, _: o.sum(), lambda o, _: o.detach().sum()])
def test_a_loss_that_is_linear_in_the_parameters_is_an_error(loss_fn):
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    with pytest.raises(InitializationError, match=r"the gradient quotient does not depend on 1\.weight"):
        initialize(model, "metainit", loss_fn=loss_fn, **RANDOM)


def spoiled(at):
    """Finite inputs whose loss has derivatives that are not."""
    for index, (inputs, targets) in enumerate(batches()):
        yield (inputs * 1e300 if index == at else inputs), targets


@pytest.mark.parametrize("steps", [5, 120])
def test_a_quotient_that_is_not_finite_ends_it_at_the_last_weights_where_it_was(steps):
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10)).double()
    reference = nn.Sequential(nn.Flatten(), nn.Linear(192, 10)).double()
    with pytest.warns(UserWarning, match="metainit stopped at step 3, where the gradient quotient was not finite"):
        record = initialize(model, "metainit", steps=steps, batches=spoiled(at=3))
    # GQ was last finite at step 2, on the weights that two updates had made.
    initialize(reference, "metainit", steps=2, batches=batches())
    assert torch.equal(model[1].weight, reference[1].weight)
    assert record.conditions["stopped_at_step"] == 3
    assert [math.isfinite(step["gradient_quotient"]) for step in record.history] == [True, True, True, False]
    assert record.cost["forward"] <= 51
    assert record.to_json()["history"][3]["gradient_quotient_reason"] == "nan"


def test_a_base_whose_quotient_is_not_finite_is_an_error():
    model = small("plain").double()
    before = model.stem.weight.detach().clone()
    with pytest.raises(InitializationError, match="the gradient quotient of the base is nan"):
        initialize(model, "metainit", steps=5, batches=spoiled(at=0))
    assert torch.equal(model.stem.weight, before)


class CountSyncs(TorchDispatchMode):
    """Counts the reads of a tensor's value by the host."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_no_step_waits_for_the_device():
    counts = []
    for steps in (5, 25):
        model = small("plain")
        with CountSyncs() as syncs:
            initialize(model, "metainit", steps=steps, batches=batches())
        # A batch of noise is moved without a read; what is read at the end is as long as the history.
        counts.append(syncs.count)
    assert counts[0] > 0
    assert counts[0] == counts[1]
