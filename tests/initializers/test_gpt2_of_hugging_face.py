"""Hugging Face's GPT-2: `gpt2` gives it the laws that it gives our own, which are those that it is built with."""

from __future__ import annotations

import math

import pytest
import torch
from recorded import tied
from scipy import stats

from initbench import randomness
from initbench.architectures.create import create_model
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs

DEPTH, WIDTH, TOKENS = 3, 64, Inputs((40,), 300)
HF = {"n_positions": 40, "n_layer": DEPTH, "n_embd": WIDTH, "n_head": 4}
OURS = {"depth": DEPTH, "width": WIDTH, "heads": 4}
# Ours has a layer for each of queries, keys and values.
PARTS = {"ln_1": ["ln_1"], "ln_2": ["ln_2"], "mlp.c_fc": ["mlp.c_fc"], "mlp.c_proj": ["mlp.c_proj"]} | {
    "attn.c_attn": ["attn.c_q", "attn.c_k", "attn.c_v"],
    "attn.c_proj": ["attn.c_proj"],
}


def same_parameters():
    """For each parameter of Hugging Face's those of ours."""
    blocks = {f"h.{i}.{hf}": [f"h.{i}.{name}" for name in ours] for i in range(DEPTH) for hf, ours in PARTS.items()}
    pairs = {
        f"transformer.{hf}.{kind}": [f"{name}.{kind}" for name in ours]
        for hf, ours in (blocks | {"ln_f": ["ln_f"]}).items()
        for kind in ("weight", "bias")
    }
    return pairs | {f"transformer.{name}.weight": [f"{name}.weight"] for name in ("wte", "wpe")}


def build(name, seed=0, **arguments):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return create_model(name, inputs=TOKENS, num_classes=300, **arguments)


@pytest.mark.parametrize("arguments", [{}, {"residual": "unscaled"}, {"residual": "zero"}, {"std": 0.1}])
def test_hugging_faces_and_our_gpt_have_the_same_laws(arguments):
    hf, ours = build("hf/gpt2", **HF), build("gpt", **OURS)
    theirs, own = (initialize(model, "gpt2", inputs=TOKENS, **arguments) for model in (hf, ours))
    pairs = same_parameters()
    assert theirs.conditions["blocks"] == own.conditions["blocks"] == DEPTH
    for name, names in pairs.items():
        shapes = [ours.get_parameter(other).shape for other in names]
        size = torch.Size([sum(shape[0] for shape in shapes), *shapes[0][1:]])
        assert hf.get_parameter(name).shape == (size if name.endswith(("wte.weight", "wpe.weight")) else size[::-1])
        for other in names:
            assert theirs.tensors[name] == own.tensors[other], (name, other)
    assert set(theirs.tensors) == {*pairs, "lm_head.weight"}
    assert set(own.tensors) == {other for names in pairs.values() for other in names} | {"lm_head.weight"}
    assert theirs.tensors["lm_head.weight"] == [tied("transformer.wte.weight")]
    assert own.tensors["lm_head.weight"] == [tied("wte.weight")]
    mapped = [other for name in theirs.conditions["residual_projections"] for other in pairs[name]]
    assert mapped == own.conditions["residual_projections"]


@pytest.mark.parametrize("seed", [0, 1])
def test_hugging_faces_own_initialization_has_these_laws(seed):
    """Of n normal entries the deviation s has the standard error σ / √(2n): it is within 5 of them, for each tensor.

    The four laws' entries, together, are normal by a test of Kolmogorov and Smirnov.
    """
    built, drawn = build("hf/gpt2", seed, **HF), build("hf/gpt2", seed, **HF)
    record = initialize(drawn, "gpt2", seed=seed, inputs=TOKENS)
    assert {name for name, _ in built.named_parameters()} == set(same_parameters())
    standard = {"built": [], "drawn": []}
    for name in same_parameters():
        [event] = record.tensors[name]
        for how, model in (("built", built), ("drawn", drawn)):
            values = model.get_parameter(name).detach().flatten().double()
            if event["event"] == "filled":
                assert values.eq(event["value"]).all(), (how, name)
            else:
                assert event["law"] == "normal"
                scaled = values / event["std"]
                assert scaled.std().item() == pytest.approx(1, rel=5 / math.sqrt(2 * len(values))), (how, name)
                assert scaled.mean().item() == pytest.approx(0, abs=5 / math.sqrt(len(values))), (how, name)
                standard[how].append(scaled)
    for entries in standard.values():
        assert stats.kstest(torch.cat(entries).numpy(), stats.norm.cdf).pvalue > 1e-3


def test_the_projections_are_divided_by_the_root_of_twice_the_depth():
    """What the laws above say in numbers: .02, .02 / √6 for what ends a branch, 0 and 1."""
    record = initialize(build("hf/gpt2", **HF), "gpt2", inputs=TOKENS)
    for name, [event, *_] in record.tensors.items():
        kind = name.rpartition(".")[2]
        if name == "lm_head.weight":
            continue
        if kind == "bias" or ".ln_" in name:
            assert event == {"event": "filled", "value": float(kind == "weight")}
        else:
            std = 0.02 / math.sqrt(6) if "c_proj" in name else 0.02
            assert event["std"] == pytest.approx(std, rel=1e-15), name


def test_each_draw_has_the_stream_of_its_name():
    model = build("hf/gpt2", **HF)
    initialize(model, "gpt2", seed=7, inputs=TOKENS)
    name = "transformer.h.1.attn.c_attn.weight"
    generator = randomness.generator(7, "weights", name)
    assert torch.equal(model.get_parameter(name), torch.empty(WIDTH, 3 * WIDTH).normal_(0, 0.02, generator=generator))
