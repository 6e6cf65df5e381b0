"""Every initializer on gpt: what each tensor gets, what tuners reach, and what is refused."""

from __future__ import annotations

import math
from itertools import repeat

import pytest
import torch
from recorded import ONES, ZEROED, drawn, left, tied
from scipy import stats
from small_gpt import CONTEXT, SIZES, VOCABULARY, NextToken, gpt, next_token_loss, tokens

from initbench import randomness
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.initializers.record import changes
from initbench.registry import INITIALIZERS, register_task

# Those of a base width need an untied head, others a norm after each addition or an encoder and a decoder.
ALL = sorted({*INITIALIZERS.builtins} - {"admin", "completep", "deepnorm", "mup", "tfixup"})
NORMS = ["pre", "post", "none"]
SHAPE = (4, CONTEXT)
VARIANTS = [
    {},
    {"tied": False},
    {"norm_type": "rms", "activation": "swiglu", "positions": "rotary", "bias": False},
    {"activation": "relu", "tied": False, "dropout": 0.1},
]
# What a plain gpt lacks, whatever its norm.
REFUSED = {
    "data_dependent_weight_norm": "weight_norm: the model has no weight-normalized layers",
    "fixup": "fixup: the residual branch of h.0 ends in no scalar multiplier; initbench.rewrite",
    "layer_scale": "layer_scale: no residual branch ends in a gate; initbench.rewrite",
    "skipinit": "skipinit: the residual branch of h.0 ends in no scalar multiplier; initbench.rewrite",
    "weight_norm": "weight_norm: the model has no weight-normalized layers",
}
# The gates of skipinit are those that layer_scale fills.
SCHEME = {name: INITIALIZERS.get(name).traits.scheme or "skipinit" for name in REFUSED}
PROJECTIONS = ["attn.c_q", "attn.c_k", "attn.c_v", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"]


@pytest.fixture(autouse=True)
def next_token(scratch_registry):
    del scratch_registry
    register_task("next_token")(NextToken)


def run(model, name, **arguments):
    """Initialize a model of tokens, with few steps and random batches."""
    component = INITIALIZERS.get(name)
    arguments = dict(component.traits.smoke) | arguments
    if any(argument.name == "data" for argument in component.arguments):
        arguments = {"data": "random"} | arguments
    shape = arguments.pop("shape", SHAPE)
    return initialize(model, name, task="next_token", input_shape=shape, num_classes=VOCABULARY, **arguments)


def check_all_said(model, record):
    """Every tensor is finite, and either set or named with what was left."""
    assert set(record.tensors) == {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert torch.isfinite(model.eval()(tokens()[0])).all()
    assert any(map(changes, record.tensors["wte.weight"]))
    assert any(map(changes, record.tensors["h.1.attn.c_proj.weight"]))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ALL)
def test_every_initializer_runs_or_says_why_not(name, norm, variant):
    model = gpt(norm=norm, **variant)
    if name in REFUSED:
        with pytest.raises(InitializationError) as refused:
            run(model, name)
        assert REFUSED[name] in str(refused.value)
        assert "\n" not in str(refused.value)
        return
    check_all_said(model, run(model, name))


@pytest.mark.parametrize("variant", [{"tied": False}, {"tied": False, **VARIANTS[2]}])
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_those_that_need_a_scheme_run_on_it(name, variant):
    scheme = SCHEME[name]
    model = gpt(norm="none", scheme=scheme, **variant)
    record = run(model, name)
    assert set(record.tensors) == {n for n, _ in model.named_parameters(remove_duplicate=False)}
    assert all(torch.isfinite(p).all() for p in (*model.parameters(), model.eval()(tokens()[0])))
    assert all(any(map(changes, events)) for events in record.tensors.values())


# --- Laws.


def std(name, fan_in, fan_out):
    """The standard deviation of a projection's entries by each distribution that has independent ones."""
    return {
        "gaussian": 0.01,
        "gpt2": 0.02,
        "kaiming": math.sqrt(2 / fan_in),
        "lecun": math.sqrt(1 / fan_in),
        "pytorch_default": math.sqrt(1 / (3 * fan_in)),
        "truncated_normal": 0.02,
        "xavier": math.sqrt(2 / (fan_in + fan_out)),
    }[name]


def check_std(values, expected):
    """Of n entries, whose kurtosis is at most 3, s is within 5 of its standard errors."""
    values = values.detach().flatten()
    assert values.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * len(values)))


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize(
    "name", ["gaussian", "gpt2", "kaiming", "lecun", "pytorch_default", "truncated_normal", "xavier"]
)
def test_the_standard_deviation_of_each_tensor(name, is_tied):
    """The fan of a query's, key's or value's projection is that of one of the three."""
    width, vocabulary = 64, 300
    model = gpt(width=width, heads=4, depth=2, vocabulary=vocabulary, context=40, tied=is_tied)
    record = initialize(model, name, seed=1)
    embedding = 1.0 if name == "pytorch_default" else 0.02
    for index in range(2):
        for layer in PROJECTIONS:
            weight = model.get_parameter(f"h.{index}.{layer}.weight")
            expected = std(name, *reversed(weight.shape))
            if name == "gpt2" and layer.endswith("c_proj"):
                expected /= math.sqrt(2 * 2)
            check_std(weight, expected)
    for part in ("wte", "wpe"):
        check_std(model.get_parameter(f"{part}.weight"), embedding)
        assert record.tensors[f"{part}.weight"] == [drawn("normal", std=embedding, part="embedding")]
    if is_tied:
        assert record.tensors["lm_head.weight"] == [tied("wte.weight")]
    else:
        check_std(model.lm_head.weight, std(name, width, vocabulary))
    assert record.tensors["ln_f.weight"] == [ONES]
    if name != "pytorch_default":
        assert record.tensors["h.0.attn.c_q.bias"] == [ZEROED]


@pytest.mark.parametrize("name", ["orthogonal", "delta_orthogonal"])
def test_each_projection_is_an_orthogonal_matrix_of_its_own(name):
    """Also of delta_orthogonal, whose zeros are of kernels, which linear layers have none of."""
    model = gpt(width=16).double()
    initialize(model, name, gain=3.0)
    weights = [model.get_parameter(f"h.0.{layer}.weight").detach() for layer in PROJECTIONS]
    for w in weights:
        gram = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
        torch.testing.assert_close(gram, 9 * torch.eye(len(gram), dtype=gram.dtype), rtol=0, atol=1e-12)
    assert all(not torch.equal(weights[a], weights[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


def test_zero_has_identities_and_ends_that_add_nothing():
    model = gpt(tied=False)
    initialize(model, "zero")
    for layer in ("c_q", "c_k", "c_v"):
        assert torch.equal(model.get_parameter(f"h.1.attn.{layer}.weight"), torch.eye(8))
    for name in ("h.0.attn.c_proj", "h.0.mlp.c_proj", "lm_head"):
        assert model.get_parameter(f"{name}.weight").eq(0).all()


@pytest.mark.parametrize("variant", [{}, {"tied": False}, {"activation": "swiglu"}, {"norm": "none"}, {"heads": 1}])
@pytest.mark.parametrize("depth", [1, 3])
def test_gpt2_finds_the_blocks(depth, variant):
    model = gpt(depth=depth, **variant)
    conditions = initialize(model, "gpt2").conditions
    assert conditions["blocks"] == depth
    expected = {f"h.{i}.{part}.c_proj.weight" for i in range(depth) for part in ("attn", "mlp")}
    assert set(conditions["residual_projections"]) == expected


def test_gpt2_scaled_and_unscaled_are_the_same_draws_but_for_a_factor():
    """√(2·3), of Hugging Face's code against OpenAI's; the record says which."""
    scaled, unscaled = gpt(depth=3), gpt(depth=3)
    initialize(scaled, "gpt2")
    record = initialize(unscaled, "gpt2", residual="unscaled")
    for name, p in unscaled.named_parameters():
        factor = math.sqrt(6) if name in record.conditions["residual_projections"] else 1.0
        torch.testing.assert_close(p, factor * scaled.get_parameter(name), rtol=1e-6, atol=0)
    assert record.tensors["h.0.mlp.c_proj.weight"] == [drawn("normal", std=0.02, part="residual projection")]
    assert initialize(scaled, "gpt2").tensors["h.0.mlp.c_proj.weight"][0]["std"] == pytest.approx(0.02 / math.sqrt(6))


def test_fixup_on_attention():
    """Rules 1 and 2 with L = 4 branches of m = 2 layers: the last are 0, the others Kaiming's (fan_out) times 1/2."""
    model = gpt(width=64, heads=4, norm="none", scheme="fixup", tied=False)
    initialize(model, "fixup")
    for layer in ("attn.c_q", "attn.c_k", "attn.c_v", "mlp.c_fc"):
        weight = model.get_parameter(f"h.1.{layer}.weight")
        check_std(weight, math.sqrt(2 / weight.shape[0]) / 2)
    for name in ("h.1.attn.c_proj", "h.1.mlp.c_proj", "lm_head"):
        assert model.get_parameter(f"{name}.weight").eq(0).all()


def test_weight_norm_has_one_gain_per_layer_of_attention():
    """κ is 2 within branches and 1/B in their last layers, for B = 4 branches; times inputs over outputs."""
    model = gpt(width=16, norm="none", scheme="weight_norm")
    initialize(model, "weight_norm")
    squares = {
        "attn.c_q": 2,
        "attn.c_k": 2,
        "attn.c_v": 2,
        "attn.c_proj": 1 / 4,
        "mlp.c_fc": 2 / 4,
        "mlp.c_proj": 4 / 4,
    }
    for layer, square in squares.items():
        gain = model.get_parameter(f"h.0.{layer}.parametrizations.weight.original0")
        torch.testing.assert_close(gain, torch.full_like(gain, math.sqrt(square)))


def test_the_gates_of_layer_scale():
    model = gpt(depth=19, norm="none", scheme="skipinit")
    record = initialize(model, "layer_scale")
    assert record.conditions["gates"] == 2 * 19
    assert model.h[18].mlp.multiplier.scale.item() == pytest.approx(1e-5)  # the paper's value for 19 to 24 blocks


# --- Tuners.


@pytest.mark.parametrize("variant", [*VARIANTS, {"norm": "none", "scheme": "weight_norm"}])
@pytest.mark.parametrize("norm", NORMS)
def test_lsuv_reaches_its_deviation_on_every_layer(norm, variant):
    model = gpt(depth=3, width=16, **{"norm": norm} | variant)
    record = run(model, "lsuv", shape=(32, CONTEXT))
    reached = record.conditions["std_at_end"]
    layers = {n.removesuffix(".weight") for n, e in record.tensors.items() if any(x["event"] == "scaled" for x in e)}
    layers = {name.removesuffix(".parametrizations.weight.original0") for name in layers}
    head = {"lm_head"} if model.lm_head.weight is not model.wte.weight else set()
    gates = {f"h.{i}.mlp.c_gate" for i in range(3)} if variant.get("activation") == "swiglu" else set()
    assert layers == {f"h.{i}.{layer}" for i in range(3) for layer in PROJECTIONS} | gates | head
    for name in layers:
        assert reached[name] == pytest.approx([1.0], abs=0.01)
    if not head:
        assert record.tensors["wte.weight"][-1] == left("shared", layer="lm_head")


def test_metainit_tunes_embeddings_and_projections_and_a_tied_head_once():
    model = gpt()
    record = run(model, "metainit", steps=2)
    tuned = {n for n, p in model.named_parameters() if p.dim() >= 2}
    assert set(record.conditions["norms"]) == tuned
    assert {"wte.weight", "wpe.weight"} < tuned
    assert "lm_head.weight" not in tuned


@pytest.mark.parametrize("optimizer", [("sgd", 0.1), ("adam", 1e-3)])
@pytest.mark.parametrize("gamma", [1e-3, 1e6])
@pytest.mark.parametrize("norm", NORMS)
def test_gradinit_descends_both_objectives(norm, gamma, optimizer):
    """The gradient norm above γ, which needs the second derivative of attention, and the loss after a step below it."""
    model = gpt(norm=norm, width=16)
    arguments = {"gamma": gamma, "iterations": 25, "training_optimizer": optimizer}
    record = run(model, "gradinit", batches=repeat(tokens(8)), **arguments)  # one batch: nothing else moves the loss
    assert record.conditions["constrained_steps"] == (25 if gamma < 1 else 0)
    key = "gradient_norm" if gamma < 1 else "objective"
    history = [step[key] for step in record.history]
    assert sum(history[-5:]) < sum(history[:5])
    assert set(record.conditions["scales"]) | {n for n, p in model.named_parameters() if not p.any()} == {
        name for name, _ in model.named_parameters()
    }


def test_data_dependent_weight_norm_standardizes_every_channel():
    model = gpt(width=16, norm="none", scheme="weight_norm").double()
    seen = {}
    run(model, "data_dependent_weight_norm", shape=(32, CONTEXT))
    for name in ("h.0.attn.c_q", "h.0.attn.c_proj", "h.1.mlp.c_fc", "h.1.mlp.c_proj"):
        model.get_submodule(name).register_forward_hook(lambda *call, name=name: seen.update({name: call[2].detach()}))
    context = NextToken().inputs_for((CONTEXT,), VOCABULARY)
    inputs, targets = NextToken().random_batch(context, VOCABULARY, 32, randomness.generator(0, "tuner_batches"))
    next_token_loss(model.eval()(inputs), targets)
    for values in seen.values():
        assert values.mean((0, 1)).abs().max() < 1e-9
        assert (values.std((0, 1), correction=0) - 1).abs().max() < 1e-9


def test_entries_of_the_default_law_are_normal():
    model = gpt(width=64, heads=SIZES["heads"])
    initialize(model, "kaiming")
    assert stats.kstest(model.h[0].attn.c_v.weight.detach().flatten() * math.sqrt(32), stats.norm.cdf).pvalue > 1e-3
