"""The defaults of language models: the deviation of every role, block numbers, tied heads, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from recorded import ONES, ZEROED, drawn, tied
from scipy import stats
from small_gpt import gpt
from torch import nn
from torch.nn import functional
from transformer_parts import Attention, FeedForward, Stream

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs

WIDTH, DEPTH = 512, 2
HIDDEN = {"gelu": 4 * WIDTH, "swiglu": 1368}  # 8/3 of the width, up to a multiple of 8
KEPT = 0.9865784  # of the deviation behind a cut at ±3: √(1 − 6φ(3) / (2Φ(3) − 1))
INTO = ("attn.c_q", "attn.c_k", "attn.c_v", "mlp.c_fc", "mlp.c_gate")
OUT = ("attn.c_proj", "mlp.c_proj")


def expected(name, activation):
    """The deviation before a cut of each role: of wte, wpe, head, what enters, and both ends of block 1 and 2."""
    d, f = WIDTH, HIDDEN[activation]
    small = math.sqrt(2 / (5 * d))
    ends = {
        "gpt2": [[0.02 / math.sqrt(2 * DEPTH)] * 2] * 2,
        "small_init": [[2 / (DEPTH * math.sqrt(d))] * 2] * 2,
        "mitchell": [[1 / math.sqrt(2 * d * block), 1 / math.sqrt(2 * f * block)] for block in (1, 2)],
        "llama": [[0.02 / math.sqrt(2 * block)] * 2 for block in (1, 2)],
    }[name]
    embedding, head, into = {
        "gpt2": (0.02, 0.02, 0.02),
        "small_init": (small, small, small),
        "mitchell": (1 / math.sqrt(d),) * 3,
        "llama": (1.0, 1 / math.sqrt(d), 0.02),
    }[name]
    roles = {"wte": embedding, "wpe": embedding, "lm_head": head}
    for index, stds in enumerate(ends):
        roles |= {f"h.{index}.{layer}": into for layer in INTO if activation == "swiglu" or layer != "mlp.c_gate"}
        roles |= {f"h.{index}.{layer}": std for layer, std in zip(OUT, stds, strict=True)}
        if name == "llama" and activation == "swiglu":
            roles[f"h.{index}.mlp.c_fc"] = stds[1]  # the up projection, w3 of the papers
    return roles


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
@pytest.mark.parametrize("name", ["gpt2", "small_init", "mitchell", "llama"])
def test_the_deviation_of_every_role(name, activation):
    """What is recorded to 1e-7, and what is drawn, of n entries, to 5 standard errors: 0.7 % of the smallest weight."""
    options = {"depth": DEPTH, "width": WIDTH, "heads": 8, "activation": activation, "tied": False}
    model = gpt(vocabulary=300, context=300, **options)
    record = initialize(model, name, seed=1)
    roles = expected(name, activation)
    assert {f"{layer}.weight" for layer in roles} == {n for n, p in model.named_parameters() if p.dim() > 1}
    for layer, std in roles.items():
        [event] = record.tensors[f"{layer}.weight"]
        cut = name == "mitchell" or (name, layer) == ("llama", "lm_head")
        assert event["law"] == ("truncated normal" if cut else "normal"), layer
        assert event["bound"] / 3 if cut else event["std"] == pytest.approx(std, rel=1e-12), layer
        assert event["std"] == pytest.approx(std * (KEPT if cut else 1), rel=1e-7), layer
        values = model.get_parameter(f"{layer}.weight").detach().flatten()
        assert values.std().item() == pytest.approx(event["std"], rel=5 / math.sqrt(2 * len(values))), layer
        assert values.mean().item() == pytest.approx(0, abs=5 * event["std"] / math.sqrt(len(values))), layer
        assert not cut or values.abs().max() <= 3 * std * (1 + 1e-6), layer
    assert record.tensors["ln_f.weight"] == [ONES]
    assert record.tensors["h.0.attn.c_q.bias"] == [ZEROED]


@pytest.mark.parametrize(
    ("name", "arguments", "sizes", "layer", "std"),
    [
        ("small_init", {}, (512, 6), "attn.c_q", 0.0279508497),
        ("small_init", {}, (768, 2), "mlp.c_fc", 0.0228217732),
        ("small_init", {}, (512, 6), "mlp.c_proj", 0.0147313913),
        ("small_init", {"residual": "small"}, (512, 6), "mlp.c_proj", 0.0279508497),
        ("gpt2", {}, (24, 12), "attn.c_proj", 0.00408248290),
        ("llama", {"depth": "model"}, (24, 12), "attn.c_proj", 0.00408248290),
        ("llama", {}, (24, 12), "attn.c_proj", 0.0141421356),  # of the first block, whatever the depth
    ],
)
def test_golden_numbers(name, arguments, sizes, layer, std):
    """√(2/5d), 2/(L√d), .02/√(2L) and .02/√2."""
    width, depth = sizes
    record = initialize(gpt(width=width, depth=depth, heads=4), name, **arguments)
    assert record.tensors[f"h.0.{layer}.weight"][0]["std"] == pytest.approx(std, rel=1e-8)


def test_the_projections_of_olmo_core_are_cut_off_and_torchtitans_are_not():
    """Its bounds of ±2 are at 100 deviations. The law is normal within ±3σ, by a test of Kolmogorov and Smirnov."""
    models = [gpt(width=128, heads=4, depth=4, activation="swiglu", tied=False) for _ in range(2)]
    core = initialize(models[0], "llama", cut=3.0, depth="model")
    initialize(models[1], "llama")
    w = models[0].h[3].attn.c_q.weight.detach().flatten() / 0.02
    assert w.abs().max() <= 3 < models[1].h[3].attn.c_q.weight.abs().max() / 0.02
    assert stats.kstest(w.numpy(), stats.truncnorm(-3, 3).cdf).pvalue > 1e-3
    for layer in ("attn.c_proj", "mlp.c_proj", "mlp.c_fc"):
        [event] = core.tensors[f"h.0.{layer}.weight"]
        assert event["bound"] / 3 == pytest.approx(0.02 / math.sqrt(8), rel=1e-12)
        assert event["std"] == pytest.approx(KEPT * 0.02 / math.sqrt(8), rel=1e-7)
    assert "bound" not in core.tensors["wte.weight"][0]


@pytest.mark.parametrize(
    ("name", "std", "bound"),
    [("mitchell", KEPT / 4, 3 / 4), ("llama", KEPT / 4, 3 / 4), ("small_init", math.sqrt(2 / 80), None)],
)
def test_a_tied_head_has_the_law_of_the_head(name, std, bound):
    """As in torchtitan, whose embedding of N(0, 1) is for an untied head; the others have one law for both."""
    record = initialize(gpt(width=16), name)
    [event] = record.tensors["wte.weight"]
    assert event["std"] == pytest.approx(std, rel=1e-7)
    assert event.get("bound") == (bound and pytest.approx(bound))
    assert record.tensors["lm_head.weight"] == [tied("wte.weight")]
    assert record.tensors["wpe.weight"][0]["std"] == pytest.approx(1.0 if name == "llama" else std, rel=1e-7)


# --- Models of others.


def hugging_face(name, **arguments):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return create_model(name, inputs=Inputs((12,), 50), num_classes=50, **arguments)


@pytest.mark.parametrize("name", ["small_init", "mitchell", "llama"])
def test_weights_that_are_stored_inputs_first_have_the_fans_of_ours(name):
    """Conv1D of Hugging Face's GPT-2; its positions are looked up, and ours are a parameter, of one law here."""
    theirs = hugging_face("hf/gpt2", n_layer=3, n_embd=16, n_head=2, n_positions=12)
    ours = gpt(depth=3, width=16, heads=2, vocabulary=50, context=12)
    hf, own = (initialize(model, name, inputs=Inputs((12,), 50)) for model in (theirs, ours))
    assert theirs.transformer.h[0].mlp.c_proj.weight.shape == (64, 16)
    for part in ("wte", "wpe", *(f"h.{i}.{layer}" for i in range(3) for layer in (*OUT, "mlp.c_fc"))):
        assert hf.tensors[f"transformer.{part}.weight"] == own.tensors[f"{part}.weight"], part
    assert hf.tensors["transformer.h.2.attn.c_attn.weight"] == own.tensors["h.2.attn.c_q.weight"]


def test_llama_of_hugging_face_with_grouped_queries():
    """up_proj is scaled, gate_proj is not; k_proj has fewer outputs than the stream."""
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = hugging_face("hf/llama", num_key_value_heads=2, **sizes)
    inputs = Inputs((12,), 50)
    stds = {n.removeprefix("model.layers.1."): e[0].get("std") for n, e in llama_events(model, inputs)}
    scaled = pytest.approx(0.02 / 2, rel=1e-12)
    assert stds["self_attn.o_proj.weight"] == stds["mlp.down_proj.weight"] == stds["mlp.up_proj.weight"] == scaled
    assert stds["mlp.gate_proj.weight"] == stds["self_attn.k_proj.weight"] == 0.02
    neox = initialize(model, "small_init", inputs=inputs).tensors
    assert neox["model.layers.0.self_attn.k_proj.weight"][0]["std"] == pytest.approx(math.sqrt(2 / 80))
    assert neox["model.layers.0.mlp.down_proj.weight"][0]["std"] == pytest.approx(2 / (2 * 4))


def llama_events(model, inputs):
    return initialize(model, "llama", inputs=inputs).tensors.items()


@pytest.mark.parametrize("name", ["hf/llama", "hf/bert"])
def test_hugging_faces_own_llama_and_bert_are_unscaled(name):
    """What transformers builds, in law: .02 everywhere, without a factor for depth, which `gpt2` draws as unscaled."""
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}
    built, model = hugging_face(name, **sizes), hugging_face(name, **sizes)
    record = initialize(model, "gpt2", residual="unscaled", inputs=Inputs((12,), 50))
    weights = {n: events[0] for n, events in record.tensors.items() if events[0]["event"] == "drawn"}
    assert sum("down_proj" in n or "output.dense" in n for n in weights) in {3, 6}
    for n, event in weights.items():
        values = built.get_parameter(n).detach()
        row = event.get("padding_row")
        if row is not None:
            assert values[row].eq(0).all()
            values = torch.cat([values[:row], values[row + 1 :]])
        assert event["std"] == 0.02
        assert values.std().item() == pytest.approx(0.02, rel=5 / math.sqrt(2 * values.numel())), n


# --- Structure.


class Gated(nn.Module):
    """A gated feed-forward part whose gate and up projection are one layer."""

    def __init__(self, act):
        super().__init__()
        self.both, self.down, self.act = nn.Linear(16, 48), nn.Linear(24, 16), act

    def forward(self, x):
        if self.act is None:
            return self.down(functional.glu(self.both(x)))
        gate, up = self.both(x).chunk(2, -1)
        return self.down(self.act(gate) * up)


@pytest.mark.parametrize("act", [nn.SiLU(), nn.Sigmoid(), None])
def test_a_gate_and_an_up_projection_in_one_layer_are_refused(act):
    model = nn.Sequential(Stream(a=Attention(), f=FeedForward()), Stream(a=Attention(), f=Gated(act)))
    message = r"^llama: which outputs of 1\.f\.both are the gate and which the up projection is unknown; llama needs"
    with pytest.raises(InitializationError, match=message):
        initialize(model, "llama", input_shape=(1, 5, 16))
    assert initialize(model, "mitchell", input_shape=(1, 5, 16)).conditions["blocks"] == 2


def test_blocks_are_counted_in_the_order_in_which_they_run():
    """Registered in another order."""
    blocks = {"second": Stream(a=Attention(), f=FeedForward()), "first": Stream(a=Attention(), f=FeedForward())}

    class Reversed(nn.ModuleDict):
        def forward(self, x):
            return self["second"](self["first"](x))

    record = initialize(Reversed(blocks), "mitchell", input_shape=(1, 5, 16))
    for name, block in (("first", 1), ("second", 2)):
        assert record.tensors[f"{name}.a.back.weight"][0]["bound"] == pytest.approx(3 / math.sqrt(32 * block))


@pytest.mark.parametrize("name", ["small_init", "mitchell", "llama"])
def test_a_model_without_blocks_is_refused(name):
    with pytest.raises(InitializationError, match=f"^{name}: found no transformer block"):
        initialize(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), name, input_shape=(1, 4))


def test_positions_of_openais_gpt2():
    record = initialize(gpt(), "gpt2", residual="unscaled", position_std=0.01)
    assert record.tensors["wpe.weight"] == [drawn("normal", std=0.01, part="embedding")]
    assert record.tensors["wte.weight"] == [drawn("normal", std=0.02, part="embedding")]
    message = "^gpt2: position_std is for a parameter that is added as position embeddings, and the model has none$"
    for model in (gpt(positions="rotary"), hugging_face("hf/gpt2", n_layer=1, n_embd=16, n_head=2)):
        with pytest.raises(InitializationError, match=message):
            initialize(model, "gpt2", position_std=0.01, inputs=Inputs((6,), 11))


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("gpt2", {"position_std": 0.0}, "position_std must be"),
        ("llama", {"std": -1.0}, "std must be"),
        ("llama", {"cut": 0.0}, "cut must be"),
        ("llama", {"cut": 1e-4}, "cut must be at least 0.001, got 0.0001"),
    ],
)
def test_arguments_that_are_refused(name, arguments, message):
    with pytest.raises(ArgumentError, match=f"^{message}"):
        initialize(gpt(), name, **arguments)
