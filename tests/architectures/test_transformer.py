"""transformer: its size, the function of torch's Transformer, positions, padding, schemes, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from cases import randomize
from small_transformer import LONGEST, SOURCE_WORDS, TARGET_WORDS, pairs, transformer, word_loss
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError, InitbenchError
from initbench.initializers.initialize import initialize
from initbench.inputs import END, PAD, Inputs

NORMS = ["post", "pre", "none"]


@pytest.mark.parametrize(
    ("source", "target", "tied", "parameters"),
    [
        # fairseq's counts for IWSLT'14 with two dictionaries, and with a joint one
        (8848, 6632, "decoder", 39_469_056),
        (10_152, 10_152, "all", 36_741_120),
        (8848, 6632, "none", 39_469_056 + 6632 * 512),
    ],
)
def test_it_has_the_number_of_parameters_of_fairseq(source, target, tied, parameters):
    with torch.device("meta"):
        model = create_model("transformer", inputs=Inputs((2, 1024), source), num_classes=target, tied=tied)
    assert sum(p.numel() for p in model.parameters()) == parameters


# --- The function of torch's Transformer.


def torch_layer(layer, prefix):
    """Tensors of a layer by torch's names."""
    tensors = {}
    attentions = [("self_attn", "self_attn"), ("encoder_attn", "multihead_attn")]
    norms = [("self_attn_layer_norm", "norm1"), ("encoder_attn_layer_norm", "norm2")]
    attentions = [(ours, theirs) for ours, theirs in attentions if hasattr(layer, ours)]
    norms = [*norms[: len(attentions)], ("final_layer_norm", f"norm{len(attentions) + 1}")]
    for name, theirs in attentions:
        ours = getattr(layer, name)
        for part in ("weight", "bias"):
            three = [getattr(getattr(ours, f"{role}_proj"), part) for role in "qkv"]
            tensors[f"{theirs}.in_proj_{part}"] = three
            tensors[f"{theirs}.out_proj.{part}"] = [getattr(ours.out_proj, part)]
    modules = [(getattr(layer, name), theirs) for name, theirs in norms]
    modules += [(layer.feed_forward.fc1, "linear1"), (layer.feed_forward.fc2, "linear2")]
    for module, theirs in modules:
        tensors |= {f"{theirs}.{part}": [getattr(module, part)] for part in ("weight", "bias")}
    return {f"{prefix}.{name}": parts for name, parts in tensors.items()}


def torch_names(model):
    """Torch's name of each tensor → the tensors of ours that it stacks."""
    tensors = {}
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        for index, layer in enumerate(stack.layers):
            tensors |= torch_layer(layer, f"{name}.layers.{index}")
        if isinstance(stack.layer_norm, nn.LayerNorm):
            tensors |= {f"{name}.norm.{part}": [getattr(stack.layer_norm, part)] for part in ("weight", "bias")}
    return tensors


def torch_transformer(model, norm, *, encoder, decoder):
    """Torch's Transformer with the weights of ours; for post-norm without its two final norms."""
    width, hidden = model.encoder.layers[0].feed_forward.fc1.weight.shape[::-1]
    theirs = nn.Transformer(
        width, 2, encoder, decoder, hidden, dropout=0.0, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    if norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    theirs.load_state_dict({name: torch.cat(list(parts)).detach() for name, parts in torch_names(model).items()})
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("depths", [(2, 3), (3, 1)])
def test_logits_and_gradients_are_those_of_torch(norm, depths):
    encoder, decoder = depths
    model = randomize(transformer(norm=norm, depth=encoder, decoder_depth=decoder, hidden=12, tied="none"))
    theirs = torch_transformer(model, norm, encoder=encoder, decoder=decoder)
    inputs, targets = pairs(6)
    source, shifted = inputs.unbind(1)
    ours_logits = model(inputs)
    states = theirs(
        model.encoder.embed(source),
        model.decoder.embed(shifted),
        tgt_mask=torch.ones(LONGEST, LONGEST, dtype=torch.bool).triu(1),
        src_key_padding_mask=source == PAD,
        tgt_key_padding_mask=shifted == PAD,
        memory_key_padding_mask=source == PAD,
    )
    their_logits = states @ model.decoder.output_projection.weight.T
    real = targets != PAD
    torch.testing.assert_close(ours_logits[real], their_logits[real], rtol=1e-12, atol=1e-12)

    word_loss(ours_logits, targets).backward()
    embeddings = [stack.embed_tokens.weight for stack in (model.encoder, model.decoder)]
    ours = [weight.grad.clone() for weight in embeddings]
    for weight in embeddings:
        weight.grad = None
    word_loss(their_logits, targets).backward()
    for weight, gradient in zip(embeddings, ours, strict=True):
        torch.testing.assert_close(gradient, weight.grad, rtol=1e-12, atol=1e-12)
    names = torch_names(model)
    for name, parameter in theirs.named_parameters():
        expected = torch.cat([part.grad for part in names[name]])
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-12, atol=1e-12)


def test_without_norm_branches_are_added_alone():
    """With all weights of branches at 0 the logits are those of the embeddings; no norm changes them."""
    model = randomize(transformer(norm="none"))
    for layer in (*model.encoder.layers, *model.decoder.layers):
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
    inputs, _ = pairs()
    decoder = model.decoder
    words = math.sqrt(8) * decoder.embed_tokens.weight[inputs[:, 1]]
    expected = (words + decoder.embed_positions.table) @ decoder.output_projection.weight.T
    torch.testing.assert_close(model(inputs), expected, rtol=1e-12, atol=1e-12)


# --- Positions, causality and padding.


def test_positions_are_those_of_fairseq():
    """Sines, then cosines, of p · 10000^(−i/(d/2−1)) for p = 2, 3, …; the table is in float32."""
    width = 12
    table = transformer(width=width).encoder.embed_positions.table
    for index, position in enumerate(range(2, 2 + LONGEST)):
        angles = [position * 10000 ** (-i / (width / 2 - 1)) for i in range(width // 2)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert table[index].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_padding_changes_no_output(norm):
    model = randomize(transformer(norm=norm))
    inputs, targets = pairs(8)
    logits = model(inputs)
    for row in range(len(inputs)):
        real = targets[row] != PAD
        read = int((inputs[row, 0] != PAD).sum())
        alone = model.decoder(inputs[row : row + 1, 1][:, real], model.encode(inputs[row : row + 1, 0, :read]), None)
        torch.testing.assert_close(logits[row][real], alone[0], rtol=1e-12, atol=1e-12)


def test_no_target_sees_what_follows_it_and_all_see_the_source():
    model = randomize(transformer())
    inputs, _ = pairs(1)
    before = model(inputs)
    for place in range(1, LONGEST):
        changed = inputs.clone()
        changed[0, 1, place] = END + 1 + inputs[0, 1, place] % (TARGET_WORDS - 2)
        assert not torch.equal(changed, inputs)
        after = model(changed)
        assert torch.equal(before[:, :place], after[:, :place])
        assert (before[:, place:] != after[:, place:]).any(2).all()
        changed = inputs.clone()
        changed[0, 0, place - 1] = END + 1 + inputs[0, 0, place - 1] % (SOURCE_WORDS - 2)
        assert (before != model(changed)).any(2).all()


def test_sentences_of_padding_alone_have_finite_outputs():
    inputs, _ = pairs()
    inputs[1] = PAD
    model = randomize(transformer())
    assert model(inputs).isfinite().all()
    assert model(torch.zeros_like(inputs)).isfinite().all()


def test_each_rate_drops_in_training_alone():
    """Training passes differ with each of the rates, and evaluation does not."""
    inputs, _ = pairs()
    for rate in ("dropout", "attention_dropout", "activation_dropout"):
        torch.manual_seed(0)
        model = transformer(**{rate: 0.5})
        assert not torch.equal(model(inputs), model(inputs)), rate
        assert torch.equal(model.eval()(inputs), model(inputs)), rate


# --- Tied weights.


@pytest.mark.parametrize(("tied", "separate"), [("none", 3), ("decoder", 2), ("all", 1)])
def test_tied_weights(tied, separate):
    model = transformer(source=TARGET_WORDS, tied=tied)
    weights = [model.encoder.embed_tokens.weight, model.decoder.embed_tokens.weight]
    weights.append(model.decoder.output_projection.weight)
    assert len({id(weight) for weight in weights}) == separate
    assert (weights[1] is weights[2]) == (tied != "none")
    assert all(weight.device.type == "cpu" for weight in weights)


# --- Schemes.


@pytest.mark.parametrize("tied", ["none", "decoder"])
def test_with_skipinit_it_is_a_model_without_branches(tied):
    """ReZero: x + α F(x) with α = 0, in both stacks."""
    model = transformer(norm="none", scheme="skipinit", tied=tied)
    initialize(model, "skipinit", inputs=Inputs((2, LONGEST), SOURCE_WORDS))
    inputs, targets = pairs()
    assert torch.equal(model(inputs), model.decoder.output_projection(model.decoder.embed(inputs[:, 1])))
    word_loss(model(inputs), targets).backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.ne(0).any()}
    parts = ("self_attn", "encoder_attn", "feed_forward")
    gates = {f"decoder.layers.{i}.{part}.multiplier.scale" for i in range(2) for part in parts}
    head = {"decoder.output_projection.weight"} if tied == "none" else set()
    assert moved == gates | {"decoder.embed_tokens.weight"} | head, "the encoder is reached through the branches alone"


def test_with_fixup_the_loss_is_that_of_guessing_and_the_head_alone_moves():
    model = transformer(norm="none", scheme="fixup", tied="none")
    record = initialize(model, "fixup", inputs=Inputs((2, LONGEST), SOURCE_WORDS))
    inputs, targets = pairs()
    loss = word_loss(model(inputs), targets)
    assert loss.item() == pytest.approx(math.log(TARGET_WORDS), rel=1e-6)
    loss.backward()
    moved = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.ne(0).any()}
    assert moved == {"decoder.output_projection.weight"}
    slow = {name for name, _ in model.named_parameters() if name.endswith((".bias", ".scale"))}
    assert record.learning_rate_multipliers == dict.fromkeys(slow, 0.1)
    # Self-attention has biases before q, k, v and out_proj, cross-attention one more, before k and v of the encoder's
    # output, a feed-forward part has 3; each ends in a multiplier, and one bias precedes the head.
    assert sum(p.numel() == 1 for p in model.parameters()) == 2 * (3 + 4) + 2 * (3 + 4 + 4) + 1


def test_with_weight_norm_all_linear_layers_but_the_head_are_normalized():
    model = transformer(norm="none", scheme="weight_norm")
    names = {name for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    normalized = {name for name in names if hasattr(model.get_submodule(name), "parametrizations")}
    assert names - normalized == {"decoder.output_projection"}
    assert model.decoder.output_projection.weight is model.decoder.embed_tokens.weight


# --- What is refused.


@pytest.mark.parametrize(
    ("arguments", "argument", "problem"),
    [
        ({"depth": 0}, "depth", "must be from 1 to 10000, got 0"),
        ({"decoder_depth": 10**6}, "decoder_depth", "must be from 1 to 10000, got 1000000"),
        ({"width": 9}, "width", "must be a multiple of heads, 2, got 9"),
        ({"width": 9, "heads": 3}, "width", "must be an even number of at least 4, for the positions, got 9"),
        ({"width": 2}, "width", "must be an even number of at least 4, for the positions, got 2"),
        ({"heads": 0}, "heads", "must be at least 1, got 0"),
        ({"hidden": 0}, "hidden", "must be at least 1, got 0"),
        ({"attention_dropout": 1.0}, "attention_dropout", "must be at least 0 and less than 1"),
        ({"tied": "all"}, "tied", "must be decoder or none for vocabularies of 13 and 11, got all"),
        ({"inputs": Inputs((3, 8, 8))}, "inputs", r"must be \(2, positions\) of tokens, got 3×8×8"),
        ({"inputs": Inputs((6,), 13)}, "inputs", r"must be \(2, positions\) of tokens, got 6 tokens of 13"),
        ({"scheme": "skipinit"}, "norm", "must be none for scheme skipinit, got post"),
        ({"scheme": "fixup", "norm": "none"}, "tied", "must be none for scheme fixup"),
        ({"norm": "batch"}, "norm", "batch"),
    ],
)
def test_impossible_arguments(arguments, argument, problem):
    sizes = {"depth": 1, "width": 8, "heads": 2, "inputs": Inputs((2, LONGEST), SOURCE_WORDS)}
    with pytest.raises(ArgumentError, match=problem) as refused:
        create_model("transformer", **{"num_classes": TARGET_WORDS} | sizes | arguments)
    assert refused.value.argument == argument
    assert "\n" not in str(refused.value)


def test_sentences_that_are_too_long():
    inputs, _ = pairs(longest=LONGEST + 1)
    with pytest.raises(InitbenchError, match=rf"^transformer takes sentences of at most {LONGEST} tokens, got 10$"):
        transformer()(inputs)
