"""Evaluation against the definition."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.data.dataset import Split
from initbench.training.evaluate import evaluate


def problem():
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 2, 3, 3, dtype=torch.float64, generator=random)
    split = Split(inputs, torch.randint(4, (50,), generator=random))
    model = create_model("mlp", width=16, norm="batch", dropout=0.5, input_shape=(2, 3, 3), num_classes=4).double()
    model(10 * inputs + 1)  # running statistics that are not those of the data
    return model, split


@pytest.mark.parametrize("batch_size", [7, 50, 1000])
def test_loss_and_error_are_means_over_the_split_in_evaluation_mode(batch_size, monkeypatch):
    monkeypatch.setattr("initbench.training.evaluate.PIXELS_PER_BATCH", batch_size * 3 * 3)
    model, split = problem()
    loss, error = evaluate(model, split)
    logits = model.eval()(split.inputs)
    picked = logits[torch.arange(50), split.targets]
    assert loss == pytest.approx((logits.logsumexp(1) - picked).mean().item(), rel=1e-12)
    assert error == (logits.argmax(1) != split.targets).double().mean().item()


@pytest.mark.parametrize(("side", "sizes"), [(32, [1024, 176]), (64, [256] * 4 + [176]), (2048, [1] * 3)])
def test_batches_hold_as_many_pixels_whatever_the_size_of_the_images(side, sizes):
    """A million, of which the activations of a wide network fit on a small device."""
    inputs = torch.zeros(1, 1, 1, 1).expand(sum(sizes), 1, side, side)
    model, seen = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), []
    model.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])))
    evaluate(model, Split(inputs, torch.zeros(sum(sizes), dtype=torch.int64)))
    assert seen == sizes


def test_modes_statistics_and_random_state_are_left_alone():
    model, split = problem()
    model.norm1.eval()
    modes = [m.training for m in model.modules()]
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    state = torch.get_rng_state()
    evaluate(model, split)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in model.named_buffers())
    assert torch.equal(torch.get_rng_state(), state)


def test_modes_are_restored_after_an_error():
    model, split = problem()
    with pytest.raises(RuntimeError):
        evaluate(nn.Sequential(model, nn.Linear(3, 3)), split)
    assert model.training
