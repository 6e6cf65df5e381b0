"""T-Fixup: the authors' factors, the law of each tensor, and the networks that it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from small_gpt import gpt
from small_transformer import pairs, transformer

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.initializers.tfixup import embedding_factors, factors
from initbench.structure.stacks import Stack

INPUTS = pairs()[0]


@pytest.mark.parametrize(("layers", "values"), [(6, (0.4280919, 0.3688940)), (12, (0.3599809, 0.3102016))])
def test_the_factors_of_the_authors(layers, values):
    stacks = (Stack("encoder", layers, ()), Stack("decoder", layers, ()))
    assert factors(stacks) == pytest.approx(values, abs=5e-8, rel=0)  # the last digit printed
    assert embedding_factors(stacks) == pytest.approx([values[1]] * 2, abs=5e-8, rel=0)


def test_the_deviations_of_the_published_network():
    """6 and 6 layers of width 512 and hidden 1024, one vocabulary for both; see Huang et al., 2020."""
    model = transformer(depth=6, width=512, heads=4, norm="none", source=32, target=32, tied="all")
    record = initialize(model, "tfixup", inputs=INPUTS)
    stds = {name: events[-1].get("std") for name, events in record.tensors.items()}
    layer = "encoder.layers.3."
    assert stds[f"{layer}self_attn.out_proj.weight"] == pytest.approx(0.0189192, abs=5e-8)
    assert stds[f"{layer}self_attn.v_proj.weight"] == pytest.approx(0.0189192, abs=5e-8)
    assert stds[f"{layer}feed_forward.fc1.weight"] == pytest.approx(0.0154474, abs=5e-8)
    assert stds["encoder.embed_tokens.weight"] == pytest.approx(0.0163030, abs=5e-8)
    assert stds[f"{layer}self_attn.q_proj.weight"] == pytest.approx(0.03125, abs=5e-8)
    assert stds["decoder.layers.0.encoder_attn.v_proj.weight"] == pytest.approx(0.0441942 * 0.3688940, abs=5e-8)


def test_the_law_of_each_tensor():
    model = transformer(depth=2, decoder_depth=3, width=64, norm="none", tied="none")
    initialize(model, "tfixup", inputs=INPUTS)
    factor = {"encoder": 0.67 * 2**-0.25, "decoder": 27**-0.25}
    embedding = {"encoder": 18**-0.25, "decoder": 27**-0.25}
    for name, parameter in model.named_parameters():
        stack, kind = name.partition(".")[0], name.rpartition(".")[2]
        attends = any(part in name for part in ("q_proj", "k_proj", "v_proj"))
        # Of n entries the deviation has a relative error of at most 1/√(2n), of the normal law.
        close = {"rel": 5 / math.sqrt(2 * parameter.numel())}
        if kind == "bias":
            assert parameter.abs().max() <= (1 / 8 if attends else 0)
            assert not attends or parameter.std().item() == pytest.approx(1 / (8 * math.sqrt(3)), **close)
        elif "embed_tokens" in name:
            real = parameter[1:]  # the row of padding is 0
            assert not parameter[0].any()
            assert real.std().item() == pytest.approx(embedding[stack] / 8, **close)
        elif "output_projection" in name:
            assert parameter.std().item() == pytest.approx(1 / 8, **close)
        else:
            gain = math.sqrt(0.5) if "q_proj" in name or "k_proj" in name else factor[stack]
            std = gain * math.sqrt(2 / sum(parameter.shape))
            assert parameter.std().item() == pytest.approx(std, **close)
            assert parameter.abs().max() <= math.sqrt(3) * std * (1 + 1e-6)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            lambda: transformer(norm="post"),
            r"is for networks without normalization \(norm: none\), and there is encoder",
        ),
        (
            lambda: transformer(norm="pre"),
            r"is for networks without normalization \(norm: none\), and there is encoder",
        ),
        (lambda: gpt(norm="none"), r"needs an encoder and a decoder; there is one stack of layers"),
    ],
)
def test_other_networks_are_refused(model, reason):
    model = model()
    inputs = INPUTS if hasattr(model, "encoder") else torch.zeros(1, 3, dtype=torch.int64)
    with pytest.raises(InitializationError, match=rf"^tfixup: {reason}"):
        initialize(model, "tfixup", inputs=inputs)
