"""fairseq's two defaults: the law of each tensor, on our Transformer and on others, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from recorded import ONES, ZEROED, drawn, tied
from small_gpt import CONTEXT, VOCABULARY, gpt
from small_transformer import LONGEST, SOURCE_WORDS, transformer
from torch import nn
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import PAD, Inputs

NAMES = ["fairseq", "fairseq_0_9"]
TOKENS = Inputs((2, LONGEST), SOURCE_WORDS)
WIDTH = 512
ATTENTIONS = ["encoder.layers.0.self_attn", "decoder.layers.0.self_attn", "decoder.layers.0.encoder_attn"]
PARTS = ["encoder.layers.0.feed_forward", "decoder.layers.0.feed_forward"]


def check_uniform(model, record, name, bound, std):
    """The bound to 1e-6, and the deviation of the drawn entries, 262,144 or more, to 1 %."""
    [event] = record.tensors[name]
    assert (event["law"], event["bound"]) == ("uniform", pytest.approx(bound, abs=1e-6))
    values = model.get_parameter(name).detach()
    assert values.abs().max() <= bound * (1 + 1e-6)
    if values.dim() == 2:
        assert values.std().item() == pytest.approx(std, rel=0.01)
        assert values.abs().max() > 0.999 * bound


@pytest.mark.parametrize("name", NAMES)
def test_the_laws_at_fairseqs_size(name):
    model = transformer(depth=1, width=WIDTH, heads=4, source=600, target=500, tied="none")
    record = initialize(model, name, inputs=TOKENS)
    for attention in ATTENTIONS:
        for role in "qkv":
            check_uniform(model, record, f"{attention}.{role}_proj.weight", 0.0541266, 0.03125)
            check_uniform(model, record, f"{attention}.{role}_proj.bias", 1 / math.sqrt(WIDTH), None)
        check_uniform(model, record, f"{attention}.out_proj.weight", 0.0765466, 0.0441942)
        assert record.tensors[f"{attention}.out_proj.bias"] == [ZEROED]
    for part in PARTS:
        for layer, bound, std in (("fc1", 0.0441942, 0.0255155), ("fc2", 0.03125, 0.0180422)):
            if name == "fairseq":
                check_uniform(model, record, f"{part}.{layer}.weight", bound, std)
                check_uniform(model, record, f"{part}.{layer}.bias", bound, None)
            else:
                check_uniform(model, record, f"{part}.{layer}.weight", 0.0625, 0.0360844)
                assert record.tensors[f"{part}.{layer}.bias"] == [ZEROED]
    for stack in ("encoder", "decoder"):
        weight = model.get_parameter(f"{stack}.embed_tokens.weight").detach()
        assert weight[PAD].eq(0).all()
        assert weight[PAD + 1 :].std().item() == pytest.approx(WIDTH**-0.5, rel=0.01)
        assert record.tensors[f"{stack}.layers.0.final_layer_norm.weight"] == [ONES]
        assert record.tensors[f"{stack}.layers.0.final_layer_norm.bias"] == [ZEROED]
    assert record.tensors["decoder.output_projection.weight"] == [drawn("normal", std=1 / math.sqrt(WIDTH))]
    head = model.decoder.output_projection.weight.detach()
    assert head.std().item() == pytest.approx(WIDTH**-0.5, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_all_tensors_are_set_and_a_tied_head_follows_its_embedding(name):
    model = transformer(source=11, tied="all", norm="pre")
    record = initialize(model, name, inputs=TOKENS)
    assert set(record.tensors) == {parameter for parameter, _ in model.named_parameters(remove_duplicate=False)}
    first = "encoder.embed_tokens.weight"
    [event] = record.tensors[first]
    assert (event["std"], event["padding_row"]) == (1 / math.sqrt(8), PAD)
    for other in ("decoder.embed_tokens", "decoder.output_projection"):
        assert record.tensors[f"{other}.weight"] == [tied(first)]
    assert not any(event["event"] == "untouched" for events in record.tensors.values() for event in events)


def test_torchs_own_attention_has_the_law_of_separate_projections():
    """Torch stacks queries, keys and values in one weight (3d, d), and draws it by the same law."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, WIDTH)
            self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, 11)

        def forward(self, tokens):
            return self.head(self.layer(self.embed(tokens)))

    model = Words()
    built = model.layer.self_attn.in_proj_weight.detach().clone()
    record = initialize(model, "fairseq", inputs=Inputs((CONTEXT,), VOCABULARY))
    check_uniform(model, record, "layer.self_attn.in_proj_weight", 0.0541266, 0.03125)
    assert built.abs().max().item() == pytest.approx(0.0541266, rel=1e-3)
    check_uniform(model, record, "layer.self_attn.in_proj_bias", 1 / math.sqrt(WIDTH), None)
    check_uniform(model, record, "layer.self_attn.out_proj.weight", 0.0765466, 0.0441942)
    check_uniform(model, record, "layer.linear2.weight", 0.03125, 0.0180422)
    assert record.tensors["head.bias"] == [ZEROED]


def test_on_gpt():
    model = gpt(tied=False)
    record = initialize(model, "fairseq_0_9", inputs=Inputs((CONTEXT,), VOCABULARY))
    for name, bound in (("attn.c_k", math.sqrt(6 / 32)), ("attn.c_proj", math.sqrt(6 / 16))):
        [event] = record.tensors[f"h.1.{name}.weight"]
        assert event["bound"] == pytest.approx(bound)
    [event] = record.tensors["h.1.mlp.c_proj.weight"]
    assert event["bound"] == pytest.approx(math.sqrt(6 / 40))
    for name in ("wte", "wpe"):
        assert record.tensors[f"{name}.weight"] == [drawn("normal", std=1 / math.sqrt(8), part="embedding")]
    assert record.tensors["lm_head.weight"] == [drawn("normal", std=1 / math.sqrt(8))]


def test_a_layer_for_queries_keys_and_values_counts_as_three():
    """That of Hugging Face's GPT-2, whose weight is (inputs, outputs)."""
    pytest.importorskip("transformers")
    sizes = {"n_embd": 24, "n_layer": 1, "n_head": 2, "n_positions": CONTEXT}
    tokens = Inputs((CONTEXT,), VOCABULARY)
    model = create_model("hf/gpt2", inputs=tokens, num_classes=VOCABULARY, **sizes)
    record = initialize(model, "fairseq", inputs=tokens)
    [event] = record.tensors["transformer.h.0.attn.c_attn.weight"]
    assert event["bound"] == pytest.approx(math.sqrt(6 / (4 * 24)))


class Projected(nn.Module):
    """An attention whose queries, keys and values, 24 features in all, come from the given layers, by size."""

    def __init__(self, *sizes: int, split: tuple[int, ...] = (8, 8, 8)) -> None:
        super().__init__()
        self.split = split
        self.embed = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(nn.Linear(8, size) for size in sizes)
        self.out = nn.Linear(split[-1], 8)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = torch.cat([layer(x) for layer in self.layers], -1).split(self.split, -1)
        return self.head(self.out(functional.scaled_dot_product_attention(q, k, v)))


def patches():
    """A convolution before an attention, as in vision transformers."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(2), layer, nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("model", "inputs", "reason"),
    [
        (lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), Inputs((8,)), "is for Transformers, and"),
        (patches, Inputs((3, 2, 5)), "has no law for 0, a layer of kind convolution"),
        (lambda: Projected(25, split=(9, 9, 7)), Inputs((4,), 11), "layers.0 has queries, keys and values of unknown"),
        (lambda: Projected(8, 16), Inputs((4,), 11), "one layer of Projected computes two of"),
        (transformer, None, "give inputs or input_shape"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_other_networks_are_refused_in_one_line(name, model, inputs, reason):
    with pytest.raises(InitializationError, match=reason) as refused:
        initialize(model(), name, inputs=inputs)
    assert "\n" not in str(refused.value)
