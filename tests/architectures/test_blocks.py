"""The layers that the architectures share: group normalization and stochastic depth."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures.blocks import make_drop_path, make_norm
from initbench.architectures.create import create_model


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("shape", "dimensions"), [((3, 48, 4, 5), 2), ((3, 48), 1)])
def test_group_norm_standardizes_each_sample_over_16_channels(shape, dimensions):
    layer = make_norm("group", 48, dimensions).double()
    layer.weight.data, layer.bias.data = random(48, seed=1), random(48, seed=2)
    x = 5 + 3 * random(*shape)
    expected = torch.empty_like(x)
    for sample in range(3):
        for first in (0, 16, 32):
            group = x[sample, first : first + 16]
            variance = ((group - group.mean()) ** 2).mean()
            expected[sample, first : first + 16] = (group - group.mean()) / (variance + 1e-5) ** 0.5
    per_channel = (48,) + (1,) * (len(shape) - 2)
    expected = expected * layer.weight.view(per_channel) + layer.bias.view(per_channel)
    torch.testing.assert_close(layer(x), expected, rtol=1e-12, atol=1e-12)  # float64 rounding of 320 terms


@pytest.mark.parametrize("name", ["wrn", "plain", "mlp"])
def test_with_group_norm_a_sample_does_not_see_its_batch_nor_the_mode(name):
    model = create_model(name, depth=10, width=32 if name == "mlp" else 2, norm="group", input_shape=(1, 8, 8)).double()
    assert not list(model.buffers())
    assert not [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    x = random(4, 1, 8, 8)
    together = model(x)
    assert torch.equal(model.eval()(x), together)
    alone = torch.cat([model(sample[None]) for sample in x])
    # Matrix products of other sizes round otherwise; a batch statistic would differ by about 1.
    torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("features", [8, 17, 24, 100])
def test_group_norm_refuses_features_that_are_no_multiple_of_16(features):
    with pytest.raises(ValueError, match=f"^features must be a multiple of 16 for norm group, got {features}$"):
        make_norm("group", features, 2)


def test_drop_path_drops_whole_samples_and_keeps_the_mean():
    torch.manual_seed(0)
    x = 1 + torch.rand(4096, 3, 2, 2, dtype=torch.float64)
    y = make_drop_path(0.25)(x)
    dropped = (y == 0).flatten(1)
    kept = ~dropped.any(1)
    assert torch.equal(dropped.any(1), dropped.all(1))
    torch.testing.assert_close(y[kept], x[kept] / 0.75, rtol=1e-15, atol=0)
    assert abs(kept.double().mean() - 0.75) < 0.027  # 4 standard deviations, √(0.75 · 0.25 / 4096) each
    assert abs(y.mean() / x.mean() - 1) < 0.04  # the same, divided by 0.75


def test_drop_path_is_the_identity_at_evaluation_and_at_rate_0():
    x = random(8, 3, 2, 2)
    assert torch.equal(make_drop_path(0.9).eval()(x), x)
    assert isinstance(make_drop_path(0.0), nn.Identity)
