"""gpt: GPT-2's size and function, causality, positions, where norms stand, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from branches import residual_branches
from cases import randomize
from small_gpt import CONTEXT, VOCABULARY, gpt, next_token_loss, tokens
from torch import nn

from initbench.architectures.create import create_model
from initbench.architectures.gpt import Rotary
from initbench.errors import ArgumentError, InitbenchError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs

NORMS = ["pre", "post", "none"]
VARIANTS = [
    {},
    {"norm": "post", "bias": False, "tied": False},
    {"norm": "none", "activation": "swiglu", "positions": "rotary"},
    {"norm_type": "rms", "activation": "relu"},
]


def test_gpt2_has_its_number_of_parameters():
    with torch.device("meta"):
        model = create_model("gpt", inputs=Inputs((1024,), 50257), num_classes=50257)
    assert sum(p.numel() for p in model.parameters()) == 124_439_808


def test_swiglu_has_as_many_parameters_as_two_layers():
    number = {
        name: sum(p.numel() for p in gpt(width=48, activation=name, bias=False).parameters())
        for name in ("gelu", "swiglu")
    }
    assert number["gelu"] == number["swiglu"]


# --- The function of Hugging Face's GPT-2.


def hugging_face(**sizes):
    """Their model, randomly initialized, and ours with its weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="sdpa", **sizes))
    c = theirs.config
    ours = create_model(
        "gpt",
        depth=c.n_layer,
        width=c.n_embd,
        heads=c.n_head,
        dropout=c.resid_pdrop,
        inputs=Inputs((c.n_positions,), c.vocab_size),
        num_classes=c.vocab_size,
    )
    ours.load_state_dict(translated(theirs.state_dict()))
    return theirs, ours


def translated(theirs):
    """Their tensors by our names: their linear layers are stored as (inputs, outputs), and c_attn is ours in three."""
    found = {}
    for key, value in theirs.items():
        name = key.removeprefix("transformer.")
        stored = value.T if value.dim() == 2 and ".c_" in name else value
        if "c_attn" in name:
            found |= {name.replace("c_attn", f"c_{n}"): part for n, part in zip("qkv", stored.chunk(3), strict=True)}
        else:
            found[name] = stored
    return found


SMALL = {"n_layer": 3, "n_embd": 24, "n_head": 3, "n_positions": 16, "vocab_size": 50}


def test_logits_are_those_of_hugging_face():
    theirs, ours = hugging_face(**SMALL)
    inputs, _ = tokens(3, 16, vocabulary=50)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(inputs), theirs.eval()(inputs).logits, rtol=0, atol=1e-5)


def test_gradients_are_those_of_hugging_face():
    theirs, ours = (model.double().eval() for model in hugging_face(**SMALL))
    inputs, targets = tokens(3, 16, vocabulary=50)
    next_token_loss(ours(inputs), targets).backward()
    next_token_loss(theirs(inputs).logits, targets).backward()
    expected = translated({name: p.grad for name, p in theirs.named_parameters()})
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=0, atol=1e-9)


def test_dropout_stands_where_hugging_face_has_it():
    """The same random numbers are drawn in the same order for tensors of the same shapes."""
    theirs, ours = (model.train() for model in hugging_face(**SMALL))
    inputs, _ = tokens(3, 16, vocabulary=50)
    outputs = []
    for model in (theirs, ours):
        torch.manual_seed(1)
        outputs.append(model(inputs))
    torch.testing.assert_close(outputs[1], outputs[0].logits, rtol=0, atol=1e-5)
    assert not torch.equal(ours(inputs), ours(inputs))


@pytest.mark.slow
def test_logits_are_those_of_hugging_face_at_full_size():
    theirs, ours = hugging_face()
    inputs, _ = tokens(1, 64, vocabulary=50257)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(inputs), theirs.eval()(inputs).logits, rtol=0, atol=1e-5)


# --- Where norms stand, written out.


def written_out(model, inputs, heads, norm, norm_type="layer", activation="gelu", *, rotary=False):  # noqa: C901
    """The logits in plain operations on the parameters, position by position and head by head."""
    p = dict(model.named_parameters())

    def linear(name, x):
        return x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0)

    def normalized(name, x):
        if norm_type == "rms":
            return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"]
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return centred / deviation * p[f"{name}.weight"] + p.get(f"{name}.bias", 0)

    def turned(x):
        """Pairs of features as complex numbers, times e^(i·t·θ)."""
        half = x.shape[-1] // 2
        theta = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * theta
        z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([z.real, z.imag], -1)

    def attention(name, x):
        parts = []
        for q, k, v in zip(*(linear(f"{name}.c_{n}", x).chunk(heads, -1) for n in "qkv"), strict=True):
            scores = (turned(q) @ turned(k).mT if rotary else q @ k.mT) / math.sqrt(q.shape[-1])
            weights = scores.exp() * torch.ones_like(scores).tril()
            parts.append(weights / weights.sum(-1, keepdim=True) @ v)
        return linear(f"{name}.c_proj", torch.cat(parts, -1))

    def feed_forward(name, x):
        x1 = linear(f"{name}.c_fc", x)
        if activation == "swiglu":
            gate = linear(f"{name}.c_gate", x)
            hidden = gate / (1 + (-gate).exp()) * x1
        elif activation == "relu":
            hidden = x1.clamp_min(0)
        else:
            hidden = x1 / 2 * (1 + (math.sqrt(2 / math.pi) * (x1 + 0.044715 * x1**3)).tanh())
        return linear(f"{name}.c_proj", hidden)

    x = p["wte.weight"][inputs]
    if not rotary:
        x = x + p["wpe.weight"][: inputs.shape[1]]
    for index in range(len(model.h)):
        for branch, part, ln in ((attention, "attn", "ln_1"), (feed_forward, "mlp", "ln_2")):
            name, at = f"h.{index}.{part}", f"h.{index}.{ln}"
            if norm == "post":
                x = normalized(at, x + branch(name, x))
            else:
                x = x + branch(name, normalized(at, x) if norm == "pre" else x)
    if norm == "pre":
        x = normalized("ln_f", x)
    return x @ p.get("lm_head.weight", p["wte.weight"]).T


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("further", [{}, {"norm_type": "rms", "bias": False}, {"activation": "relu", "tied": False}])
def test_it_is_the_function_written_out(norm, further):
    model = randomize(gpt(norm=norm, **further), 0.4)
    inputs, _ = tokens(3, CONTEXT - 1)
    shown = {key: value for key, value in further.items() if key in {"norm_type", "activation"}}
    expected = written_out(model, inputs, 2, norm, **shown)
    torch.testing.assert_close(model(inputs), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
def test_rotary_and_swiglu_written_out(norm):
    """The table of angles is in float32, so that numbers of about 1 agree to 1e-6 or so."""
    model = randomize(gpt(norm=norm, positions="rotary", activation="swiglu", width=16), 0.3)
    inputs, _ = tokens()
    expected = written_out(model, inputs, 2, norm, activation="swiglu", rotary=True)
    torch.testing.assert_close(model(inputs), expected, rtol=1e-5, atol=1e-5)


# --- Causality and positions.


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_token_changes_no_logit_before_it(variant):
    model = randomize(gpt(**variant))
    inputs, _ = tokens()
    for place in range(CONTEXT):
        changed = inputs.clone()
        changed[:, place] = (changed[:, place] + 1) % VOCABULARY
        before, after = model(inputs), model(changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert (before[:, place:] != after[:, place:]).flatten(2).any(2).all(), "what follows sees it"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_shorter_text_is_the_beginning_of_a_longer_one(variant):
    model = randomize(gpt(**variant))
    inputs, _ = tokens()
    torch.testing.assert_close(model(inputs[:, :3]), model(inputs)[:, :3], rtol=1e-12, atol=1e-12)


def test_rotary_scores_depend_on_distances_alone():
    """⟨R(i)q, R(j)k⟩ for one q and one k at all places: constant along diagonals, not across; norms are kept."""
    rotary = Rotary(16, 64)
    q, k = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    turned_q, turned_k = (rotary(x.expand(1, 1, 64, 16))[0, 0] for x in (q, k))
    scores = turned_q @ turned_k.T
    for distance in range(-60, 61):
        diagonal = scores.diagonal(distance)
        # A float32 angle of 63 is off by 63 · 6e-8, in each of 16 products of entries of about 1.
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)
    assert scores[0].std() > 0.5
    torch.testing.assert_close(turned_q.norm(dim=1), q.norm().expand(64), rtol=1e-5, atol=0)


def test_rotary_adds_no_parameter_and_learned_positions_are_one():
    names = {kind: {n for n, _ in gpt(positions=kind).named_parameters()} for kind in ("learned", "rotary")}
    assert names["learned"] - names["rotary"] == {"wpe.weight"}
    assert names["rotary"] < names["learned"]
    assert not any("rotary" in name for name in gpt(positions="rotary").state_dict())


# --- Schemes.


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_its_residual_branches(norm, activation):
    branches = residual_branches(gpt(norm=norm, activation=activation, dropout=0.1), (CONTEXT,), vocabulary=1)
    gated = ("c_gate", "c_fc") if activation == "swiglu" else ("c_fc",)
    expected = [("attn", ("c_q", "c_k", "c_v")), ("mlp", gated)] * 2
    assert len(branches) == 4
    for index, (branch, (part, inner)) in enumerate(zip(branches, expected, strict=True)):
        name = f"h.{index // 2}.{part}"
        assert (branch.block, branch.output, branch.depth) == (f"h.{index // 2}", name, 2)
        assert branch.inner == tuple(f"{name}.{layer}" for layer in inner)
        assert branch.ends == (f"{name}.c_proj",)


@pytest.mark.parametrize("tied", [True, False])
def test_with_skipinit_it_is_a_model_without_branches(tied):
    """ReZero: x + α F(x) with α = 0."""
    model = gpt(norm="none", scheme="skipinit", tied=tied)
    initialize(model, "skipinit")
    inputs, targets = tokens()
    expected = model.lm_head(model.wte(inputs) + model.wpe(torch.arange(CONTEXT)))
    assert torch.equal(model(inputs), expected)
    next_token_loss(model(inputs), targets).backward()
    gates = {f"h.{i}.{part}.multiplier.scale" for i in range(2) for part in ("attn", "mlp")}
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.ne(0).any()}
    assert moved == gates | {"wte.weight", "wpe.weight"} | (set() if tied else {"lm_head.weight"})


def test_with_fixup_the_loss_is_that_of_guessing_and_the_head_alone_moves():
    model = gpt(norm="none", scheme="fixup", tied=False)
    record = initialize(model, "fixup")
    inputs, targets = tokens()
    loss = next_token_loss(model(inputs), targets)
    assert loss.item() == pytest.approx(math.log(VOCABULARY), rel=1e-6)
    loss.backward()
    assert {n for n, p in model.named_parameters() if p.grad is not None and p.grad.ne(0).any()} == {"lm_head.weight"}
    slow = {name for name, _ in model.named_parameters() if name.endswith((".bias", ".scale"))}
    assert record.learning_rate_multipliers == dict.fromkeys(slow, 0.1)
    # Before queries, keys and values, before each c_proj and c_fc, before the activation and the head.
    assert sum(p.numel() == 1 for p in model.parameters()) == 2 * (5 + 2) + 1


def test_with_weight_norm_all_linear_layers_but_the_head_are_normalized():
    model = gpt(norm="none", scheme="weight_norm")
    names = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    normalized = {name for name in names if hasattr(model.get_submodule(name), "parametrizations")}
    assert names - normalized == {"lm_head"}
    assert model.lm_head.weight is model.wte.weight


# --- What is refused.


@pytest.mark.parametrize(
    ("arguments", "argument", "problem"),
    [
        ({"depth": 0}, "depth", "must be at least 1, got 0"),
        ({"depth": 10**6}, "depth", "must be at most 10000"),
        ({"width": 9}, "width", "must be a multiple of heads, 2, got 9"),
        ({"heads": 0}, "heads", "must be at least 1, got 0"),
        ({"width": 6, "positions": "rotary"}, "heads", "must make width / heads even for rotary positions, got 6 / 2"),
        ({"dropout": 1.0}, "dropout", "must be at least 0 and less than 1"),
        ({"num_classes": 5}, "tied", "must be false for 11 tokens and 5 outputs, got true"),
        ({"inputs": Inputs((3, 8, 8))}, "inputs", r"must be \(positions,\) of tokens, got 3×8×8"),
        ({"scheme": "skipinit"}, "norm", "must be none for scheme skipinit, got pre"),
        ({"scheme": "fixup", "norm": "none"}, "tied", "must be false for scheme fixup"),
        ({"norm": "batch"}, "norm", "batch"),
    ],
)
def test_impossible_arguments(arguments, argument, problem):
    sizes = {"depth": 1, "width": 8, "heads": 2, "inputs": Inputs((CONTEXT,), VOCABULARY), "num_classes": VOCABULARY}
    with pytest.raises(ArgumentError, match=problem) as refused:
        create_model("gpt", **sizes | arguments)
    assert refused.value.argument == argument
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_text_that_is_longer_than_the_context(positions):
    inputs, _ = tokens(2, CONTEXT + 1)
    with pytest.raises(InitbenchError, match=rf"^gpt has a context of {CONTEXT} tokens, got {CONTEXT + 1}$"):
        gpt(positions=positions)(inputs)
