"""GradInit's scales on a Transformer after twelve iterations, against its authors' code in fairseq.

The numbers come from their repository, github.com/zhuchen03/gradinit at 777c4070c86bdf575c8df6254dbbab983173ef4f: the
function `gradinit_proc` of fairseq/gradinit/utils/gradinit_utils.py on `network` and `batches` below, in float64 and on
the CPU, with β₂, η, γ, the scales' learning rate and their ceiling as stated and all else as in their
launch/run_iwslt_14_gradinit_no_clipping.sh: β₁ = .9, a least scale of .01, a clip of 1e8. For SGD the flag that
normalizes gradients is set. A scale is what a parameter was multiplied by.
"""

from __future__ import annotations

import pytest
import torch
from authors import numbers
from small_transformer import pairs, transformer, word_loss

from initbench.initializers.initialize import initialize

CEILING = 1.02  # the authors' 100, but reached


def network(tied="none"):
    """A post-norm Transformer with dropout, which must be off."""
    model = transformer(tied=tied, depth=1, width=4, dropout=0.3, attention_dropout=0.3).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.3 * numbers(name, tuple(parameter.shape)))
            if name.endswith("layer_norm.weight"):
                parameter.add_(1.0)
    return model


def thirds(constrained):
    """The authors' batches of six sentences as half-batches: S is the first two thirds, S̃ the last two.

    `constrained` says of which iterations: these draw no third half-batch.
    """
    for index, is_constrained in enumerate(constrained):
        inputs, targets = pairs(6, seed=index)
        first, middle, last = zip(inputs.split(2), targets.split(2), strict=True)
        yield from (middle, first) if is_constrained else (middle, first, last)


AUTHORS = {
    "adam": (
        {"eta": 0.01, "gamma": 5.0},
        [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        {
            "encoder.embed_tokens.weight": 0.5818902174320296,
            "encoder.layers.0.self_attn.q_proj.weight": 1.175976370584223,
            "encoder.layers.0.self_attn_layer_norm.weight": 1.02,
            "encoder.layers.0.feed_forward.fc1.bias": 1.0258030857304454,
            "decoder.embed_tokens.weight": 0.5647457756243408,
            "decoder.layers.0.encoder_attn.v_proj.weight": 0.6062502520464622,
            "decoder.layers.0.encoder_attn_layer_norm.weight": 0.9895177902749945,
            "decoder.layers.0.final_layer_norm.weight": 0.605652033672059,
            "decoder.layers.0.final_layer_norm.bias": 1.370496729556834,
            "decoder.output_projection.weight": 0.5994192359113828,
        },
    ),
    "sgd": (
        {"eta": 0.15, "gamma": 0.6},
        [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        {
            "encoder.embed_tokens.weight": 0.8564959311455659,
            "encoder.layers.0.self_attn.q_proj.weight": 0.8090932058773794,
            "encoder.layers.0.self_attn_layer_norm.weight": 0.8743003367750747,
            "encoder.layers.0.feed_forward.fc1.bias": 1.1983938455477396,
            "decoder.embed_tokens.weight": 0.5909095130801096,
            "decoder.layers.0.encoder_attn.v_proj.weight": 1.0677204955592368,
            "decoder.layers.0.encoder_attn_layer_norm.weight": 0.7708238972836543,
            "decoder.layers.0.final_layer_norm.weight": 0.6776148358481067,
            "decoder.layers.0.final_layer_norm.bias": 1.0678211459691962,
            "decoder.output_projection.weight": 0.6027950738952941,
        },
    ),
}


@pytest.mark.parametrize("optimizer", AUTHORS)
def test_the_scales_of_the_authors_code(optimizer):
    """And at which iterations the gradient's norm was descended."""
    arguments, constrained, scales = AUTHORS[optimizer]
    model = network()
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    record = initialize(
        model,
        "gradinit",
        base=None,
        iterations=12,
        batches=thirds(constrained),
        loss_fn=word_loss,
        optimizer=optimizer,
        tau=0.05,
        betas=(0.9, 0.98),
        second_moment="own",
        norm_ceiling=CEILING,
        clip=None,
        **arguments,
    )
    assert [step["constrained"] for step in record.history] == constrained
    learned = record.conditions["scales"]
    # Twelve steps of Adam on derivatives of derivatives, in float64; Adam's first steps magnify small derivatives.
    assert {name: learned[name] for name in scales} == pytest.approx(scales, rel=1e-7)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, learned[name] * start[name], rtol=1e-12, atol=1e-12), name
    assert max(scale for name, scale in learned.items() if not name.endswith("norm.weight")) > CEILING


@pytest.mark.parametrize(("tied", "tensors"), [("none", 45), ("decoder", 44)])
def test_every_tensor_has_one_scale(tied, tensors):
    """Weights and biases of embeddings, linear layers and norms; a tied head none of its own."""
    model = network(tied)
    record = initialize(model, "gradinit", base=None, iterations=1, batches=thirds([0]), loss_fn=word_loss)
    assert set(record.conditions["scales"]) == {name for name, _ in model.named_parameters()}
    assert len(record.conditions["scales"]) == tensors
