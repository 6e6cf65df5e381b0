"""Admin: the profile's law, the authors' numbers, and what it needs."""

from __future__ import annotations

import math

import pytest
import torch
from small_gpt import gpt, tokens
from small_transformer import pairs, transformer
from torch import nn

import initbench
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.schemes.admin import ShortcutScale

# Of the authors' layers (Transformer-Clinic, base of fairseq 0.9) in PyTorch, seed 0: 6 and 6 layers, width 64, hidden
# 128, 4 heads, 500 words, 16 pairs of 24 tokens, no dropout; seed 1 ends at 2.1518 and 2.5883.
ENCODER = [1, 1.2428, 1.4117, 1.4587, 1.598, 1.6608, 1.7718, 1.8136, 1.9191, 1.9883, 2.0956, 2.1641]
DECODER = [1, 1.2639, 1.4018, 1.5376, 1.5898, 1.6639, 1.7836, 1.8539, 1.9666, 2.0926, 2.1823, 2.2381, 2.3719, 2.4365]
DECODER += [2.4774, 2.5827, 2.6392, 2.6856]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_profile_of_the_authors(seed):
    size = {"depth": 6, "width": 64, "heads": 4, "source": 500, "target": 500, "longest": 24}
    model = transformer(**size, scheme="admin")
    words = torch.randint(2, 500, (16, 2, 24), generator=torch.Generator().manual_seed(seed))
    record = initialize(model, "admin", seed=seed, inputs=words, batches=[(words, words[:, 0])])
    # By the spread between two seeds of the authors' layers, about .1 at the end, with room for other draws.
    assert [*record.conditions["omega"].values()] == pytest.approx(ENCODER + DECODER, abs=0.15)


def observed(model, inputs):
    """Return ω, Var(x) and Var f of each residual branch in a pass in train mode, in the order in which they run."""
    rows, handles = [], []

    def shortcut(module, given, _):
        rows.append([module.scale.unique().item(), given[0], module.scale * given[0]])

    def norm(_, given):
        if len(rows[-1]) == 3:
            rows[-1].append(given[0] - rows[-1][2])

    for module in model.modules():
        if isinstance(module, ShortcutScale):
            handles.append(module.register_forward_hook(shortcut))
        elif isinstance(module, nn.LayerNorm):
            handles.append(module.register_forward_pre_hook(norm))
    model.train()(inputs)
    for handle in handles:
        handle.remove()
    return [(omega, x.var(correction=0).item(), f.var(correction=0).item()) for omega, x, _, f in rows]


@pytest.mark.parametrize(
    ("make", "starts"),
    [
        (lambda: (gpt(depth=3, norm="post", scheme="admin"), tokens(8)), [0]),
        (lambda: (transformer(depth=2, decoder_depth=3, scheme="admin"), pairs(8)), [0, 4]),
    ],
)
def test_the_variances_add_up(make, starts):
    model, batch = make()
    model.double()
    initialize(model, "admin", inputs=batch[0], batches=[batch], base={"name": "xavier", "embedding_std": 0.7})
    rows = observed(model, batch[0])
    for n, (omega, _, _) in enumerate(rows):
        if n in starts:
            assert omega == 1
        else:
            before, x, f = rows[n - 1]
            assert omega**2 == pytest.approx(before**2 * x + f, rel=1e-12)
    assert max(omega for omega, _, _ in rows) > 1.2


def test_the_network_starts_as_before_where_nothing_is_profiled():
    batch = tokens(8)
    model = gpt(norm="post").double()
    torch.testing.assert_close(initbench.rewrite(model, "admin", inputs=batch[0])(batch[0]), model(batch[0]))


def test_dropout_is_on_and_everything_is_restored():
    batch = tokens(64)
    with_dropout, without = (gpt(norm="post", scheme="admin", dropout=rate).eval() for rate in (0.5, 0.0))
    state = torch.get_rng_state()
    records = [
        initialize(model, "admin", inputs=batch[0], batches=[batch], base={"name": "gaussian"})
        for model in (with_dropout, without)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module.training for module in with_dropout.modules())
    wide, narrow = ([*record.conditions["omega"].values()] for record in records)
    # Dropout with rate p multiplies a second moment by 1/(1 - p) = 2.
    assert wide[1] > 1.2 * narrow[1]
    assert records[0].conditions["mode"] == "train"
    assert records[0].cost == {"forward": 1, "backward": 0}


@pytest.mark.parametrize("norm", ["pre", "none"])
def test_another_place_of_the_norm_is_refused(norm):
    with pytest.raises(ArgumentError, match=r"^admin: needs a norm after each addition \(norm: post\), and h\.0 adds"):
        gpt(norm=norm, scheme="admin")


def test_other_networks_are_refused():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    inputs = torch.zeros(1, 3, 8)
    with pytest.raises(ArgumentError, match=r"^admin: TransformerEncoder marks 0 shortcuts of 4 residual branches"):
        initbench.rewrite(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), "admin", inputs=inputs)
    with pytest.raises(InitializationError, match=r"^admin: no shortcut has a scale; initbench\.rewrite"):
        initialize(gpt(norm="post"), "admin", inputs=tokens()[0], batches=[tokens()])
    model = gpt(norm="post", scheme="admin")
    with torch.no_grad():
        model.wte.weight.fill_(math.nan)
    with pytest.raises(
        InitializationError, match=r"^admin: the signal before h\.0\.mlp_shortcut has a variance of nan"
    ):
        initialize(model, "admin", base=None, inputs=tokens()[0], batches=[tokens()])
