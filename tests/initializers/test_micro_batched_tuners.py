"""MetaInit and GradInit on micro-batches set the values that they set on whole batches."""

from __future__ import annotations

import itertools

import pytest
import torch
from cases import batch, conv_net, randomize, small
from gradinit_cases import half_batches, net
from small_gpt import gpt, next_token_loss, tokens
from small_transformer import pairs, transformer
from test_metainit_oracle import SMOOTH
from test_metainit_oracle import conv_net as deep_conv_net
from torch import nn

from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize

# Float64: a step magnifies the rounding of the one before; what is asserted below is reached with 1e-13 or so.
EXACT = 1e-10


def padded(samples, seed):
    """Blocks of tokens, some of them padded, one to its end."""
    inputs, targets = tokens(samples, seed=seed)
    targets[0, 2:], targets[3], targets[-1, :4] = -100, -100, -100
    return inputs, targets


def images(samples=7):
    return (batch((samples, 3, 8, 8), seed=1000 + index) for index in itertools.count())


def text(samples=7):
    return (padded(samples, index) for index in itertools.count())


def sentences(samples=7):
    """Of all lengths, so that micro-batches differ in their numbers of tokens."""
    return (pairs(samples, seed=index) for index in itertools.count())


def initialized(name, **arguments):
    model = small(name, activation="beta_swish", **arguments).double()
    initialize(model, arguments.get("scheme", "kaiming"), input_shape=(2, 3, 8, 8), num_classes=10)
    return model


def small_images(samples=7):
    return (batch((samples, 3, 4, 4), seed=1000 + index) for index in itertools.count())


CASES = {
    "images": (lambda: deep_conv_net("none"), small_images, {}),
    "batch norm in eval mode": (lambda: deep_conv_net("batch"), small_images, {}),
    "tied tokens": (lambda: randomize(gpt(depth=1), 0.3), text, {"loss_fn": next_token_loss}),
    "sentences": (lambda: randomize(transformer(depth=1), 0.3), sentences, {"task": "translation"}),
    "tokens": (lambda: randomize(gpt(depth=1, tied=False, norm="none"), 0.3), text, {"task": "language_modelling"}),
}
LARGER = {
    "plain": (lambda: initialized("plain"), images, {}),
    "weight norm": (lambda: initialized("wrn", scheme="weight_norm"), images, {}),
    "fixup's scalars": (lambda: initialized("wrn", scheme="fixup"), images, {"zeros": "keep"}),
    "deeper tokens": (lambda: randomize(gpt(depth=3, norm="post"), 0.3), text, {"loss_fn": next_token_loss}),
}


def both(make, draw, initializer, micro_batch_size=3, **arguments):
    """Tune a model on whole batches and a copy of it on micro-batches; return both records, of equal parameters."""
    models = [make(), make()]
    records = [
        initialize(model, initializer, base=None, batches=draw(), micro_batch_size=size, **arguments)
        for model, size in zip(models, (None, micro_batch_size), strict=True)
    ]
    start = dict(make().named_parameters())
    for (name, whole), parts in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert (parts - whole).norm() <= EXACT * whole.norm(), name
    assert any(not torch.equal(p, start[name]) for name, p in models[0].named_parameters())
    return records


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGER)])
def test_metainit_tunes_the_same_norms(name):
    make, draw, arguments = (CASES | LARGER)[name]
    whole, parts = both(make, draw, "metainit", steps=4, **arguments)
    for record in (whole, parts):
        assert len(record.history) == 4
    assert [step["gradient_quotient"] for step in parts.history] == pytest.approx(
        [step["gradient_quotient"] for step in whole.history], rel=EXACT
    )
    assert parts.conditions["sign_flips"] == whole.conditions["sign_flips"]
    assert parts.conditions["unused_parameters"] == whole.conditions["unused_parameters"]
    assert whole.cost == {"forward": 4, "backward": 12}
    assert parts.cost == {"forward": 16, "backward": 32}


@pytest.mark.parametrize("variant", [{"method": "finite_difference"}, {"norm": "l2"}, {"optimizer": "adam"}])
def test_variants_of_metainit_too(variant):
    _, parts = both(lambda: deep_conv_net("none"), small_images, "metainit", steps=5, **variant, **SMOOTH)
    assert parts.cost == {"forward": 20, "backward": 30 if "method" in variant else 40}


GRADINIT = [
    {"gamma": 1e-3},
    {"gamma": 1e6},
    {"gamma": 1e6, "second_order": True},
    {"gamma": 1e6, "overlap": 0},
    {"gamma": 1e-3, "optimizer": "adam"},
    {"gamma": 1e6, "optimizer": "adam", "eta": 1e-3},
    {"gamma": 1e6, "optimizer": "adam", "eta": 1e-3, "second_order": True},
    {"gamma": 0.55},
    {"gamma": 0.55, "second_moment": "own", "betas": (0.9, 0.98), "clip": None},
]
PASSES = {"gradient norm": (2, 3), "loss": (2, 2), "differentiated step": (3, 4)}


def check_gradinit(make, draw, case, iterations=6, **arguments):
    options = {"iterations": iterations, "tau": 0.05, "micro_batch_size": 5, **case, **arguments}
    whole, parts = both(make, draw, "gradinit", **options)
    assert parts.conditions["scales"] == pytest.approx(whole.conditions["scales"], rel=EXACT)
    for name in ("constrained", "gradient_norm", "objective"):
        assert [s[name] for s in parts.history] == pytest.approx([s[name] for s in whole.history], rel=EXACT), name
    differentiated = "second_order" in case and "optimizer" not in case
    kinds = [
        "gradient norm" if s["constrained"] else "differentiated step" if differentiated else "loss"
        for s in whole.history
    ]
    passes = [sum(PASSES[kind][index] for kind in kinds) for index in (0, 1)]
    assert parts.cost == {"forward": passes[0], "backward": passes[1]}
    return set(kinds)


@pytest.mark.parametrize("case", GRADINIT, ids=lambda case: "-".join(f"{k}={v}" for k, v in case.items()))
def test_gradinit_learns_the_same_scales(case):
    between = case["gamma"] == 0.55  # first above γ, then below it
    kinds = check_gradinit(lambda: net("none", gain=2.0), half_batches, case, iterations=30 if between else 6)
    assert len(kinds) == 1 + between


@pytest.mark.parametrize("gamma", [1e-3, 1e6])
@pytest.mark.parametrize("tied", [True, False])
def test_gradinit_on_tokens_too(tied, gamma):
    case = {"gamma": gamma, "second_order": True}
    check_gradinit(lambda: randomize(gpt(tied=tied, depth=1), 0.3), lambda: text(4), case, loss_fn=next_token_loss)


@pytest.mark.parametrize("gamma", [1e-3, 1e6])
def test_gradinit_on_sentences_too(gamma):
    """Whose padding no loss counts: the task weighs micro-batches by their tokens."""
    case = {"gamma": gamma, "second_order": True, "second_moment": "own"}

    def make():
        return randomize(transformer(depth=1), 0.3)

    check_gradinit(make, lambda: sentences(4), case, task="translation")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["weight_norm", "fixup"])
def test_gradinit_with_schemes_too(scheme):
    check_gradinit(lambda: initialized("wrn", scheme=scheme), lambda: images(4), {"gamma": 1.0, "second_order": True})


def test_gradinit_on_batches_that_are_not_larger_is_exact_with_batch_norm():
    both(lambda: net("batch", gain=2.0), half_batches, "gradinit", 12, iterations=5, gamma=1.0)


@pytest.mark.parametrize(("initializer", "arguments"), [("metainit", {"mode": "train"}), ("gradinit", {})])
def test_batch_norm_on_the_statistics_of_the_batch_is_refused(initializer, arguments):
    """The model is left as it was."""
    model = net("batch", gain=2.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(
        ArgumentError, match=r"^micro_batch_size cannot be met: BatchNorm \(1\) takes the statistics"
    ) as caught:
        initialize(model, initializer, base=None, batches=half_batches(), micro_batch_size=4, **arguments)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_dropout_is_off_as_on_whole_batches():
    make = lambda: nn.Sequential(*deep_conv_net("none"), nn.Dropout(0.5))  # noqa: E731
    both(make, small_images, "metainit", steps=3)
    both(make, small_images, "gradinit", iterations=3)


@pytest.mark.parametrize("initializer", ["metainit", "gradinit"])
def test_a_size_below_one_is_refused_before_anything_runs(initializer):
    with pytest.raises(ArgumentError, match=r"^micro_batch_size must be at least 1, got 0$"):
        initialize(conv_net(), initializer, micro_batch_size=0)
