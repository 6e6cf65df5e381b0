"""DeepNorm: the paper's constants, the fold of α into the ends of branches, and the law of each weight."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from small_gpt import gpt
from small_transformer import pairs, transformer
from torch import nn

import initbench
from initbench.architectures.create import create_model
from initbench.architectures.scalars import ConstantMultiplier
from initbench.architectures.style import Shortcut
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.deepnorm import betas
from initbench.initializers.initialize import initialize
from initbench.schemes.deepnorm import alphas
from initbench.schemes.replacing import replace_modules
from initbench.structure.find import find_structure
from initbench.structure.stacks import Stack, transformer_stacks

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9]])


@pytest.mark.parametrize(
    ("layers", "constants"),
    [
        # N = M: α and β of the encoder, then of the decoder; Figure 2 of the paper
        ((6, 6), (1.4179381, 0.4969892, 2.0597671, 0.3432945)),
        ((12, 12), (1.7608776, 0.4001982, 2.4494897, 0.2886751)),
        ((18, 18), (1.9987463, 0.3525710, 2.7108060, 0.2608474)),
        ((100, 100), (3.4157417, 0.2063095, 4.1617915, 0.1699044)),
        ((6,), (1.8612097, 0.3799178)),
        ((12,), (2.2133638, 0.3194716)),
        ((24,), (2.6321480, 0.2686425)),
    ],
)
def test_the_constants_of_the_paper(layers, constants):
    kinds = ("single",) if len(layers) == 1 else ("encoder", "decoder")
    stacks = tuple(Stack(kind, number, ()) for kind, number in zip(kinds, layers, strict=True))
    both = [value for pair in zip(alphas(stacks), betas(stacks), strict=True) for value in pair]
    assert both == pytest.approx(constants, abs=5e-8, rel=0)  # the last digit printed


def test_the_stacks_of_networks():
    single = transformer_stacks(find_structure(gpt(depth=3, norm="post"), TOKENS))
    assert [(stack.kind, stack.layers, len(stack.branches)) for stack in single] == [("single", 3, 6)]
    pair = transformer_stacks(find_structure(transformer(depth=2, decoder_depth=3), pairs()[0]))
    assert [(stack.kind, stack.layers, len(stack.branches)) for stack in pair] == [
        ("encoder", 2, 4),
        ("decoder", 3, 9),
    ]


def shortcuts_times(model, factors):
    """The network of the paper: norm(α·x + f(x)), with the norms' own ε."""
    shortcuts = [module for module in model.modules() if isinstance(module, Shortcut)]
    replace_modules(model, {s: ConstantMultiplier(f) for s, f in zip(shortcuts, factors, strict=True)})
    return model


def test_the_fold_gives_the_same_outputs():
    inputs = pairs()[0]
    model = transformer(depth=2, decoder_depth=3).double().eval()
    for norm in (m for m in model.modules() if isinstance(m, nn.LayerNorm)):
        norm.eps = 0.1  # at 1e-5 a fold without ε would pass
    folded = initbench.rewrite(model, "deepnorm", inputs=inputs)
    alpha = [0.81 * (2**4 * 3) ** (1 / 16)] * 4 + [9**0.25] * 9
    outputs, expected = folded(inputs), shortcuts_times(model, alpha)(inputs)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
    assert (outputs - transformer(depth=2, decoder_depth=3).double()(inputs)).abs().max() > 1e-3


def test_pytorchs_layers_are_evaluated_as_they_are_trained():
    """In evaluation they call a kernel that would skip the multipliers."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    inputs = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
    folded = initbench.rewrite(encoder, "deepnorm", inputs=inputs).eval()
    expected = folded(inputs)
    with torch.no_grad():
        torch.testing.assert_close(copy.deepcopy(folded)(inputs), expected, rtol=0, atol=1e-5)


def test_alpha_is_an_argument():
    model = gpt(depth=2, norm="post").double()
    folded = initbench.rewrite(model, "deepnorm", inputs=TOKENS, alpha=3.0)
    assert [m.factor for m in folded.modules() if isinstance(m, ConstantMultiplier)] == [1 / 3] * 4
    assert {m.eps for m in folded.modules() if isinstance(m, nn.LayerNorm)} == {1e-5 / 9}
    with pytest.raises(ArgumentError, match=r"^alpha must be a finite number above 0, got 0\.0$"):
        initbench.rewrite(model, "deepnorm", inputs=TOKENS, alpha=0.0)


def expected_std(name, model, encoder, decoder):
    """The deviation by fairseq's names, from Figure 2 of the paper."""
    weight = model.get_parameter(name)
    beta = encoder if name.startswith("encoder.") else decoder
    gain = beta if any(part in name for part in ("fc1", "fc2", "v_proj", "out_proj")) else 1.0
    return gain * math.sqrt(2 / sum(weight.shape))


def test_the_law_of_each_weight():
    inputs = pairs()[0]
    model = transformer(depth=2, decoder_depth=3, width=64, scheme="deepnorm", tied="none")
    record = initialize(model, "deepnorm", inputs=inputs)
    encoder, decoder = 0.87 * (2**4 * 3) ** (-1 / 16), 36**-0.25
    for name, parameter in model.named_parameters():
        if "proj.weight" in name or ("fc" in name and name.endswith("weight")) or "output_projection" in name:
            std = expected_std(name, model, encoder, decoder)
            assert record.tensors[name][-1]["std"] == pytest.approx(std, rel=1e-12)
            # Of n normal entries the deviation has a relative error of 1/√(2n).
            assert parameter.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * parameter.numel()))
        elif "embed_tokens" in name:
            assert record.tensors[name][-1]["std"] == pytest.approx(64**-0.5)
        elif name.endswith("bias"):
            assert not parameter.any()
    assert record.conditions["encoder"] == {"layers": 2, "beta": encoder}
    assert record.conditions["decoder"] == {"layers": 3, "beta": decoder}


class Encoder(nn.Module):
    """PyTorch's own encoder, in whose attention one weight computes queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 64)
        layer = nn.TransformerEncoderLayer(64, 2, 128, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 5)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


def test_values_in_one_weight_with_queries_and_keys():
    model = initbench.rewrite(Encoder(), "deepnorm", inputs=TOKENS)
    initialize(model, "deepnorm", inputs=TOKENS)
    queries, keys, values = model.layers.layers[0].self_attn.in_proj_weight.chunk(3)
    xavier, relative_error = math.sqrt(2 / 128), 5 / math.sqrt(2 * 64 * 64)
    for part, gain in ((queries, 1), (keys, 1), (values, 16**-0.25)):
        assert part.std().item() == pytest.approx(gain * xavier, rel=relative_error)


@pytest.mark.parametrize(("norm", "where"), [("pre", "h.0"), ("none", "h.0")])
def test_another_place_of_the_norm_is_refused(norm, where):
    reason = rf"^deepnorm: needs a norm after each addition \(norm: post\), and {where} adds without one$"
    with pytest.raises(ArgumentError, match=reason):
        initbench.rewrite(gpt(depth=2, norm=norm), "deepnorm", inputs=TOKENS)
    with pytest.raises(ArgumentError, match=r"^deepnorm: needs a norm after each addition"):
        transformer(norm=norm, scheme="deepnorm")


def test_other_networks_are_refused():
    with pytest.raises(ArgumentError, match=r"^deepnorm: needs one stack .* 0 attentions with 3 other branches$"):
        create_model("wrn", depth=10, width=1, scheme="deepnorm")
    with pytest.raises(InitializationError, match=r"^deepnorm: no shortcut is multiplied by α; initbench\.rewrite"):
        initialize(gpt(depth=2, norm="post"), "deepnorm", inputs=TOKENS)
