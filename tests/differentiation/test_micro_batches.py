"""What a batch is split into, and what is refused because its loss is not a sum over micro-batches."""

from __future__ import annotations

import pytest
import torch
from cases import batch, conv_net, randomize
from small_gpt import VOCABULARY, gpt, next_token_loss, tokens
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from initbench.differentiation.micro_batches import losses_of, micro_batches
from initbench.errors import ArgumentError
from initbench.tasks import find_task


def linear(*layers):
    """A linear network for (5, 4) inputs and 3 classes, in training mode."""
    return randomize(nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 3)))


def refused(model, data, loss_fn=cross_entropy, size=2):
    with pytest.raises(ArgumentError) as caught:
        micro_batches(model, data, loss_fn, size)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("micro_batch_size ")
    return message


def test_the_parts_are_the_batch_in_its_order():
    inputs, targets = batch((5, 4), 3)
    parts = micro_batches(linear(), (inputs, targets), cross_entropy, 2)
    assert [len(part.inputs) for part in parts] == [2, 2, 1]
    assert [part.share for part in parts] == [0.4, 0.4, 0.2]
    assert torch.equal(torch.cat([part.inputs for part in parts]), inputs)
    assert torch.equal(torch.cat([part.targets for part in parts]), targets)


def test_a_share_counts_the_targets_that_the_loss_is_a_mean_over():
    """Of blocks with padding, which PyTorch's cross-entropy leaves out, a mean of means would be another loss."""
    model, (inputs, targets) = randomize(gpt(depth=1), 0.3), tokens(5)
    targets[0, 1:], targets[2:4] = -100, -100
    task = find_task("language_modelling")
    for weight in (None, task.weight):  # a task counts its samples, whatever is left out of them
        parts = micro_batches(model, (inputs, targets), task.loss, 2, weight)
        assert [part.share for part in parts] == [7 / 13, 6 / 13]  # the second micro-batch has no targets
    losses = losses_of(model, (inputs, targets), next_token_loss, 2)
    whole = next_token_loss(model(inputs), targets).item()
    assert sum(loss_of(model).item() for loss_of in losses) == pytest.approx(whole, rel=1e-13)
    means = [next_token_loss(model(part.inputs), part.targets).item() for part in parts]
    assert sum(means) / 2 != pytest.approx(whole, rel=1e-3)


def test_where_one_micro_batch_has_all_targets_the_others_are_not_run():
    model, (inputs, targets) = randomize(gpt(depth=1), 0.3), tokens(6)
    targets[:4] = -100
    [loss_of] = losses_of(model, (inputs, targets), next_token_loss, 2)
    seen = []
    model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    assert loss_of(model).item() == pytest.approx(next_token_loss(model(inputs), targets).item(), rel=1e-13)
    assert seen == [2, 6]


def test_a_batch_without_targets_has_the_loss_of_the_whole():
    model, (inputs, targets) = randomize(gpt(depth=1), 0.3), tokens(4)
    losses = losses_of(model, (inputs, torch.full_like(targets, -100)), next_token_loss, 2)
    assert sum(loss_of(model) for loss_of in losses).isnan()


def test_batch_norm_in_training_mode_is_refused():
    model = linear(nn.BatchNorm1d(4))
    message = refused(model, batch((5, 4), 3))
    assert "BatchNorm (1) takes the statistics of the batch" in message
    assert "eval mode" in message
    micro_batches(model.eval(), batch((5, 4), 3), cross_entropy, 2)
    assert "BatchNorm (1)" in refused(linear(nn.BatchNorm1d(4, track_running_stats=False)).eval(), batch((5, 4), 3))


class Centred(nn.Module):
    """A norm on the statistics of the batch that nobody's list of classes has."""

    def forward(self, x):
        return x - x.mean(0) if self.training else x


def test_so_is_every_norm_on_the_statistics_of_the_batch():
    model = linear(Centred())
    assert "depends on the other samples" in refused(model, batch((5, 4), 3))
    assert "depends on the other samples" in refused(model, batch((5, 4), 3), size=1)
    micro_batches(model.eval(), batch((5, 4), 3), cross_entropy, 2)


def test_norms_over_one_sample_are_not():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.LayerNorm(3), nn.Flatten(), nn.Linear(36, 3)
    )
    assert len(micro_batches(randomize(model), batch((5, 2, 5, 5), 3), cross_entropy, 2)) == 3


class Noise(nn.Module):
    """Random numbers from a function, as of stochastic depth."""

    def forward(self, x):
        return x + torch.randn_like(x) if self.training else x


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), Noise()])
def test_random_numbers_are_refused(layer):
    model = linear(layer)
    assert "draws random numbers" in refused(model, batch((5, 4), 3))
    micro_batches(model.eval(), batch((5, 4), 3), cross_entropy, 2)


WEIGHTS = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)


@pytest.mark.parametrize(
    "loss_fn",
    [
        lambda outputs, targets: cross_entropy(outputs, targets, reduction="sum"),
        lambda outputs, targets: cross_entropy(outputs, targets, weight=WEIGHTS),
        lambda outputs, targets: cross_entropy(outputs, targets, ignore_index=0),
        lambda outputs, _: outputs.var(),
        lambda outputs, _: (outputs @ outputs.T).mean(),
    ],
    ids=["sum", "weighted", "other padding", "variance", "pairs"],
)
def test_a_loss_that_is_no_mean_over_samples_is_refused(loss_fn):
    inputs, _ = batch((5, 4), 3)
    assert "not the mean over samples" in refused(linear(), (inputs, torch.tensor([0, 1, 2, 1, 2])), loss_fn)


def test_it_is_refused_too_where_all_losses_are_equal():
    """A head of zeros gives each sample the loss ln 3, with any shares."""
    model = linear()
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    other = lambda outputs, targets: cross_entropy(outputs, targets, ignore_index=0)  # noqa: E731
    inputs, _ = batch((5, 4), 3)
    assert "not the mean over samples" in refused(model, (inputs, torch.tensor([0, 1, 2, 1, 2])), other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("loss_fn", "shape"),
    [
        (cross_entropy, (5,)),
        (mse_loss, (5, 3)),
        (lambda outputs, targets: cross_entropy(outputs, targets, label_smoothing=0.1), (5,)),
        (lambda outputs, _: outputs.square().mean(), (5,)),
        (lambda outputs, _: outputs.sum() * 0 + 1, (5,)),
    ],
)
def test_means_over_samples_are_taken(loss_fn, shape, dtype):
    inputs, classes = batch((5, 4), 3, dtype=dtype)
    targets = classes if len(shape) == 1 else torch.ones(shape, dtype=dtype)
    assert len(micro_batches(linear().to(dtype), (inputs, targets), loss_fn, 2)) == 3


def test_targets_must_be_those_of_the_samples():
    inputs, targets = batch((4, 2, 5, 5), 3)
    message = refused(randomize(conv_net()), (inputs, targets[:3]))
    assert "splits 4 samples and needs targets for each, got shape (3,)" in message
    flat = nn.Sequential(gpt(depth=1), nn.Flatten(0, 1))
    message = refused(flat, tokens(4), lambda outputs, targets: cross_entropy(outputs, targets.flatten()))
    assert f"needs a model with one output for each of 2 samples, got shape (12, {VOCABULARY})" in message
    assert refused(randomize(conv_net()), (inputs, targets), size=0) == "micro_batch_size must be at least 1, got 0"
