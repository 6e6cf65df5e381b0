"""Every initializer on the encoder-decoder transformer: it sets or names each tensor, or says why not."""

from __future__ import annotations

import pytest
import torch
from small_transformer import LONGEST, SOURCE_WORDS, TARGET_WORDS, pairs, transformer
from torch.nn import functional

from initbench.architectures.rewrite import rewrite
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.initializers.record import changes
from initbench.inputs import PAD, Inputs
from initbench.registry import INITIALIZERS

BRANCH = "residual branch of encoder.layers.0 ends in no scalar multiplier; initbench.rewrite"
# What a plain transformer lacks, whatever its norm.
REFUSED = {
    "admin": "admin: no shortcut has a scale; initbench.rewrite",
    "data_dependent_weight_norm": "weight_norm: the model has no weight-normalized layers",
    "deepnorm": "deepnorm: no shortcut is multiplied by α; initbench.rewrite",
    "fixup": f"fixup: the {BRANCH}",
    "layer_scale": "layer_scale: no residual branch ends in a gate; initbench.rewrite",
    "skipinit": f"skipinit: the {BRANCH}",
    "weight_norm": "weight_norm: the model has no weight-normalized layers",
}
WITH_NORMS = {"tfixup": "tfixup: is for networks without normalization (norm: none), and there is encoder.layers.0"}
OF_A_BASE = {"completep", "mup"}
SCHEME = {name: INITIALIZERS.get(name).traits.scheme or "skipinit" for name in REFUSED}


def run(model, name, **arguments):
    """Initialize a model of pairs of sentences, with few steps and random batches."""
    component = INITIALIZERS.get(name)
    arguments = dict(component.traits.smoke) | arguments
    known = {argument.name for argument in component.arguments}
    arguments |= {"data": "random"} if "data" in known else {}
    arguments |= {"batch_size": 4} if "batch_size" in known else {}
    inputs = Inputs((2, LONGEST), SOURCE_WORDS)
    return initialize(model, name, task="translation", inputs=inputs, num_classes=TARGET_WORDS, **arguments)


def check_all_said(model, record):
    """Every tensor is finite, and either set or named with what was left."""
    assert set(record.tensors) == {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert torch.isfinite(model.eval()(pairs()[0])).all()
    for name in ("encoder.embed_tokens", "decoder.layers.1.encoder_attn.v_proj", "decoder.layers.1.feed_forward.fc2"):
        weight = next(n for n in record.tensors if n.startswith(name) and ("weight" in n))
        assert any(map(changes, record.tensors[weight])), weight


@pytest.mark.parametrize("norm", ["post", "pre", "none"])
@pytest.mark.parametrize("name", sorted({*INITIALIZERS.builtins} - OF_A_BASE))
def test_every_initializer_runs_or_says_why_not(name, norm):
    model = transformer(norm=norm)
    reason = WITH_NORMS.get(name) if norm != "none" else None
    if reason := reason or REFUSED.get(name):
        with pytest.raises(InitializationError) as refused:
            run(model, name)
        assert reason in str(refused.value)
        assert "\n" not in str(refused.value)
        return
    check_all_said(model, run(model, name))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_those_that_need_a_scheme_run_on_it(name):
    if name in {"admin", "deepnorm"}:
        model = rewrite(transformer(norm="post"), name, inputs=pairs()[0])
    else:
        model = transformer(norm="none", scheme=SCHEME[name], tied="none")
    check_all_said(model, run(model, name))


@pytest.mark.parametrize("name", sorted(OF_A_BASE))
def test_those_of_a_base_run_with_an_untied_head_and_refuse_a_tied_one(name):
    arguments = {"base_width": 4, "attention_heads": "wider", "training_optimizer": ("adam", 1e-3)}
    model = transformer(tied="none", norm="pre")
    record = run(model, name, **arguments)
    check_all_said(model, record)
    roles = record.conditions["roles"]
    for stack in ("encoder", "decoder"):
        assert roles[f"{stack}.embed_tokens.weight"] == "input"
        assert roles[f"{stack}.layers.1.self_attn.k_proj.weight"] == "hidden"
    assert roles["decoder.output_projection.weight"] == "output"
    with pytest.raises(InitializationError, match="is shared by input and output layers; untie it"):
        run(transformer(), name, **arguments)


def test_gpt2_counts_the_blocks_of_both_stacks_and_takes_all_projections():
    model = transformer(depth=2, decoder_depth=3)
    conditions = run(model, "gpt2").conditions
    assert conditions["blocks"] == 5
    ends = [f"encoder.layers.{i}.{end}" for i in range(2) for end in ("self_attn.out_proj", "feed_forward.fc2")]
    parts = ("self_attn.out_proj", "encoder_attn.out_proj", "feed_forward.fc2")
    ends += [f"decoder.layers.{i}.{end}" for i in range(3) for end in parts]
    assert set(conditions["residual_projections"]) == {f"{end}.weight" for end in ends}


def test_zero_leaves_every_branch_adding_nothing():
    model = transformer(norm="none")
    run(model, "zero")
    inputs, _ = pairs()
    torch.testing.assert_close(
        model(inputs), model.decoder.output_projection(model.decoder.embed(inputs[:, 1])), rtol=0, atol=0
    )


def test_gradinit_joins_half_batches_of_sentences_that_differ_in_length():
    short, long = pairs(3, longest=5), pairs(3, longest=LONGEST, seed=1)
    filled = tuple(functional.pad(tensor, (0, LONGEST - 5), value=PAD) for tensor in short)
    scales = []
    for half in (short, filled):
        model, inputs = transformer(), Inputs((2, LONGEST), SOURCE_WORDS)
        known = {"task": "translation", "inputs": inputs, "num_classes": TARGET_WORDS, "batches": [half, long] * 5}
        record = initialize(model, "gradinit", base="fairseq", iterations=3, batch_size=3, gamma=100.0, **known)
        check_all_said(model, record)
        # Biases of keys do not change softmax's weights: their derivatives are rounding, which Adam magnifies.
        found = record.conditions["scales"].items()
        scales.append({name: scale for name, scale in found if not name.endswith("k_proj.bias")})
    assert scales[0] == pytest.approx(scales[1], rel=1e-4)
    assert len(set(scales[0].values())) > 1
