"""Embeddings: N(0, .02²) where an initializer has no law for them, its own where it has one."""

from __future__ import annotations

import math
from collections import OrderedDict

import pytest
import torch
from recorded import FROZEN, UNTOUCHED, ZEROED, drawn, tied
from scipy import stats
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from initbench import randomness
from initbench.initializers.initialize import initialize
from initbench.registry import INITIALIZERS

KEPT = 0.9865784  # of the deviation of a normal law behind a cut at ±3
OF_THEIR_OWN = {"pytorch_default": 1.0, "gpt2": 0.02, "small_init": math.sqrt(2 / (5 * 8)), "llama": 1.0}
OF_THEIR_OWN |= {"mitchell": KEPT / math.sqrt(8), "fairseq": 8**-0.5, "fairseq_0_9": 8**-0.5}  # of 8 features
ON_OTHER_NETWORKS = {"deepnorm", "tfixup"}  # with tests of their own
LAWS = sorted(
    name
    for name in INITIALIZERS.builtins
    if any(argument.name == "embedding_std" for argument in INITIALIZERS.get(name).arguments)
)
ANY_MODEL = [
    name for name in LAWS if name not in {"completep", "fixup", "layer_scale", "mup", "skipinit", "weight_norm"}
]


class Words(nn.ModuleDict):
    """Layers that run in one order, whatever the order in which they are registered."""

    def forward(self, x):
        for name in ("words", "a", "b", "head"):
            x = self[name](x) if name in self else x
        return x


def tokens(rows=400, width=32, padding=None):
    return Words(
        {"words": nn.Embedding(rows, width, padding_idx=padding), "a": nn.Linear(width, 16), "head": nn.Linear(16, 4)}
    )


def test_every_initializer_that_draws_has_a_law():
    """Those that start from another one leave embeddings to it."""
    starts = {name for name in INITIALIZERS.builtins if INITIALIZERS.get(name).initializer_arguments}
    assert set(LAWS) | set(OF_THEIR_OWN) | starts | ON_OTHER_NETWORKS == set(INITIALIZERS.builtins)
    assert all(INITIALIZERS.get(name).defaults["embedding_std"] == 0.02 for name in LAWS)


@pytest.mark.parametrize("std", [0.02, 0.5])
@pytest.mark.parametrize("name", ANY_MODEL)
def test_the_standard_deviation(name, std):
    """χ²: (n − 1) s² / σ² of n normal entries, within its central 1 − 10⁻⁶."""
    model = tokens().double()
    record = initialize(model, name, embedding_std=std, seed=2)
    values = model["words"].weight.detach().flatten()
    low, high = stats.chi2.interval(1 - 1e-6, len(values) - 1)
    assert low < values.var().item() * (len(values) - 1) / std**2 < high
    assert stats.kstest(values.numpy() / std, stats.norm.cdf).pvalue > 1e-3
    assert record.tensors["words.weight"] == [drawn("normal", std=std, part="embedding")]


@pytest.mark.parametrize("name", ANY_MODEL)
def test_they_have_a_stream_of_their_name_and_shift_no_other(name):
    model, without = tokens(), tokens()
    del without["words"]
    initialize(model, name, seed=4)
    initialize(without, name, seed=4)
    generator = randomness.generator(4, "weights", "words.weight")
    assert torch.equal(model["words"].weight, torch.empty(400, 32).normal_(0.0, 0.02, generator=generator))
    for key in ("a", "head"):
        assert torch.equal(model[key].weight, without[key].weight)


@pytest.mark.parametrize(("name", "std"), OF_THEIR_OWN.items())
def test_laws_that_stay(name, std):
    model = nn.Sequential(OrderedDict(words=nn.Embedding(2000, 8), encoder=nn.TransformerEncoderLayer(8, 2, 16)))
    initialize(model, name)
    assert model.words.weight.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * 16000))


@pytest.mark.parametrize("name", ["kaiming", "pytorch_default", "gpt2", "mitchell", "fairseq"])
def test_the_row_of_padding_is_zero(name):
    model = nn.Sequential(OrderedDict(words=nn.Embedding(9, 8, padding_idx=3), e=nn.TransformerEncoderLayer(8, 2, 16)))
    nn.init.ones_(model.words.weight)
    record = initialize(model, name)
    zero = model.words.weight.eq(0).all(1).tolist()
    assert zero == [row == 3 for row in range(9)]
    assert record.tensors["words.weight"][0]["padding_row"] == 3


@pytest.mark.parametrize("first", ["words", "head"])
@pytest.mark.parametrize("name", ANY_MODEL)
def test_a_head_that_is_tied_follows_the_embedding(name, first):
    """Whichever of the two is registered first, and gives the parameter its name."""
    parts = {"words": nn.Embedding(64, 8), "a": nn.Linear(8, 8), "b": nn.Linear(8, 8), "head": nn.Linear(8, 64)}
    parts["head"].weight = parts["words"].weight
    model = Words({first: parts.pop(first), **parts})
    record = initialize(model, name)
    other = {"words": "head", "head": "words"}[first]
    assert record.tensors[f"{first}.weight"] == [drawn("normal", std=0.02, part="embedding")]
    assert record.tensors[f"{other}.weight"] == [tied(f"{first}.weight")]
    assert record.tensors["head.bias"] == [ZEROED]
    assert model["words"].weight is model["head"].weight
    assert model["words"].weight.std().item() == pytest.approx(0.02, rel=5 / math.sqrt(2 * 512))


def test_frozen_ones_and_bags_and_parametrized_ones():
    model = nn.ModuleDict(
        {
            "frozen": nn.Embedding(5, 4).requires_grad_(requires_grad=False),
            "bag": nn.EmbeddingBag(5, 4),
            "normalized": weight_norm(nn.Embedding(5, 4)),
            "spectral": nn.utils.parametrizations.spectral_norm(nn.Embedding(5, 4)),
        }
    )
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.warns(UserWarning, match=r"passes over 1 of 3 weights: spectral\.parametrizations"):
        record = initialize(model, "kaiming")
    assert record.tensors["frozen.weight"] == [FROZEN]
    assert torch.equal(model["frozen"].weight, before["frozen.weight"])
    assert record.tensors["bag.weight"] == [drawn("normal", std=0.02, part="embedding")]
    v = "normalized.parametrizations.weight.original1"
    assert record.tensors[v] == [drawn("normal", std=0.02, part="embedding", direction=True)]
    assert model["normalized"].weight.std().item() < 0.1
    assert record.tensors["spectral.parametrizations.weight.original"] == [UNTOUCHED]


def test_looks_linear_with_a_tied_head_is_linear():
    """The embedding and its head are not mirrored, all between them is."""
    model = nn.ModuleDict(
        {"words": nn.Embedding(6, 4), "a": nn.Linear(4, 8), "b": nn.Linear(8, 4), "head": nn.Linear(4, 6)}
    )
    model["head"].weight = model["words"].weight
    initialize(model.double(), "looks_linear", embedding_std=1.0)

    def logits(x):
        return model["head"](model["b"](model["a"](x).relu()))

    x, y = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(logits(x + y), logits(x) + logits(y), rtol=0, atol=1e-13)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru, self.head = nn.Embedding(11, 4), nn.GRU(4, 6), nn.Linear(6, 3)

    def forward(self, tokens):
        return self.head(self.gru(self.embedding(tokens))[0])


def test_the_weights_of_a_recurrent_layer_count_even_if_the_model_cannot_run():
    with pytest.warns(UserWarning, match="passes over 2 of 4 weights: gru.weight_ih_l0 .*, gru.weight_hh_l0") as runs:
        initialize(Recurrent(), "kaiming", inputs=torch.zeros(8, 20, dtype=torch.int64))
    with pytest.warns(
        UserWarning, match="cannot run|passes over"
    ) as fails:  # the shape of a batch of numbers, not of tokens
        record = initialize(Recurrent(), "kaiming", input_shape=(8, 20))
    cannot, passes = (str(warning.message) for warning in fails)
    assert passes == str(runs[0].message)
    assert cannot.startswith("kaiming cannot run the model to find its weights, and finds them by the types of its ")
    assert "(1, 20)" in cannot
    assert (record.coverage.weights, record.coverage.set) == (4, 2)
    assert all(warning.filename == __file__ for warning in fails)
