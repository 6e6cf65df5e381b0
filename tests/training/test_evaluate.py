"""Evaluation against the definition."""

from __future__ import annotations

import pytest
import torch
from cases import evaluate
from torch import nn

from initbench.architectures.create import create_model
from initbench.data.dataset import Split
from initbench.inputs import Inputs
from initbench.tasks import Task, find_task
from initbench.training.run import evaluation_batch_size, split_totals

TASK = find_task("classification")
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def problem():
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 2, 3, 3, dtype=torch.float64, generator=random)
    split = Split(inputs, torch.randint(4, (50,), generator=random))
    model = create_model("mlp", width=16, norm="batch", dropout=0.5, input_shape=(2, 3, 3), num_classes=4).double()
    model(10 * inputs + 1)  # running statistics that are not those of the data
    return model, split


@pytest.mark.parametrize("batch_size", [7, 50, 1000])
def test_loss_and_error_are_means_over_the_split_in_evaluation_mode(batch_size):
    model, split = problem()
    values = evaluate(model, split, TASK, batch_size)
    logits = model.eval()(split.inputs)
    picked = logits[torch.arange(50), split.targets]
    assert values["loss"] == pytest.approx((logits.logsumexp(1) - picked).mean().item(), rel=1e-12)
    assert values["error"] == (logits.argmax(1) != split.targets).double().mean().item()


class Caching(nn.Linear):
    """Keeps what its weights gave in evaluation until `train` is called, as LeViT keeps its attention biases."""

    kept = None

    def train(self, mode=True):
        self.kept = None if mode else self.kept
        return super().train(mode)

    def forward(self, inputs):
        if self.training:
            return super().forward(inputs)
        self.kept = self.weight.detach().clone() if self.kept is None else self.kept
        return nn.functional.linear(inputs, self.kept, self.bias)


def test_each_evaluation_uses_the_weights_of_that_moment():
    _, split = problem()
    model = nn.Sequential(nn.Flatten(), Caching(18, 4)).double()
    evaluate(model, split, TASK, 20)
    with torch.no_grad():
        model[1].weight.mul_(-3)
    logits = nn.functional.linear(split.inputs.flatten(1), model[1].weight, model[1].bias)
    picked = logits[torch.arange(50), split.targets]
    assert evaluate(model, split, TASK, 20)["loss"] == pytest.approx((logits.logsumexp(1) - picked).mean().item())


@pytest.mark.parametrize(
    ("inputs", "outputs", "size"),
    [
        (Inputs((3, 32, 32)), 10, 1024),
        (Inputs((3, 64, 64)), 1000, 256),
        (Inputs((1, 2048, 2048)), 10, 1),
        (Inputs((8,)), 10, 2**20),
        (Inputs((256,), vocabulary=256), 256, 4096),
    ],
)
def test_batches_hold_as_many_pixels_or_tokens_whatever_the_size_of_a_sample(inputs, outputs, size):
    """A million, of which the activations of a wide network fit on a small device."""
    assert evaluation_batch_size(TASK, inputs, outputs, CPU) == size


def test_batches_on_a_gpu_are_four_times_as_large_on_every_gpu():
    """The size changes the last digits, so a card's free memory must not decide it."""
    image, text = Inputs((3, 224, 224)), Inputs((1024,), 50257)
    assert [evaluation_batch_size(TASK, image, 1000, device) for device in (CPU, GPU)] == [20, 83]
    assert [evaluation_batch_size(PerToken(), text, 50257, device) for device in (CPU, GPU)] == [1, 5]


class PerToken(Task):
    """One output for each token of the vocabulary at each position."""

    metrics = TASK.metrics
    loss = totals = values = constant_predictor = random_targets = None

    def output_shape(self, inputs, outputs):
        return (*inputs.shape, outputs)


PerToken.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(("context", "vocabulary"), [(256, 256), (256, 50257), (1024, 50257), (8192, 200_000)])
def test_outputs_as_large_as_a_vocabulary_fit(context, vocabulary):
    size = evaluation_batch_size(PerToken(), Inputs((context,), vocabulary), vocabulary, CPU)
    assert size == max(1, min(2**20 // context, 2**26 // (context * vocabulary)))
    assert size == 1 or size * context * vocabulary <= 2**26


def test_the_batches_are_of_the_size_that_is_asked_for():
    model, seen = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), []
    model.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])))
    evaluate(model, Split(torch.zeros(1200, 1, 2, 2), torch.zeros(1200, dtype=torch.int64)), TASK, 1024)
    assert seen == [1024, 176]


class Large(type(TASK)):
    """Whose counts are beyond float32, in which 2²⁴ + 1 is 2²⁴."""

    def totals(self, outputs, targets):
        return {"loss": outputs.sum(), "errors": torch.tensor(2**24 + len(targets))}


def test_counts_are_added_exactly():
    split = Split(torch.ones(5, 1), torch.zeros(5, dtype=torch.int64))
    totals = split_totals(nn.Identity(), split, Large(), 1)
    assert totals == {"loss": 5.0, "errors": 5 * (2**24 + 1)}
    assert evaluate(nn.Identity(), split, Large(), 1)["error"] == 2**24 + 1


def test_an_object_with_logits_is_as_good_as_a_tensor():
    model, split = problem()

    class Wrapped(nn.Module):
        def forward(self, x):
            return type("Output", (), {"logits": model(x), "loss": None})()

    model.eval()
    for precision in ("fp32", "bf16"):
        plain = evaluate(model.float(), Split(split.inputs.float(), split.targets), TASK, 16, precision=precision)
        wrapped = evaluate(Wrapped(), Split(split.inputs.float(), split.targets), TASK, 16, precision=precision)
        assert wrapped == plain


def test_modes_statistics_and_random_state_are_left_alone():
    model, split = problem()
    model.norm1.eval()
    modes = [m.training for m in model.modules()]
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    state = torch.get_rng_state()
    evaluate(model, split, TASK, 16)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in model.named_buffers())
    assert torch.equal(torch.get_rng_state(), state)


def test_modes_are_restored_after_an_error():
    model, split = problem()
    with pytest.raises(RuntimeError):
        evaluate(nn.Sequential(model, nn.Linear(3, 3)), split, TASK, 16)
    assert model.training
